// Functions that gradient formulas use and that are no ops of their own. All are differentiable.
#pragma once
#include "autograd/node.h"
#include "core/scalar.h"
#include "tensor/tensor.h"

namespace rl::grad {

Tensor scale(const Tensor& grad, const Scalar& factor);  // grad itself where the factor is 1
// Sums over the dims that a broadcast to grad's shape made or widened.
Tensor sum_to(const Tensor& grad, IntSpan sizes);
// Puts back dims that a reduction dropped (dims empty: all) and broadcasts to `sizes`.
Tensor expand_reduced(const Tensor& t, IntSpan dims, bool keepdim, IntSpan sizes);
Tensor unsqueeze_all(const Tensor& t, IntSpan dims, int64_t ndim);
Tensor sgn_backward(const Tensor& grad, const Tensor& input, const Tensor& out);

}  // namespace rl::grad
