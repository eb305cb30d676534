// The typed inner loops of layer, RMS and group normalisation.
#pragma once
#include "core/view.h"
#include "kernels/cpu/isa.h"

namespace rl::kernels {

// Contiguous rows of `parts` channels with n elements each, float32 or float64. weight and bias
// hold one value per channel (layer norm: n == 1). Not centred means RMS norm: the mean is taken to
// be 0.
struct NormRows {
  bool centred;
  DType element;
  int64_t count, parts, n;
  const void *weight, *bias;
};

// y = (x - mean) * rstd * weight + bias; writes each row's mean (if centred) and
// rstd = 1 / sqrt(mean square distance from it + eps).
RL_ISA_KERNEL(norm_forward,
              (const NormRows& rows, const void* x, double eps, void* y, void* mean, void* rstd))
// grad_x, if not null, and additions to one value per channel: sum(g * (x - mean) * rstd) to
// grad_weight and sum(g) to grad_bias.
RL_ISA_KERNEL(norm_gradient,
              (const NormRows& rows, const void* grad, const void* x, const void* mean,
               const void* rstd, void* grad_x, void* grad_weight, void* grad_bias))

}  // namespace rl::kernels
