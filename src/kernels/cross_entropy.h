// Cross entropy: the negative log likelihood of targets under the softmax along dim 1, in one pass
// over the scores forward and one backward.
#pragma once
#include "core/view.h"
#include "kernels/nll_loss.h"

namespace rl::kernels {

// As nll_loss takes them, with scores instead of log probabilities. A target's loss is
//   (1 - smoothing) * weight[t] * -log p[t] + smoothing / C * sum(weight[c] * -log p[c]).
struct CrossEntropy {
  const View &input, &target;
  const View* weight;
  int64_t ignore_index;
  Reduction reduction;
  double smoothing;
};

// largest and sums have target's sizes and the compute dtype, contiguous: what softmax subtracts
// and divides by. total_weight: one element of that dtype.
void cross_entropy(const CrossEntropy& given, const View& out, const View& largest,
                   const View& sums, const View& total_weight);
void cross_entropy_backward(const CrossEntropy& given, const View& grad, const View& largest,
                            const View& sums, const View& total_weight, const View& grad_input);

}  // namespace rl::kernels
