// The typed inner loops of softmax and log_softmax.
#pragma once
#include "core/view.h"
#include "kernels/isa.h"

namespace rl::kernels {

// A tile is n >= 1 rows of `width` columns, elements float32 or float64; softmax runs down each
// column. With width 1 rows are contiguous. Strides are from row to row, in elements.
struct SoftmaxTile {
  bool log;
  DType element;
  int64_t n, width;
};

RL_ISA_KERNEL(softmax_forward,
              (const SoftmaxTile& tile, const void* x, int64_t x_stride, void* y, int64_t y_stride))
// grad_x from the gradient of the output and the output itself.
RL_ISA_KERNEL(softmax_gradient,
              (const SoftmaxTile& tile, const void* grad, int64_t grad_stride, const void* y,
               int64_t y_stride, void* grad_x, int64_t grad_x_stride))

}  // namespace rl::kernels
