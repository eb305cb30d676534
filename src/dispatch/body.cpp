#include "dispatch/body.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/meta.h"
#include "autograd/node.h"
#include "dispatch/generated.h"
#include "dispatch/pieces.h"
#include "ops_create.h"
#include "ops_reduction.h"
#include "ops_shape.h"
#include "tensor/output_layout.h"

namespace rl {

double largest_finite(DType t) {
  t = to_real(t);
  if (t == DType::Float16) return 65504;
  if (t == DType::BFloat16) return std::ldexp(255, 120);
  return t == DType::Float32 ? std::numeric_limits<float>::max()
                             : std::numeric_limits<double>::max();
}
double epsilon(DType t) {
  return t == DType::Float64 ? 2.220446049250313e-16 : 1.1920928955078125e-07;
}

bool truth(const char* op, const Tensor& t) {
  check_elements(op, t);
  return item<bool>(ops::to_dtype(t, DType::Bool));
}

bool is_viewable(const Tensor& t, const Dims& sizes) {
  Dims strides;
  return view_strides(t, sizes, strides);
}

Dims with_size(Dims sizes, int64_t dim, int64_t size) {
  sizes[dim] = size;
  return sizes;
}
Dims line_sizes(int64_t ndim, int64_t dim, int64_t size) {
  return with_size(Dims(ndim, 1), dim, size);
}

Dims without_dim(Dims sizes, int64_t dim) {
  sizes.erase(dim);
  return sizes;
}

Dims with_leading_ones(const Dims& sizes, int64_t ndim) {
  Dims wide = sizes;
  while (wide.size() < ndim) wide.insert(0, 1);
  return wide;
}

std::optional<MemoryFormat> format_like(const Tensor& t, std::optional<MemoryFormat> format) {
  return format == MemoryFormat::Preserve ? suggested_format(t) : format;
}

Dims flattened_sizes(const Tensor& t, int64_t start_dim, int64_t end_dim) {
  int64_t from = wrap_dim(start_dim, t.dim(), "flatten"),
          to = wrap_dim(end_dim, t.dim(), "flatten");
  check(from <= to, "flatten: flatten() has invalid args: start_dim cannot come after end_dim");
  if (t.dim() == 0) return Dims{1};
  Dims sizes;
  for (int64_t d = 0; d < t.dim(); ++d) {
    if (d <= from || d > to) sizes.push_back(t.sizes()[d]);
    else sizes.back() = product(Dims{sizes.back(), t.sizes()[d]});
  }
  return sizes;
}

Dims unflattened_sizes(const Tensor& t, int64_t dim, const Dims& given) {
  int64_t d = wrap_dim(dim, t.dim(), "unflatten");
  check(!given.empty(), "unflatten: sizes must be non-empty");
  check_index(t.dim() > 0, "unflatten: expected a tensor with at least one dim");
  Dims parts = infer_size(given, t.sizes()[d], "unflatten"), sizes = t.sizes();
  sizes.erase(d);
  for (int64_t i = 0; i < parts.size(); ++i) sizes.insert(d + i, parts[i]);
  return sizes;
}

Dims moved_dims(const Tensor& t, const Dims& source, const Dims& destination) {
  check(source.size() == destination.size(),
        "movedim: Invalid source or destination dims: source (", source,
        " dims) should contain the same number of dims as destination (", destination, " dims)");
  Dims order(t.dim(), -1);
  bool moved[max_dims] = {};
  for (int64_t i = 0; i < source.size(); ++i) {
    int64_t from = wrap_dim(source[i], t.dim(), "movedim"),
            to = wrap_dim(destination[i], t.dim(), "movedim");
    check(!moved[from], "movedim: repeated dim in `source` (", source, ")");
    if (t.dim() == 0) return order;
    check(order[to] < 0, "movedim: repeated dim in `destination` (", destination, ")");
    moved[from] = true;
    order[to] = from;
  }
  int64_t next = 0;
  for (int64_t& d : order) {
    if (d >= 0) continue;
    while (moved[next]) ++next;
    d = next++;
  }
  return order;
}

Dims split_sizes_of(const Tensor& t, int64_t split_size, int64_t dim) {
  check(t.dim() > 0, "split: split expects at least a 1-dimensional tensor");
  check(split_size >= 0,
        "split: split expects split_size be non-negative, but got split_size=", split_size);
  int64_t size = t.sizes()[wrap_dim(dim, t.dim(), "split")];
  check(split_size > 0 || size == 0,
        "split: split_size can only be 0 if dimension size is 0, but got dimension size of ", size);
  if (size > 0) check_pieces("split", (size - 1) / split_size + 1);
  Dims sizes;
  for (int64_t at = 0; at < size; at += split_size)
    sizes.push_back(std::min(split_size, size - at));
  if (sizes.empty()) sizes.push_back(0);
  return sizes;
}

Dims chunk_sizes(const Tensor& t, int64_t chunks, int64_t dim) {
  check(t.dim() > 0, "chunk: chunk expects at least a 1-dimensional tensor");
  check(chunks > 0, "chunk: chunk expects `chunks` to be greater than 0, got: ", chunks);
  int64_t size = t.sizes()[wrap_dim(dim, t.dim(), "chunk")];
  if (size > 0) return split_sizes_of(t, (size - 1) / chunks + 1, dim);
  check_pieces("chunk", chunks);
  return Dims(chunks, 0);
}

Dims embedded_sizes(const Tensor& t, int64_t offset, int64_t dim1, int64_t dim2) {
  int64_t ndim = t.dim() + 1, a = wrap_dim(dim1, ndim, "diag_embed"),
          b = wrap_dim(dim2, ndim, "diag_embed");
  check(t.dim() > 0, "diag_embed: expected a tensor with at least one dim");
  check(a != b, "diag_embed: diagonal dimensions cannot be identical ", dim1, ", ", dim2);
  int64_t side = t.sizes().back() + std::abs(offset);
  Dims sizes(IntSpan(t.sizes().data(), t.dim() - 1));
  sizes.insert(std::min(a, b), side);
  sizes.insert(std::max(a, b), side);
  return sizes;
}

Dims inner_sizes(const Tensor& a, const Tensor& b) {
  Dims sizes(IntSpan(a.sizes().data(), a.dim() - 1));
  for (int64_t d = 0; d + 1 < b.dim(); ++d) sizes.push_back(b.sizes()[d]);
  return sizes;
}

int64_t cross_dim(const Tensor& a, const Tensor& b, std::optional<int64_t> dim) {
  check(a.dim() == b.dim(), "cross: inputs must have the same number of dimensions, got ",
        a.sizes(), " and ", b.sizes());
  int64_t d = 0;
  if (dim) {
    d = wrap_dim(*dim, a.dim(), "cross");
  } else {
    warn("cross: without dim it takes the first dim of size 3; say dim, or use linalg.cross");
    while (d < a.dim() && a.sizes()[d] != 3) ++d;
    check(d < a.dim(), "cross: no dimension of size 3 in input");
  }
  check(a.dim() > 0 && a.sizes()[d] == 3 && b.sizes()[d] == 3, "cross: inputs dimension ", d,
        " must have length 3. Got ", a.sizes(), " and ", b.sizes());
  return d;
}

int64_t padding_row(const Tensor& table, std::optional<int64_t> padding_idx) {
  if (!padding_idx) return -1;
  check_table("embedding", table);
  int64_t rows = table.size(0), padding = *padding_idx;
  check(padding >= -rows && padding < rows,
        "embedding: padding_idx must be within num_embeddings: ", padding, " is not one of ", rows,
        " rows");
  return padding < 0 ? padding + rows : padding;
}

bool ends_with(const Dims& sizes, const Dims& end) {
  return sizes.size() >= end.size() && std::equal(end.begin(), end.end(), sizes.end() - end.size());
}

Dims other_dims(int64_t ndim, int64_t dim) {
  Dims dims;
  for (int64_t d = 0; d < ndim; ++d)
    if (d != dim) dims.push_back(d);
  return dims;
}

Dims last_dims(int64_t ndim, int64_t count) {
  Dims dims;
  for (int64_t d = ndim - count; d < ndim; ++d) dims.push_back(d);
  return dims;
}

bool reads_upper(const std::string& uplo) {
  check(uplo == "L" || uplo == "U" || uplo == "l" || uplo == "u",
        "Expected UPLO argument to be 'L' or 'U', but got ", uplo);
  return uplo == "U" || uplo == "u";
}

Tensor ordered(const Tensor& t) { return t.defined() ? ops::contiguous(t) : t; }
Tensor floating(const Tensor& t) {
  return is_integral_or_bool(t.dtype()) ? ops::to(t, default_dtype()) : t;
}

Tensor number_beside(const Tensor& t, const Tensor& other) {
  const bool moves = t.impl()->wrapped_number && !is_same_device(t.device(), other.device());
  return moves ? ops::to(t, other.device()) : t;
}

Tensor at_least(const Tensor& t, int64_t ndim) {
  if (t.dim() >= ndim) return t;
  if (ndim == 1) return ops::reshape(t, Dims{1});
  if (ndim == 2) return t.dim() == 0 ? ops::reshape(t, Dims{1, 1}) : ops::unsqueeze(t, 0);
  return ops::unsqueeze(at_least(t, 2), 2);
}

Scalar in_old_order(const Scalar& number, const std::string& op) {
  warn(("This overload of " + op +
        " is deprecated: a number before the tensors is the order of arguments of 2017; give "
        "alpha, beta or value by name")
           .c_str());
  return number;
}

Tensor reduced_by_node(const Tensor& elements, bool mean) {
  auto reduced = [&] { return mean ? ops::mean(elements) : ops::sum(elements); };
  auto* node = static_cast<Node*>(elements.impl()->grad_fn.get());
  int64_t* mean_of = node && records(elements) ? node->reduction() : nullptr;
  if (!mean_of) return reduced();
  Tensor result = unrecorded(reduced);
  *mean_of = mean ? elements.numel() : 1;
  set_history(result, Ref<Node>::share(node));
  return result;
}

TensorList without_bases(TensorList views) {
  for (Tensor& view : views) view = without_base(std::move(view));
  return views;
}

Tensor become(const Tensor& self, const Tensor& view, const char* op) {
  TensorImpl* impl = self.impl();
  const TensorImpl* seen = view.impl();
  impl->sizes = seen->sizes;
  impl->strides = seen->strides;
  impl->offset = seen->offset;
  impl->refresh();
  reshape_accumulator(self);
  bump_version(self, op);
  if (seen->grad_fn) {
    impl->grad_fn = seen->grad_fn;
    impl->output_nr = seen->output_nr;
    impl->view_version = impl->storage->version.load(std::memory_order_relaxed);
  }
  return self;
}

}  // namespace rl
