// Reading and writing at computed places.
#include <algorithm>

#include "core/text_stream.h"
#include "core/warning.h"
#include "dispatch/generated.h"
#include "dispatch/guards.h"
#include "impl_create.h"
#include "impl_indexing.h"
#include "impl_masking.h"
#include "impl_scatter.h"
#include "impl_shape.h"
#include "launch_copy.h"
#include "launch_index.h"
#include "ops_basic.h"
#include "ops_create.h"
#include "ops_indexing.h"
#include "ops_masking.h"
#include "ops_shape.h"
#include "tensor/output_layout.h"

namespace rl {

namespace impl {
namespace {

// Index tensors as the kernels want them: bool masks become their positions, negative dims stay for
// the kernel.
TensorList expand_masks(const Tensor& input, const TensorList& indices) {
  TensorList out;
  for (const Tensor& index : indices) {
    if (!index.defined() || (index.dtype() != DType::Bool && index.dtype() != DType::UInt8)) {
      check_index(
          !index.defined() || index.dtype() == DType::Int64 || index.dtype() == DType::Int32,
          "index: tensors used as indices must be long, int, byte or bool tensors, got ",
          index.defined() ? index.dtype() : DType::Int64);
      out.push_back(index);
      continue;
    }
    if (index.dtype() == DType::UInt8)
      warn("indexing: masks of dtype uint8 are deprecated; use bool");
    int64_t at = static_cast<int64_t>(out.size());
    check_index(at + index.dim() <= input.dim(), "index: too many indices for tensor of dimension ",
                input.dim());
    for (int64_t d = 0; d < index.dim(); ++d)
      check_index(index.sizes()[d] == input.sizes()[at + d], "index: The shape of the mask ",
                  index.sizes(), " at index ", d,
                  " does not match the shape of the indexed tensor ", input.sizes(), " at index ",
                  at + d);
    Tensor places = ops::nonzero(index);
    for (Tensor& column : unbind(places, 1)) out.push_back(column);
  }
  check_index(static_cast<int64_t>(out.size()) <= input.dim(),
              "index: too many indices for tensor of dimension ", input.dim(), " (got ", out.size(),
              ")");
  return out;
}

// The input with its indexed dims in front, and the broadcast indices.
struct Indexed {
  Tensor input;        // a view
  TensorList indices;  // broadcast to one shape, int64
  Dims index_sizes;
  int64_t first = 0;  // where the index dims go in the result
};

bool can_broadcast(IntSpan a, IntSpan b) {
  for (int64_t i = 1; i <= std::min(a.size(), b.size()); ++i) {
    int64_t x = a[a.size() - i], y = b[b.size() - i];
    if (x != y && x != 1 && y != 1) return false;
  }
  return true;
}

std::string shapes_of(const TensorList& indices) {
  TextStream text;
  for (const Tensor& t : indices)
    if (t.defined()) text << (text.tellp() > 0 ? ", " : "") << t.sizes();
  return text.str();
}

Indexed arrange(const Tensor& input, const TensorList& given) {
  TensorList indices = expand_masks(input, given);
  Indexed r;
  Dims order, rest;
  bool adjacent = true, seen = false, ended = false;
  for (int64_t d = 0; d < input.dim(); ++d) {
    bool indexed = d < static_cast<int64_t>(indices.size()) && indices[d].defined();
    if (!indexed) {
      ended = ended || seen;
      rest.push_back(d);
      continue;
    }
    if (!seen) r.first = static_cast<int64_t>(rest.size());
    if (ended) adjacent = false;
    seen = true;
    order.push_back(d);
    check_index(can_broadcast(r.index_sizes, indices[d].sizes()),
                "shape mismatch: indexing tensors could not be broadcast together with shapes ",
                shapes_of(indices));
    r.index_sizes = broadcast_sizes(r.index_sizes, indices[d].sizes(), "index");
    r.indices.push_back(indices[d].dtype() == DType::Int64 ? indices[d]
                                                           : to_dtype(indices[d], DType::Int64));
  }
  if (!adjacent) r.first = 0;
  for (Tensor& index : r.indices) index = expand(index, r.index_sizes, false);
  for (int64_t d : rest) order.push_back(d);
  r.input = permute(input, order);
  return r;
}

// Index dims lead in the kernels; the user sees them at `first`.
Tensor to_front(const Tensor& t, int64_t first, int64_t count) {
  Dims order;
  for (int64_t i = 0; i < count; ++i) order.push_back(first + i);
  for (int64_t i = 0; i < t.dim(); ++i)
    if (i < first || i >= first + count) order.push_back(i);
  return permute(t, order);
}
Dims result_sizes(const Indexed& r) {
  Dims sizes;
  int64_t used = static_cast<int64_t>(r.indices.size());
  for (int64_t d = used; d < used + r.first; ++d) sizes.push_back(r.input.sizes()[d]);
  for (int64_t n : r.index_sizes) sizes.push_back(n);
  for (int64_t d = used + r.first; d < r.input.dim(); ++d) sizes.push_back(r.input.sizes()[d]);
  return sizes;
}
std::vector<View> views(const TensorList& list) {
  std::vector<View> out;
  launch::Placement placement("index");
  for (const Tensor& t : list) {
    placement.add(launch::Operand(t));
    out.push_back(t.view());
  }
  return out;
}
int64_t dim_of(const Tensor& t, int64_t dim, const char* op) { return wrap_dim(dim, t.dim(), op); }

// Other devices take indices, and a single value, of the CPU; not the other way round.
bool comes_from_cpu(const Tensor& t, const Tensor& to) {
  return t.defined() && t.device().is_cpu() && !to.device().is_cpu();
}
bool any_from_cpu(const TensorList& indices, const Tensor& to) {
  for (const Tensor& t : indices)
    if (comes_from_cpu(t, to)) return true;
  return false;
}
TensorList moved(const TensorList& indices, const Tensor& to) {
  TensorList result = indices;
  for (Tensor& t : result)
    if (comes_from_cpu(t, to)) t = ops::to(t, to.device());
  return result;
}

}  // namespace

namespace {

// One bool mask over all of `input`: no positions need be written down.
bool is_whole_mask(const Tensor& input, const TensorList& indices) {
  return indices.size() == 1 && indices[0].defined() && indices[0].dtype() == DType::Bool &&
         indices[0].dim() > 0 && indices[0].sizes() == input.sizes();
}

bool has_mask(const TensorList& indices) {
  return std::any_of(indices.begin(), indices.end(), [](const Tensor& t) {
    return t.defined() && (t.dtype() == DType::Bool || t.dtype() == DType::UInt8);
  });
}

Tensor with_trailing_ones(const Tensor& t, int64_t ndim) {
  Dims sizes = t.sizes(), strides = t.strides();
  sizes.resize(ndim, 1);
  strides.resize(ndim, 0);
  return alias(t, sizes, strides, t.offset());
}

// The bool mask that is the only index, as it broadcasts against the input; else undefined.
Tensor only_mask(const Tensor& input, const TensorList& indices) {
  Tensor mask;
  int64_t whole = 0;  // dims before it
  for (const Tensor& index : indices) {
    if (!index.defined()) {
      whole += !mask.defined();
      continue;
    }
    if (mask.defined() || index.dtype() != DType::Bool || index.dim() == 0) return {};
    mask = index;
  }
  if (!mask.defined() || whole + mask.dim() > input.dim()) return {};
  for (int64_t d = 0; d < mask.dim(); ++d)
    if (mask.sizes()[d] != input.sizes()[whole + d]) return {};
  return with_trailing_ones(mask, input.dim() - whole);
}

}  // namespace

namespace {
// As of an elementwise op on the input, broadcast along the dims of the indices, and the indices,
// broadcast along the others.
Dims indexed_strides(const Dims& sizes, const Indexed& r) {
  bool standard = r.input.impl()->standard_strides;
  for (const Tensor& index : r.indices) standard = standard && index.impl()->standard_strides;
  if (standard) return contiguous_strides(sizes);
  int64_t used = static_cast<int64_t>(r.indices.size()), width = r.index_sizes.size();
  auto of_index = [&](int64_t d) { return d >= r.first && d < r.first + width; };
  TensorList operands;
  Dims strides(sizes.size());
  for (int64_t d = 0, at = used; d < sizes.size(); ++d)
    strides[d] = of_index(d) ? 0 : r.input.strides()[at++];
  operands.push_back(alias(r.input, sizes, strides, 0));
  for (const Tensor& index : r.indices) {
    for (int64_t d = 0; d < sizes.size(); ++d)
      strides[d] = of_index(d) ? index.strides()[d - r.first] : 0;
    operands.push_back(alias(index, sizes, strides, 0));
  }
  std::vector<const Tensor*> pointers;
  for (const Tensor& t : operands) pointers.push_back(&t);
  return elementwise_strides(sizes, pointers.data(), static_cast<int>(pointers.size()));
}
}  // namespace

Tensor index(const Tensor& input, const TensorList& indices) {
  if (any_from_cpu(indices, input)) return index(input, moved(indices, input));
  if (is_whole_mask(input, indices)) return masked_pick(input, indices[0]);
  Indexed r = arrange(input, indices);
  if (r.indices.empty()) return clone(input);
  Dims sizes = result_sizes(r);
  Tensor out = empty_strided(sizes, indexed_strides(sizes, r), options(input));
  std::vector<View> list = views(r.indices);
  launch::index(r.input, {list.data(), static_cast<int64_t>(list.size())},
                to_front(out, r.first, r.index_sizes.size()));
  return out;
}

Tensor index_put(const Tensor& input, const TensorList& indices, const Tensor& values,
                 bool accumulate, const Tensor& given) {
  bool single = values.dim() == 0 && comes_from_cpu(values, input);
  if (single || any_from_cpu(indices, input))
    return index_put(input, moved(indices, input),
                     single ? ops::to(values, input.device()) : values, accumulate, given);
  if (values.numel() == 1 && !accumulate) {
    Tensor mask = only_mask(input, indices);
    if (mask.defined())  // the one case in which dtypes may differ
      return masked_fill(input, mask, alias(values, Dims{}, Dims{}, values.offset()), given);
  }
  Tensor source = values;
  Tensor out = copy_unless(given, input);
  if (out.is_meta() && has_mask(indices)) return out;  // elements tell how many places it has
  if (source.dim() == 1 && !accumulate && source.dtype() == out.dtype() &&
      is_whole_mask(input, indices) && source.numel() == launch::count_true(indices[0])) {
    launch::masked_scatter(out, indices[0], source);
    return out;
  }
  Indexed r = arrange(out, indices);
  Dims sizes = result_sizes(r);
  check(source.dim() <= sizes.size() && can_broadcast(source.sizes(), sizes) &&
            broadcast_sizes(source.sizes(), sizes, "index_put") == sizes,
        "index_put: shape mismatch: value tensor of shape ", source.sizes(),
        " cannot be broadcast to indexing result of shape ", sizes);
  check(values.dtype() == input.dtype(),
        "index_put: Index put requires the source and destination dtypes match, got ",
        input.dtype(), " for the destination and ", values.dtype(), " for the source.");
  source = expand(source, sizes, false);
  if (r.indices.empty()) {
    if (accumulate) return ops::add_(out, source);
    launch::copy(source, out);
    return out;
  }
  std::vector<View> list = views(r.indices);
  launch::index_put(r.input, {list.data(), static_cast<int64_t>(list.size())},
                    to_front(source, r.first, r.index_sizes.size()), accumulate);
  return out;
}

Tensor index_select(const Tensor& input, int64_t dim, const Tensor& index) {
  int64_t d = dim_of(input, dim, "index_select");
  check_index(index.dim() <= 1, "index_select: Index is supposed to be a vector, got shape ",
              index.sizes());
  check(index.dtype() == DType::Int64 || index.dtype() == DType::Int32,
        "index_select: Expected dtype int32 or int64 for index, got ", index.dtype());
  Dims sizes = input.sizes();
  if (input.dim()) sizes[d] = index.numel();
  Tensor out = rl::empty(sizes, options(input));
  launch::index_select(input, d, index, out);
  return out;
}

Tensor index_add(const Tensor& input, int64_t dim, const Tensor& index, const Tensor& source,
                 const Scalar& alpha, const Tensor& given) {
  int64_t d = dim_of(input, dim, "index_add");
  check_index(index.dim() <= 1,
              "index_add: Index is supposed to be a vector, but got dim: ", index.dim());
  check(index.dtype() == DType::Int64 || index.dtype() == DType::Int32,
        "index_add: Expected dtype int32/int64 for index but got: ", index.dtype());
  check(source.dtype() == input.dtype(), "index_add: self (", input.dtype(), ") and source (",
        source.dtype(), ") must have the same dtype");
  check_slices("index_add", input, d, index, source);
  Tensor out = contiguous_copy_unless(given, input);
  Tensor added = grad::scale(source, alpha);
  if (added.dtype() != input.dtype()) added = to_dtype(added, input.dtype());
  launch::index_combine("index_add", out, d, index, added, kernels::Combine::Sum, true, false);
  return out;
}

}  // namespace impl

namespace grad {

Tensor zeros_of(const Tensor& like, IntSpan sizes) {
  return ops::zeros(Dims(sizes), like.dtype(), {}, like.device());
}
Tensor values_at(const Tensor& t, const TensorList& indices) {
  return unrecorded([&] { return impl::index(t, indices); });
}

// Elements of a view that may lie on top of each other are added up, place by place.
Tensor add_at(const Tensor& flat, const Tensor& places, const Tensor& grad) {
  return ops::index_add(flat, 0, ops::reshape(places, Dims{-1}), ops::reshape(grad, Dims{-1}));
}

namespace {
int64_t extent(IntSpan sizes, IntSpan strides, int64_t offset) {
  int64_t last = offset;
  for (int64_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return 0;
    last += (sizes[d] - 1) * strides[d];
  }
  return last + 1;
}
}  // namespace

Tensor as_strided_backward(const Tensor& grad, const OutputMeta& base, const Dims& base_strides,
                           int64_t base_offset, IntSpan sizes, IntSpan strides,
                           std::optional<int64_t> view_offset) {
  // The smallest stretch of storage that both look at, as a vector.
  int64_t offset = view_offset.value_or(base_offset), first = std::min(offset, base_offset);
  int64_t length = std::max(extent(base.sizes, base_strides, base_offset - first),
                            extent(sizes, strides, offset - first));
  Tensor flat = ops::zeros(Dims{length}, grad.dtype(), {}, grad.device());
  if (is_dense(sizes, strides) && !has_internal_overlap(sizes, strides)) {
    ops::copy_(ops::as_strided(flat, Dims(sizes), Dims(strides), offset - first), grad);
  } else {
    Tensor places = ops::arange(Scalar(length), {}, {}, grad.device());
    flat = add_at(flat, impl::as_strided(places, Dims(sizes), Dims(strides), offset - first), grad);
  }
  if (has_internal_overlap(base.sizes,
                           base_strides)) {  // each reader of a shared place gets its share
    Tensor places = impl::as_strided(ops::arange(Scalar(length), {}, {}, grad.device()), base.sizes,
                                     base_strides, base_offset - first);
    Tensor ones = ops::ones(base.sizes, grad.dtype(), {}, grad.device());
    Tensor readers =
        add_at(ops::zeros(Dims{length}, grad.dtype(), {}, grad.device()), places, ones);
    flat = flat / ops::add(readers, wrap_number(Scalar(0)));
  }
  return ops::as_strided(flat, base.sizes, base_strides, base_offset - first);
}

Tensor unfold_backward(const Tensor& grad, IntSpan sizes, int64_t dimension, int64_t size,
                       int64_t step) {
  Tensor places = ops::arange(Scalar(product(sizes)), {}, {}, grad.device());
  places = impl::unfold(impl::view(places, Dims(sizes)), dimension, size, step);
  Tensor flat = ops::zeros(Dims{product(sizes)}, grad.dtype(), {}, grad.device());
  return ops::view(add_at(flat, places, grad), Dims(sizes));
}

}  // namespace grad
}  // namespace rl
