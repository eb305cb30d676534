// Batch normalisation of (N, C, *) views of any strides; float32, float64, float16, bfloat16.
// Statistics and parameters are (C) vectors of the input's dtype or of float32; sums run in float
// (double for float64) in two passes, so a large mean costs no precision. Deterministic.
#pragma once
#include <vector>

#include "core/view.h"

namespace rl::kernels {

struct StripFormula;

struct BatchNormArgs {
  const View* weight = nullptr;  // nullptr: 1
  const View* bias = nullptr;    // nullptr: 0
  double eps = 1e-5;
};

// The result, x * scale[c] + shift[c]; empty where a device keeps to itself what that comes from.
struct ChannelAffine {
  std::vector<double> scale, shift;
};
// Of what `affine` says, or else of mean, invstd and the parameters.
void batch_norm_apply(const View& input, const ChannelAffine& affine, const BatchNormArgs& args,
                      const View& mean, const View& invstd, const View& out);

// Training: writes save_mean and save_invstd (1 / sqrt(biased var + eps)); unless nullptr, the
// running statistics move by `momentum` towards the mean and the unbiased variance.
ChannelAffine batch_norm_train(const View& input, const BatchNormArgs& args,
                               const View* running_mean, const View* running_var, double momentum,
                               const View& save_mean, const View& save_invstd);
// Evaluation, with given statistics.
ChannelAffine batch_norm_eval(const BatchNormArgs& args, const View& mean, const View& var);

// Gradients; any output may be nullptr. grad_out is what `late_grad` gives, unless that is nullptr,
// and then has the strides of input, which are those of channels_last. grad_input may lie in the
// memory of grad_out. `train`: mean and invstd were computed from input, so
// gradients flow through them; otherwise they are constants (invstd = 1 / sqrt(running_var + eps)).
void batch_norm_backward(const View& grad_out, const StripFormula* lazy_grad, const View& input,
                         const View* weight, const View& mean, const View& invstd, bool train,
                         const View* grad_input, const View* grad_weight, const View* grad_bias);

}  // namespace rl::kernels
