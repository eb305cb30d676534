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

Dims strides_in(std::optional<MemoryFormat> format, IntSpan sizes, const char* op) {
  if (!format || *format == MemoryFormat::Contiguous || *format == MemoryFormat::Preserve)
    return contiguous_strides(sizes);
  int64_t spatial = *format == MemoryFormat::ChannelsLast ? 2 : 3;
  check(sizes.size() == spatial + 2, op, ": required rank ", spatial + 2,
        " tensor to use channels_last", spatial == 3 ? "_3d" : "", " format, got shape ", sizes);
  return channels_last_strides(sizes);
}

NewTensor in_format(const char* op, IntSpan sizes, DType dtype, MemoryFormat format) {
  check(format != MemoryFormat::Preserve, op,
        ": memory_format preserve needs a tensor to take it from");
  return {sizes, dtype, strides_in(format, sizes, op)};
}

NewTensor sized_like(const char* op, const Tensor& input, std::optional<DType> dtype,
                     std::optional<MemoryFormat> format) {
  DType type = dtype.value_or(input.dtype());
  bool preserved = !format || *format == MemoryFormat::Preserve;
  if (preserved && input.impl()->standard_strides) return {input.sizes(), type};
  Dims strides = preserved ? dense_strides_like(input.sizes(), input.strides())
                           : strides_in(format, input.sizes(), op);
  return {input.sizes(), type, strides};
}

NewTensor strided_sizes(const char* op, IntSpan sizes, const Dims& strides, DType dtype) {
  check(sizes.size() == strides.size(), op, ": sizes ", sizes, " and strides ", strides,
        " differ in length");
  return {sizes, dtype, strides};
}

NewTensor permuted_sizes(IntSpan sizes, const Dims& order, DType dtype) {
  int64_t dims = sizes.size();
  check(order.size() == dims, "empty_permuted: Number of dimensions in size ", sizes,
        " does not match the length of the physical_layout ", order);
  Dims in_memory, seen(dims, 0), strides(dims);
  for (int64_t i = 0; i < dims; ++i) {
    int64_t d = order[i];
    check(d >= 0 && d < dims,
          "empty_permuted: Dimension out of range (expected to be between 0 and ", dims - 1,
          ", but got ", d, " at index ", i, ")");
    check(!seen[d], "empty_permuted: Duplicate dim not allowed, but ", d, " stands twice in ",
          order);
    seen[d] = 1;
    in_memory.push_back(sizes[d]);
  }
  Dims steps = contiguous_strides(in_memory);
  for (int64_t i = 0; i < dims; ++i) strides[order[i]] = steps[i];
  return {sizes, dtype, strides};
}

OutputSpec broadcast_of(const char* op, const Tensor& a, const Tensor& b) {
  return {broadcast_sizes(a.sizes(), b.sizes(), op), a.dtype()};
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

OutputSpec of_rows(const Tensor& input, const Dims& size) {
  OutputSpec out = dense(input, compute_dtype(input.dtype()));
  for (int64_t i = 0; i < size.size(); ++i) out.sizes[input.dim() - 1 - i] = 1;
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
