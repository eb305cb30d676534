// Gradients worked out in memory that is there: that of the incoming gradient, or the sum of what
// has come to the input from elsewhere.
#pragma once
#include "autograd/engine.h"
#include "dispatch/elementwise.h"

namespace rl {

// Is a formula of elements computed by ops, and not in one loop?
inline bool formula_by_ops() {
  return !(mode() & (NoGrad | Inference | VolatileCall | BatchedOnce));
}

// A gradient by one loop, over the incoming gradient itself, the first of inputs, if nobody else
// can see that: two streams of memory instead of three. `last`: nobody reads it after this.
Tensor run_in_gradient_buffer(const kernels::Loop& loop, const Scalar* numbers, bool last,
                              const Tensor* const* inputs, int count);
template <class... Inputs>
inline Tensor elementwise_in_gradient_buffer(const kernels::Loop& loop, const Scalar* numbers,
                                             bool last, const Inputs&... inputs) {
  const Tensor* list[] = {&inputs...};
  return run_in_gradient_buffer(loop, numbers, last, list, sizeof...(inputs));
}

namespace grad {

// For formulas that name `accumulated`: they add to it where it is defined.
// Marks the gradient of a sum, which is one number seen many times in torch too.
inline Tensor repeated(Tensor grad) {
  grad.impl()->repeats = true;
  return grad;
}
Tensor accumulated_or_zeros(const Tensor& accumulated, const Tensor& grad, IntSpan sizes);
Tensor add_select(const Tensor& accumulated, const Tensor& grad, IntSpan sizes, int64_t dim,
                  int64_t index);
Tensor add_slice(const Tensor& accumulated, const Tensor& grad, IntSpan sizes, int64_t dim,
                 std::optional<int64_t> start, std::optional<int64_t> end, int64_t step);
Tensor add_diagonal(const Tensor& accumulated, const Tensor& grad, IntSpan sizes, int64_t offset,
                    int64_t dim1, int64_t dim2);
Tensor add_rows(const Tensor& accumulated, const Tensor& grad, const Tensor& indices,
                const Dims& size, int64_t padding_idx, bool scale_grad_by_freq, bool sparse);
Tensor add_linear_input(const Tensor& accumulated, const Tensor& grad, const Tensor& weight);
Tensor add_linear_weight(const Tensor& accumulated, const Tensor& grad, const Tensor& input,
                         int64_t weight_dim);

}  // namespace grad
}  // namespace rl
