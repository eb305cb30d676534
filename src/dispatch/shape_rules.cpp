#include "dispatch/shape_rules.h"

#include "tensor/output_layout.h"

namespace rl {

Tensor make_output(const OutputSpec& spec, Device device, const Tensor& target) {
  if (target.defined() && target.dtype() == spec.dtype && target.sizes() == spec.sizes)
    return target;
  TensorOptions options{spec.dtype, device};
  return spec.strides.empty() ? empty(spec.sizes, options)
                              : empty_strided(spec.sizes, spec.strides, options);
}

namespace shape {

OutputSpec like(const Tensor& input, DType dtype) {
  if (input.is_contiguous()) return {input.sizes(), dtype};
  return {input.sizes(), dtype, dense_strides_like(input.sizes(), input.strides())};
}

Dims kept_sizes(const Tensor& input, const std::optional<Dims>& dims) {
  if (!dims || dims->empty()) return Dims(input.dim(), 1);
  Dims sizes = input.sizes();
  for (int64_t d : *dims)
    if (input.dim()) sizes[wrap_dim(d, input.dim(), "")] = 1;
  return sizes;
}

OutputSpec reduced(const char* op, const Tensor& input, const std::optional<Dims>& dims,
                   bool keepdim, DType dtype) {
  bool all = !dims || dims->empty(), reduce[max_dims] = {};
  for (int64_t i = 0; !all && i < static_cast<int64_t>(dims->size()); ++i) {
    int64_t at = wrap_dim((*dims)[i], input.dim(), op);
    check(!reduce[at], op, ": dim ", at, " appears multiple times in the list of dims");
    reduce[at] = true;
  }
  OutputSpec out{{}, dtype};
  for (int64_t d = 0; d < input.dim(); ++d) {
    bool gone = all || reduce[d];
    if (!gone || keepdim) out.sizes.push_back(gone ? 1 : input.sizes()[d]);
  }
  return out;
}

OutputSpec of_lines(const Tensor& input, int64_t dim, int64_t count, DType dtype) {
  OutputSpec out = dense(input, dtype);
  if (input.dim()) out.sizes[dim] = count;
  return out;
}

OutputSpec top(const Tensor& input, int64_t k, int64_t dim) {
  int64_t size = input.dim() ? input.sizes()[dim] : 1;
  check(k >= 0 && k <= size, "topk: selected index k out of range: k = ", k, " for dim ", dim,
        " of shape ", input.sizes());
  return of_lines(input, dim, k, input.dtype());
}

Dims distinct_dims(const char* op, const Tensor& input, const Dims& dims) {
  Dims wrapped;
  bool seen[max_dims] = {};
  for (int64_t d : dims) {
    int64_t at = wrap_dim(d, input.dim(), op);
    check(!seen[at], op, ": dim ", at, " appears multiple times in the list of dims");
    seen[at] = true;
    if (input.dim()) wrapped.push_back(at);
  }
  return wrapped;
}

}  // namespace shape
}  // namespace rl
