// The typed inner loops of softmax, log_softmax and cross entropy.
#pragma once
#include "core/view.h"
#include "kernels/cpu/isa.h"

namespace rl::kernels {

// n >= 1 rows of `width` columns, elements float32 or float64; softmax runs down each column. Tiles
// across have up to softmax_columns of neighbouring columns; others have one, and rows that lie
// behind one another. Strides are from row to row, in elements.
struct SoftmaxTile {
  bool across;
  DType element;
  int64_t n, width;
};
inline constexpr int64_t softmax_columns = 256;

RL_ISA_KERNEL(softmax_forward, (bool log, const SoftmaxTile& tile, const void* x, int64_t x_stride,
                                void* y, int64_t y_stride))
// grad_x from the gradient of the output and the output itself.
RL_ISA_KERNEL(softmax_gradient,
              (bool log, const SoftmaxTile& tile, const void* grad, int64_t grad_stride,
               const void* y, int64_t y_stride, void* grad_x, int64_t grad_x_stride))

// Of each column the largest x, the sum of exp(x - largest), its logarithm and, if there are
// weights, one per row, the sum of weight * (x - largest).
RL_ISA_KERNEL(softmax_sums,
              (const SoftmaxTile& tile, const void* x, int64_t x_stride, const void* weights,
               void* largest, void* sums, void* logs, void* weighted))
// grad_x = scale * exp(x - largest) - weight * share, scale and share one per column; weights may
// be null: 0.
RL_ISA_KERNEL(softmax_slopes, (const SoftmaxTile& tile, const void* x, int64_t x_stride,
                               const void* weights, const void* largest, const void* scale,
                               const void* share, void* grad_x, int64_t grad_x_stride))

}  // namespace rl::kernels
