// Connectionist temporal classification (Graves et al., 2006): the probability that a sequence of
// label distributions emits a target, summed over all alignments, and its gradient.
//
// log_probs: (steps, batch, classes), float32 or float64. labels: (batch, longest target), int64.
// The first target_lengths[n] labels of a row are the target, which the first input_lengths[n]
// steps emit with blanks between. alpha: (batch, steps, 2 * longest target + 3) is what forward
// leaves to backward.
#pragma once
#include "core/view.h"

namespace rl::kernels {

struct CtcLengths {
  IntSpan inputs, targets;
  int64_t blank;
};

// loss: (batch), minus the logarithms; infinity where the steps are too few.
void ctc_loss(const View& log_probs, const View& labels, const CtcLengths& lengths,
              const View& loss, const View& alpha);
// With log_softmax before the loss: the gradient sums to zero over the classes (eq. 16). It is zero
// where `grad` is, even where the loss is infinite.
void ctc_loss_backward(const View& grad, const View& log_probs, const View& labels,
                       const CtcLengths& lengths, const View& loss, const View& alpha,
                       const View& out);

}  // namespace rl::kernels
