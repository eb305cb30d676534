// The typed inner loops of layer, RMS and group normalisation.
#pragma once
#include "core/view.h"
#include "kernels/isa.h"

namespace rl::kernels {

// A contiguous row of `parts` channels with n elements each, float32 or float64. weight and bias
// hold one value per channel (layer norm: n == 1), and may be null: 1 and 0. Not centred means RMS
// norm: the mean is taken to be 0.
struct NormRow {
  bool centred;
  DType element;
  int64_t parts, n;
  const void *weight, *bias;
};

// Writes the row's mean and rstd = 1 / sqrt(mean square distance from it + eps).
RL_ISA_KERNEL(norm_statistics,
              (const NormRow& row, const void* x, double eps, void* mean, void* rstd))
// y = (x - mean) * rstd * weight + bias
RL_ISA_KERNEL(norm_forward,
              (const NormRow& row, const void* x, const void* mean, const void* rstd, void* y))
// grad_x, if not null, and additions to one value per channel: sum(g * (x - mean) * rstd) to
// grad_weight and sum(g) to grad_bias.
RL_ISA_KERNEL(norm_gradient, (const NormRow& row, const void* grad, const void* x, const void* mean,
                              const void* rstd, void* grad_x, void* grad_weight, void* grad_bias))

}  // namespace rl::kernels
