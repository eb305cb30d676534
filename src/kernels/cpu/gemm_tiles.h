// Matrix products on the calling thread.
#pragma once
#include <algorithm>

#include "core/dtype.h"
#include "core/scalar.h"
#include "core/view.h"
#include "kernels/cpu/isa.h"
#include "kernels/elementwise.h"

namespace rl::kernels {

// Where a product in float goes as 16-bit floats: c, then in rows, is scratch memory for its sums.
struct Rounding {
  DType dtype = DType::BFloat16;
  uint16_t* data = nullptr;  // none: c is the result
  int64_t row = 0, col = 0, step = 0;
};

// c (m, n) = alpha * a (m, k) @ b (k, n) + beta * added (m, n), with any strides (in elements), and
// so often, a step further each time. All sizes are positive. Without `added`, c itself is added.
// With beta = 0 nothing is. What c then is, `finish` makes of it, if there is one: a loop of one
// input, in place and without numbers.
struct GemmProblem {
  DType dtype;
  int64_t m, n, k;
  const void *a, *b;
  void* c;
  int64_t a_row, a_col, b_row, b_col, c_row, c_col;
  Scalar alpha, beta;
  StripFunction finish = nullptr;
  const void* added = nullptr;
  int64_t added_row = 0, added_col = 0;
  int64_t count = 1, a_step = 0, b_step = 0, c_step = 0, added_step = 0;  // of a batch
  int64_t deepest = 0;  // deepest_block of the product that this one is a tile of
  // So many integers, in pairs of int16 or quads of bytes, are an element of a and b.
  int group = 1;
  // With dtype Float32: what the elements of a and b are pairs of, if of 16-bit floats.
  DType pairs = DType::Float32;
  Rounding rounded = {};
  // Whether the processor's matrix unit computes it. Then a and b are of `factors`, floats or
  // 16-bit floats, and c is of floats; or they are of bytes, signed or not, and c is of Int32.
  bool on_unit = false;
  DType factors = DType::Float32, right_factors = DType::Float32;
  bool rounds_floats = false;           // to bfloat16, of the factors
  const void* packed = nullptr;         // what gemm_pack made of b
  int64_t first = 0, last = max_numel;  // with it, only those of b's panels that begin there
};

// How much of k a block spans. Rows of b that are read in place must stay in the cache even where
// they lie a power of two apart; a large c, on the other hand, should not be read and written
// often.
inline int64_t deepest_block(int64_t m, int64_t n) {
  return m <= 64 ? 128 : m <= 256 || n <= 256 ? 256 : 512;
}

// An element of c is the same whatever rows and columns of c are asked for with it, 16 or more of
// each: with `deepest`, a product may be cut into tiles for threads.
RL_ISA_KERNEL(gemm_tiles, (const GemmProblem& problem))

// out (m, n), in rows, = a (m, k), in rows, @ b (k, n) of 16-bit floats, whose elements stand side
// by side: reads b once. For a few rows.
struct RowsOfReduced {
  DType dtype;
  int64_t m, n, k;
  const float* a;
  const void* b;
  int64_t b_row;
  float* out;
};
// A product of at most so many rows, or columns, reads pairs along k on any instruction set.
inline constexpr int64_t few_pairs = 4;
RL_ISA_KERNEL(rows_of_reduced, (const RowsOfReduced& problem))
// values, one by one or in a row, to 16-bit floats.
RL_ISA_KERNEL(round_rows,
              (const Rounding& to, const float* values, int64_t row, int64_t rows, int64_t columns))

// Whether the matrix unit is quicker for a product of (m, k) by (k, n), if there is one.
bool is_for_unit(DType factors, int64_t m, int64_t n, int64_t k);

// What of a product the matrix unit takes at a time: so many terms, of so many columns of b, by so
// many rows of a, which stay in the second cache.
struct UnitBlocks {
  int64_t parts, depth, columns, rows;  // parts: bfloat16 that make one of the factors
};
inline UnitBlocks unit_blocks(const GemmProblem& p, int64_t n) {
  constexpr int64_t bytes = int64_t(8) << 20;
  int64_t parts = p.factors == DType::Float16 ? 2 : 1;
  if (p.factors == DType::Float32 && !p.rounds_floats) parts = 3;
  int64_t size = itemsize(p.factors) == 1 ? 1 : 2 * parts;
  int64_t depth = std::min<int64_t>(p.k, parts > 1 ? 1024 : 4096 / size);
  int64_t columns = std::max<int64_t>(bytes / (depth * size) / 64, 1) * 64;
  constexpr int64_t row_bytes = int64_t(1) << 20, most_rows = 256;
  int64_t rows = std::clamp<int64_t>(row_bytes / (depth * size) / 32 * 32, 32, most_rows);
  return {parts, depth, std::min(columns, (n + 31) / 32 * 32), rows};
}
// For several tiles of one product, whose c lies in rows: writes rows [first, last) of b as they
// read it, multiples of pack_rows or the end, into memory for gemm_packed_bytes of all columns.
inline constexpr int64_t pack_rows = 64;
inline int64_t gemm_packed_bytes(const GemmProblem& p, int64_t columns) {
  int64_t whole = (columns + 63) / 64 * 64;
  if (!p.on_unit) return p.k * whole * itemsize(p.dtype);
  int64_t parts = unit_blocks(p, columns).parts;
  constexpr int64_t magnitudes = 4;  // of each column
  return (p.k + pack_rows - 1) / pack_rows * whole * (pack_rows * parts * 2 + magnitudes);
}
// Where the matrix unit computes it, all of them together at most a block.
RL_ISA_KERNEL(gemm_pack, (const GemmProblem& problem, void* packed, int64_t first, int64_t last))

// Groups of narrow integers, in 32 bits each: 2 of 16 bits, or 4 bytes. That at (i, j) begins with
// from[i * row + j * step], and its elements stand `between` apart; after `members` of them there
// are zeros. Each is changed by exclusive or with `flip`.
struct Grouping {
  DType dtype;
  const void* from;
  int64_t rows, count, row, step, between;
  int size, members, flip;
  uint32_t* out;
  int64_t out_row;
};
RL_ISA_KERNEL(group_up, (const Grouping& g))

}  // namespace rl::kernels
