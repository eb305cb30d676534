// The typed inner loop of running sums and products.
#pragma once
#include "core/view.h"
#include "kernels/cpu/isa.h"

namespace rl::kernels {

// y[i] = carry op x[0] op ... op x[i], and *carry becomes the last of them. Elements are float32,
// float64 or int64; the carry, in which is computed, is a double, or an int64_t that wraps. y may
// be x.
RL_ISA_KERNEL(scan_row,
              (bool product, DType element, const void* x, void* y, int64_t n, void* carry))

// The same for `rows` short rows, each from the identity, all steps in bytes: a call for each took
// longer than its work.
struct ShortRows {
  const void* x;
  void* y;
  int64_t x_step, y_step;  // from element to element
  int64_t x_row, y_row;    // from row to row
  int64_t n, rows;
};
RL_ISA_KERNEL(scan_short_rows, (bool product, DType element, const ShortRows& rows))

// Is NaN among n elements of float32 or float64?
RL_ISA_KERNEL(find_nan, (DType element, const void* x, int64_t n, bool* found))

// values[k] becomes the largest (or smallest) of *best and values[0] ... values[k], none of them
// NaN, and places[k] where it stands: first + its number, or *place if that is *best. The last of
// equals wins. Then *best and *place are the last ones. Elements: float32, float64 or int64.
RL_ISA_KERNEL(extreme_row, (bool largest, DType element, void* values, int64_t* places, int64_t n,
                            int64_t first, void* best, int64_t* place))

}  // namespace rl::kernels
