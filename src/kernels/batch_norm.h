// Batch normalisation of (N, C, *) views of any strides; float32, float64, float16, bfloat16.
// Statistics and parameters are (C) vectors of the input's dtype or of float32; sums run in float
// (double for float64) in two passes, so a large mean costs no precision. Deterministic.
#pragma once
#include "core/view.h"

namespace rl::kernels {

// Mean and biased variance over everything but dim 1.
void batch_norm_stats(const View& input, const View& mean, const View& var);

struct BatchNormArgs {
  const View* weight = nullptr;  // nullptr: 1
  const View* bias = nullptr;    // nullptr: 0
  double eps = 1e-5;
};

// Training: writes save_mean and save_invstd (1 / sqrt(biased var + eps)); unless nullptr, the
// running statistics move by `momentum` towards the mean and the unbiased variance.
void batch_norm_train(const View& input, const BatchNormArgs& args, const View* running_mean,
                      const View* running_var, double momentum, const View& out,
                      const View& save_mean, const View& save_invstd);
// Evaluation, with given statistics.
void batch_norm_eval(const View& input, const BatchNormArgs& args, const View& mean,
                     const View& var, const View& out);

// Gradients; any output may be nullptr. `train`: mean and invstd were computed from input, so
// gradients flow through them; otherwise they are constants (invstd = 1 / sqrt(running_var + eps)).
void batch_norm_backward(const View& grad_out, const View& input, const View* weight,
                         const View& mean, const View& invstd, bool train, const View* grad_input,
                         const View* grad_weight, const View* grad_bias);

}  // namespace rl::kernels
