// The typed inner loops of softmax, log_softmax and cross entropy.
#pragma once
#include "core/view.h"
#include "kernels/cpu/isa.h"

namespace rl::kernels {

// `width` lines, up to softmax_columns, of n >= 1 elements, float32 or float64: softmax runs along
// each. Lines are the columns of a tile across and the rows of others. Strides are from row to row,
// in elements; what is written may lie in the memory of an operand.
struct SoftmaxTile {
  bool across;
  DType element;
  int64_t n, width;

  // Of element i of a line.
  int64_t offset(int64_t line, int64_t i, int64_t stride) const {
    return across ? i * stride + line : line * stride + i;
  }
};
inline constexpr int64_t softmax_columns = 256;

RL_ISA_KERNEL(softmax_forward, (bool log, const SoftmaxTile& tile, const void* x, int64_t x_stride,
                                void* y, int64_t y_stride))
// grad_x from the gradient of the output and the output itself.
RL_ISA_KERNEL(softmax_gradient,
              (bool log, const SoftmaxTile& tile, const void* grad, int64_t grad_stride,
               const void* y, int64_t y_stride, void* grad_x, int64_t grad_x_stride))

// Of each line the largest x, the sum of exp(x - largest), its logarithm and, if there are n
// weights, the sum of weight * (x - largest).
RL_ISA_KERNEL(softmax_sums,
              (const SoftmaxTile& tile, const void* x, int64_t x_stride, const void* weights,
               void* largest, void* sums, void* logs, void* weighted))
// grad_x = scale * exp(x - largest) - weight * share, scale and share one per line; weights may be
// null: 0.
RL_ISA_KERNEL(softmax_slopes, (const SoftmaxTile& tile, const void* x, int64_t x_stride,
                               const void* weights, const void* largest, const void* scale,
                               const void* share, void* grad_x, int64_t grad_x_stride))

}  // namespace rl::kernels
