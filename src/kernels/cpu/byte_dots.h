// Products of rows of bytes with rows of signed bytes: y[i][j] = a[i] . b[j], of Int32.
#pragma once
#include <cstdint>

#include "kernels/cpu/isa.h"

namespace rl::kernels {

// As many rows of a, where the processor has no products of groups of bytes: each row of b is read
// from memory once, and from the cache for the others.
inline constexpr int64_t most_dot_rows = 16;

struct ByteDots {
  const void* a;  // rows of `terms` bytes, `a_row` apart
  bool is_signed;
  bool by_groups;  // where kernels::has_byte_products() (units.h)
  const int8_t* b;
  int32_t* out;
  int64_t rows, terms, a_row, b_row, out_row;
};

// Columns [begin, end) of the result. Sums wrap around.
RL_ISA_KERNEL(byte_dots, (const ByteDots& p, int64_t begin, int64_t end))

}  // namespace rl::kernels
