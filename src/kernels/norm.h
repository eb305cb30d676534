// Normalisation over the trailing elements of each row, and over groups of channels.
//
// All views are contiguous and floating. mean and rstd (1 / standard deviation) are saved for the
// gradient, in compute_dtype of the input. weight and bias may be null, and may be of another
// floating dtype than the input; grad_* outputs may be null if not wanted. Parameter gradients add
// up rows in a tree fixed by the sizes.
#pragma once
#include "core/view.h"

namespace rl::kernels {

// Rows are mean.numel slices of the input's trailing input.numel / mean.numel elements.
// out = (x - mean) * rstd * weight + bias; weight and bias have a row's elements.
void layer_norm(const View& input, const View* weight, const View* bias, double eps,
                const View& out, const View& mean, const View& rstd);
void layer_norm_backward(const View& grad, const View& input, const View& mean, const View& rstd,
                         const View* weight, const View* grad_input, const View* grad_weight,
                         const View* grad_bias);

// out = x * rstd * weight with rstd = 1 / sqrt(mean(x^2) + eps).
void rms_norm(const View& input, const View* weight, double eps, const View& out, const View& rstd);
void rms_norm_backward(const View& grad, const View& input, const View& rstd, const View* weight,
                       const View* grad_input, const View* grad_weight);

// input (N, C, ...); mean and rstd (N, groups); weight and bias (C). groups divides C.
void group_norm(const View& input, const View* weight, const View* bias, double eps,
                const View& out, const View& mean, const View& rstd);
void group_norm_backward(const View& grad, const View& input, const View& mean, const View& rstd,
                         const View* weight, const View* grad_input, const View* grad_weight,
                         const View* grad_bias);

}  // namespace rl::kernels
