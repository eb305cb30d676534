#include "dispatch/grad.h"

#include <cmath>

#include "dispatch/generated.h"
#include "dispatch/gradient_buffer.h"
#include "launch_copy.h"
#include "ops_basic.h"
#include "ops_create.h"
#include "ops_reduction.h"
#include "ops_shape.h"

namespace rl::grad {

using namespace ops;

Tensor scale(const Tensor& grad, const Scalar& factor) {
  return factor.equals(1) ? grad : grad * factor;
}

Tensor tensor_of_number(const Tensor& number, DType dtype) {
  Tensor made = rl::empty(Dims(), {dtype, number.device()});
  launch::copy(number, made);
  return made;
}

Tensor sum_to(const Tensor& grad, IntSpan sizes) {
  if (IntSpan(grad.sizes()) == sizes) return grad;
  int64_t added = grad.dim() - sizes.size();
  Dims reduced;
  for (int64_t d = 0; d < grad.dim(); ++d)
    if (d < added || (sizes[d - added] == 1 && grad.sizes()[d] != 1)) reduced.push_back(d);
  Tensor t = reduced.empty() ? grad : sum(grad, reduced, true);
  return added ? view(t, Dims(sizes)) : t;
}

Tensor unsqueeze_all(const Tensor& t, IntSpan dims, int64_t ndim) {
  bool reduced[max_dims] = {};
  for (int64_t d : dims) reduced[wrap_dim(d, ndim, "unsqueeze")] = true;
  Dims sizes;
  for (int64_t d = 0, next = 0; d < ndim; ++d) sizes.push_back(reduced[d] ? 1 : t.sizes()[next++]);
  return view(t, sizes);
}

Dims dims_or_all(const std::optional<Dims>& dims) { return dims.value_or(Dims()); }

Tensor expand_reduced(const Tensor& t, IntSpan dims, bool keepdim, IntSpan sizes) {
  bool whole = keepdim || dims.empty() || sizes.size() == 0;
  return expand(whole ? t : unsqueeze_all(t, dims, sizes.size()), Dims(sizes));
}

Tensor permute_backward(const Tensor& grad, const Dims& dims) {
  Dims inverse(dims.size());
  for (int64_t i = 0; i < dims.size(); ++i) inverse[wrap_dim(dims[i], dims.size(), "permute")] = i;
  return permute(grad, inverse);
}

namespace {
// Gradient of a view: grad where the view looks, among zeros or what came from other views. A loop
// over the n rows of a tensor so takes n passes over rows, not over the tensor.
template <class Look>
Tensor add_view(const Tensor& accumulated, const Tensor& grad, IntSpan sizes, Look&& look) {
  if (accumulated.defined()) {
    add_(look(accumulated), grad);
    return accumulated;
  }
  Tensor full = ops::zeros(Dims(sizes), grad.dtype(), {}, grad.device());
  copy_(look(full), grad);
  return full;
}
}  // namespace

Tensor add_select(const Tensor& accumulated, const Tensor& grad, IntSpan sizes, int64_t dim,
                  int64_t index) {
  return add_view(accumulated, grad, sizes, [&](const Tensor& t) { return select(t, dim, index); });
}
Tensor add_slice(const Tensor& accumulated, const Tensor& grad, IntSpan sizes, int64_t dim,
                 std::optional<int64_t> start, std::optional<int64_t> end, int64_t step) {
  return add_view(accumulated, grad, sizes,
                  [&](const Tensor& t) { return slice(t, dim, start, end, step); });
}
Tensor add_diagonal(const Tensor& accumulated, const Tensor& grad, IntSpan sizes, int64_t offset,
                    int64_t dim1, int64_t dim2) {
  return add_view(accumulated, grad, sizes,
                  [&](const Tensor& t) { return diagonal(t, offset, dim1, dim2); });
}

Tensor accumulated_or_zeros(const Tensor& accumulated, const Tensor& grad, IntSpan sizes) {
  return accumulated.defined() ? accumulated : zeros_of(grad, sizes);
}

TensorList cat_backward(const Tensor& grad, const std::vector<OutputMeta>& inputs, int64_t dim) {
  TensorList grads;
  int64_t ndim = 1, at = 0;
  for (const OutputMeta& m : inputs) ndim = std::max(ndim, m.sizes.size());
  int64_t d = wrap_dim(dim, ndim, "cat");
  bool channels_last = !grad_enabled() && has_physical_layout(grad);  // which views do not keep
  for (const OutputMeta& m : inputs) {
    bool skipped = m.sizes.size() == 1 && m.sizes[0] == 0;
    int64_t n = skipped ? 0 : m.sizes[d];
    if (channels_last && !skipped) {
      grads.push_back(empty_channels_last(m.sizes, options(grad)));
      launch::copy(PhysicalView(grad).view().slice(d, at, m.sizes), physical(grads.back()));
    } else {
      grads.push_back(skipped ? Tensor() : slice(grad, d, at, at + n, 1));
    }
    at += n;
  }
  return grads;
}

Tensor missing_gradient(const char* what) {
  fail(ErrorKind::NotImplemented, "the derivative for '", what, "' is not implemented");
}

}  // namespace rl::grad
