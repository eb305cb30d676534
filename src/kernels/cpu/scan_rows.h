// The typed inner loop of running sums and products.
#pragma once
#include "core/view.h"
#include "kernels/cpu/isa.h"

namespace rl::kernels {

// Where the elements of a tile lie: bytes from element to element of a line, from line to line and
// from block of lines to block.
struct TileOperand {
  char* data = nullptr;
  int64_t step = 0, line = 0, block = 0;
};

// Lines of up to here are scanned side by side, not each by vectors along it.
inline constexpr int64_t longest_short_line = 16;

// y[i] = x[0] op ... op x[i], for the elements from `begin` on of each of `lines` in each of
// `blocks`. What came before them is in carry[line], if there is any, and the carry, if not null,
// becomes the last of them. Elements are float32, float64 or int64; carries, in which is computed,
// are double, or int64_t that wrap. y may be x. Lines that have carries are dense along or across.
struct ScanTile {
  TileOperand x, y;
  int64_t begin, n, lines, blocks;
  void* carry;
};
RL_ISA_KERNEL(scan_tile, (bool product, DType element, const ScanTile& tile))

// The same with log(exp(a) + exp(b)) for op, of doubles in neighbouring lines; one block.
RL_ISA_KERNEL(scan_log_sums, (const ScanTile& tile))

// values[i] becomes the largest (or smallest) of x[0] ... x[i], and places[i] where it stands. NaN,
// once met, stays; the last of equals wins. Carries are the place of each line, then the extreme of
// each. Elements: float32, float64 or int64. values may be x.
struct ExtremeTile {
  TileOperand x, values, places;
  int64_t begin, n, lines, blocks;
  void* carry;
};
RL_ISA_KERNEL(extreme_tile, (bool largest, DType element, const ExtremeTile& tile))

// Two passes over the rows [begin, end) of n in the gradient of running products, of doubles. From
// the last row on, to[k] becomes grad[k] + x[k + 1] (grad[k + 1] + x[k + 2] (grad[k + 2] + ...));
// then, from the first row on, to[k] is multiplied by x[0] ... x[k - 1]. products[line] has the
// product of the rows before `begin` then, and becomes that of those before `end`.
struct ProductTile {
  TileOperand grad, x, to;
  int64_t n, begin, end, lines, blocks;
  double* products;
};
RL_ISA_KERNEL(product_tails, (const ProductTile& tile))
RL_ISA_KERNEL(product_heads, (const ProductTile& tile))

}  // namespace rl::kernels
