// What losses of class targets do with the loss of each target.
#pragma once
#include "kernels/copy.h"
#include "kernels/cpu/scratch.h"
#include "kernels/nll_loss.h"
#include "kernels/reduce.h"

namespace rl::kernels {

// A view of contiguous values of the shape of `like`.
template <class C> struct InShapeOf {
  InShapeOf(const View& like, C* values)
      : strides(contiguous_strides(like.shape())),
        view{values, like.sizes, strides.data(), like.ndim, like.numel, dtype_of<C>} {}
  Dims strides;
  View view;
};

// The sum of contiguous values, by the tree of reductions.
template <class C> C total(const Scratch<C>& values) {
  C result = 0;
  int64_t n = static_cast<int64_t>(values.size()), one = 1;
  sum({const_cast<C*>(values.data()), &n, &one, 1, n, dtype_of<C>},
      {&result, &one, &one, 1, 1, dtype_of<C>});
  return result;
}

// Writes the losses or what they are reduced to, and the sum of the weights: 0 if not reduced.
template <class C>
void store_losses(Scratch<C>& losses, C weight_sum, Reduction reduction, const View& target,
                  const View& out, const View& total_weight) {
  auto store = [](C value, const View& to) { fill(to, Scalar(static_cast<double>(value))); };
  if (reduction == Reduction::None) {
    store(C(0), total_weight);
    copy(InShapeOf<C>(target, losses.data()).view, out);
    return;
  }
  C loss = total(losses);
  store(weight_sum, total_weight);
  store(reduction == Reduction::Mean ? loss / weight_sum : loss, out);
}

// The gradient of each target's loss.
template <class C>
Scratch<C> loss_gradients(const View& grad, Reduction reduction, const View& target,
                          const View& total_weight) {
  auto load = [](const View& from) {
    C value = 0;
    copy(from, {&value, from.sizes, from.strides, from.ndim, 1, dtype_of<C>});
    return value;
  };
  Scratch<C> grads(static_cast<size_t>(target.numel));
  if (reduction == Reduction::None) {
    copy(grad, InShapeOf<C>(target, grads.data()).view);
    return grads;
  }
  C g = load(grad);
  if (reduction == Reduction::Mean) g /= load(total_weight);
  grads.assign(grads.size(), g);
  return grads;
}

}  // namespace rl::kernels
