// Negative log likelihood: -weight[target] * input[target], over classes in dim 1.
#pragma once
#include "core/view.h"

namespace rl::kernels {

enum class Reduction { None, Mean, Sum };

// input: (N, C, ...) of log probabilities, floating (a caller with a 1-D input passes it as (1,
// C)); target: (N, ...) int64 (or uint8); weight: (C) contiguous of the input's dtype, or null.
// Targets equal to ignore_index count for nothing; others outside [0, C) are an IndexError. out:
// target's sizes for None, else one element; total_weight: one element of the input's dtype, the
// sum of weights used (Mean divides by it), 0 for None.
void nll_loss(const View& input, const View& target, const View* weight, int64_t ignore_index,
              Reduction reduction, const View& out, const View& total_weight);
// grad_input: input's sizes, all of it is written.
void nll_loss_backward(const View& grad, const View& target, const View* weight,
                       int64_t ignore_index, Reduction reduction, const View& total_weight,
                       const View& grad_input);

}  // namespace rl::kernels
