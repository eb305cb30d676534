// The loops over the keys of lines that lie side by side (sort_panel.h): row j holds element j of
// each of `width` lines, n rows follow each other, and an operation goes across many lines at once.
#pragma once
#include <cstdint>

#include "kernels/cpu/isa.h"

namespace rl::kernels {

// Sorts each line, which needs no branch and no memory. Where places are given, they follow their
// keys and order those that are equal.
RL_ISA_KERNEL(sort_columns, (int64_t* keys, int64_t* places, int64_t n, int64_t width))

// Of each sorted line, how many keys are not above `last`.
RL_ISA_KERNEL(count_columns,
              (const int64_t* keys, int64_t last, int64_t n, int64_t width, int64_t* counts))

// Of each sorted line, the row that ends the longest run of keys that are equal but for their
// lowest `shift` bits, the first of several such. Keys above `last` are equal to none.
RL_ISA_KERNEL(longest_runs, (const int64_t* keys, int shift, int64_t last, int64_t n, int64_t width,
                             int64_t* rows))

}  // namespace rl::kernels
