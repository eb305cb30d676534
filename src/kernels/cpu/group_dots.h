// Products of few rows of floats with rows of small integers that share a scale per group, as
// layers with weights of 8 or 4 bits have them: the weights are read once, as they lie.
#pragma once
#include <cstdint>

#include "kernels/cpu/isa.h"

namespace rl::kernels {

// Groups are made of blocks of so many elements.
inline constexpr int64_t group_block = 32;

struct GroupDots {
  const float* x;  // rows of `terms`; of 4 bits, the even elements of a block before its odd ones
  const void* weights;  // a row of `terms` int8 per column, or of half as many bytes: two of 4
                        // bits, the first one below, each 8 too large
  const float* scales;  // terms / group of them per column
  float* out;           // rows of `columns`
  int64_t rows, columns, terms, group;
  bool four_bits;
};

// Columns [begin, end) of the result.
RL_ISA_KERNEL(group_dots, (const GroupDots& p, int64_t begin, int64_t end))

}  // namespace rl::kernels
