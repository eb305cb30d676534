// The loops over the keys of lines that lie side by side (sort_panel.h): row j holds element j of
// each of `width` lines, n rows follow each other, and an operation goes across many lines at once.
#pragma once
#include <cstdint>

#include "kernels/cpu/isa.h"

namespace rl::kernels {

// Of some keys, the least and the greatest, and the bits in which not all agree.
struct KeyRange {
  uint64_t least, greatest, differing;
};
RL_ISA_KERNEL(find_range_narrow, (const uint32_t* keys, int64_t count, KeyRange* range))
RL_ISA_KERNEL(find_range_wide, (const uint64_t* keys, int64_t count, KeyRange* range))

// How a key and its place, the number of its row, share one positive number: what the key is above
// the least, shifted up as far as that of the greatest allows, and in the lowest bits the place.
struct Packing {
  static constexpr int place_bits = 8;
  static constexpr int64_t last_place = (int64_t(1) << place_bits) - 1;
  uint64_t least;
  int shift;
};
RL_ISA_KERNEL(pack_rows_narrow, (const uint32_t* keys, const Packing& packing, int64_t n,
                                 int64_t width, int32_t* packed))
RL_ISA_KERNEL(pack_rows_widened, (const uint32_t* keys, const Packing& packing, int64_t n,
                                  int64_t width, int64_t* packed))
RL_ISA_KERNEL(pack_rows_wide, (const uint64_t* keys, const Packing& packing, int64_t n,
                               int64_t width, int64_t* packed))

// Sorts each line.
RL_ISA_KERNEL(sort_columns_narrow, (int32_t* packed, int64_t n, int64_t width))
RL_ISA_KERNEL(sort_columns_wide, (int64_t* packed, int64_t n, int64_t width))

// Whether two keys of a sorted line are equal but for their lowest `shift` bits.
RL_ISA_KERNEL(find_equals, (const int64_t* keys, int shift, int64_t n, int64_t width, bool* found))
// Of each sorted line, how many keys are not above `last`.
RL_ISA_KERNEL(count_columns,
              (const int64_t* keys, int64_t last, int64_t n, int64_t width, int64_t* counts))
// Of each sorted line, the row that ends the longest run of keys that are equal but for their
// lowest `shift` bits, the first of several such. Keys above `last` are equal to none.
RL_ISA_KERNEL(longest_runs, (const int64_t* keys, int shift, int64_t last, int64_t n, int64_t width,
                             int64_t* rows))

}  // namespace rl::kernels
