// Composites that rearrange: pieces, repetitions, diagonals, stacks.
#include <algorithm>

#include "autograd/geometry.h"
#include "dispatch/generated.h"
#include "dispatch/guards.h"
#include "dispatch/host_elements.h"
#include "dispatch/pieces.h"
#include "ops_create.h"
#include "ops_indexing.h"
#include "ops_shape.h"

namespace rl {

namespace grad {
int64_t hstack_dim(const Tensor& t) {
  check(t.dim() >= 1,
        "hsplit: requires a tensor with at least 1 dimension, but got a tensor with 0 dimensions");
  return t.dim() == 1 ? 0 : 1;
}
Tensor in_order(const Tensor& t) { return ops::clone(t, MemoryFormat::Contiguous); }
}  // namespace grad

namespace ops {

Tensor flatten(const Tensor& input, int64_t start_dim, int64_t end_dim) {
  int64_t from = wrap_dim(start_dim, input.dim(), "flatten"),
          to = wrap_dim(end_dim, input.dim(), "flatten");
  check(from <= to, "flatten: flatten() has invalid args: start_dim cannot come after end_dim");
  if (input.dim() == 0) return reshape(input, Dims{1});
  if (from == to) return input;
  Dims sizes;
  for (int64_t d = 0; d < input.dim(); ++d) {
    if (d <= from || d > to) sizes.push_back(input.sizes()[d]);
    else sizes.back() = product(Dims{sizes.back(), input.sizes()[d]});
  }
  return reshape(input, sizes);
}

Tensor unflatten(const Tensor& input, int64_t dim, const Dims& given) {
  int64_t d = wrap_dim(dim, input.dim(), "unflatten");
  check(!given.empty(), "unflatten: sizes must be non-empty");
  check_index(input.dim() > 0, "unflatten: expected a tensor with at least one dim");
  Dims parts = infer_size(given, input.sizes()[d], "unflatten"), sizes = input.sizes();
  sizes.erase(d);
  for (int64_t i = 0; i < parts.size(); ++i) sizes.insert(d + i, parts[i]);
  return view(input, sizes);
}

TensorList split(const Tensor& input, int64_t split_size, int64_t dim) {
  check(input.dim() > 0, "split: split expects at least a 1-dimensional tensor");
  check(split_size >= 0,
        "split: split expects split_size be non-negative, but got split_size=", split_size);
  int64_t d = wrap_dim(dim, input.dim(), "split"), size = input.sizes()[d];
  check(split_size > 0 || size == 0,
        "split: split_size can only be 0 if dimension size is 0, but got dimension size of ", size);
  if (size > 0) check_pieces("split", (size - 1) / split_size + 1);
  Dims sizes;
  for (int64_t at = 0; at < size; at += split_size)
    sizes.push_back(std::min(split_size, size - at));
  if (sizes.empty()) sizes.push_back(0);
  return split_with_sizes(input, sizes, d);
}

TensorList chunk(const Tensor& input, int64_t chunks, int64_t dim) {
  check(input.dim() > 0, "chunk: chunk expects at least a 1-dimensional tensor");
  check(chunks > 0, "chunk: chunk expects `chunks` to be greater than 0, got: ", chunks);
  int64_t d = wrap_dim(dim, input.dim(), "chunk"), size = input.sizes()[d];
  if (size > 0) return split(input, (size - 1) / chunks + 1, d);
  check_pieces("chunk", chunks);
  return split_with_sizes(input, Dims(chunks, 0), d);
}

namespace {
TensorList without_bases(TensorList views) {
  for (Tensor& view : views) view = without_base(std::move(view));
  return views;
}
}  // namespace

TensorList unsafe_split(const Tensor& input, int64_t split_size, int64_t dim) {
  return without_bases(split(input, split_size, dim));
}
TensorList unsafe_chunk(const Tensor& input, int64_t chunks, int64_t dim) {
  return without_bases(chunk(input, chunks, dim));
}

TensorList tensor_split(const Tensor& input, int64_t sections, int64_t dim) {
  check(input.dim() > 0, "tensor_split: expected at least a 1-dimensional tensor");
  check(sections > 0, "tensor_split: number of sections must be larger than 0, got ", sections);
  int64_t d = wrap_dim(dim, input.dim(), "tensor_split"), size = input.sizes()[d];
  check_pieces("tensor_split", sections);
  TensorList parts;
  for (int64_t i = 0, at = 0; i < sections; ++i) {
    int64_t end = at + size / sections + (i < size % sections);
    parts.push_back(slice(input, d, at, end, 1));
    at = end;
  }
  return parts;
}

TensorList tensor_split(const Tensor& input, const Dims& indices, int64_t dim) {
  int64_t d = wrap_dim(dim, input.dim(), "tensor_split"), from = 0;
  TensorList parts;
  for (int64_t to : indices) {
    parts.push_back(slice(input, d, from, to, 1));
    from = to;
  }
  parts.push_back(slice(input, d, from, std::nullopt, 1));
  return parts;
}

TensorList tensor_split(const Tensor& input, const Tensor& places, int64_t dim) {
  check(places.dtype() == DType::Int64,
        "tensor_split: expected tensor_indices_or_sections to have dtype of long, but got ",
        places.dtype());
  check(places.dim() <= 1,
        "tensor_split: expected tensor_indices_or_sections to be a zero-dimensional or "
        "one-dimensional tensor, but got "
        "shape ",
        places.sizes());
  check_elements("tensor_split", places);
  Tensor in_order = on_host(contiguous(places));
  const int64_t* at = in_order.data<int64_t>();
  if (places.dim() == 0) return tensor_split(input, *at, dim);
  return tensor_split(input, Dims(IntSpan(at, places.numel())), dim);
}

Tensor fliplr(const Tensor& input) {
  check(input.dim() >= 2, "fliplr: Input must be >= 2-d, got shape ", input.sizes());
  return flip(input, Dims{1});
}
Tensor flipud(const Tensor& input) {
  check(input.dim() >= 1, "flipud: Input must be >= 1-d, got shape ", input.sizes());
  return flip(input, Dims{0});
}

Tensor narrow(const Tensor& input, int64_t dim, int64_t start, int64_t length) {
  check(input.dim() > 0, "narrow: narrow() cannot be applied to a 0-dim tensor.");
  int64_t d = wrap_dim(dim, input.dim(), "narrow"), size = input.sizes()[d];
  check(length >= 0, "narrow: narrow(): length must be non-negative, got ", length);
  check_index(start >= -size && start <= size,
              "narrow: start out of range (expected to be in range of [", -size, ", ", size,
              "], but got ", start, ")");
  int64_t from = start < 0 ? start + size : start;
  check(length <= size - from, "narrow: start (", from, ") + length (", length,
        ") exceeds dimension size (", size, ").");
  return slice(input, d, from, from + length, 1);
}

Tensor narrow(const Tensor& input, int64_t dim, const Tensor& start, int64_t length) {
  check(start.dim() == 0 && is_integral(start.dtype()),
        "narrow: start must be an 0-dim integral Tensor.");
  check_elements("narrow", start);
  return narrow(input, dim, item<int64_t>(start), length);
}

Tensor movedim(const Tensor& input, const Dims& source, const Dims& destination) {
  check(source.size() == destination.size(),
        "movedim: Invalid source or destination dims: source (", source,
        " dims) should contain the same number of dims as destination (", destination, " dims)");
  Dims order(input.dim(), -1);
  bool moved[max_dims] = {};
  for (int64_t i = 0; i < source.size(); ++i) {
    int64_t from = wrap_dim(source[i], input.dim(), "movedim"),
            to = wrap_dim(destination[i], input.dim(), "movedim");
    check(!moved[from], "movedim: repeated dim in `source` (", source, ")");
    if (input.dim() == 0) return alias(input);
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
  return permute(input, order);
}

Tensor repeat(const Tensor& input, const Dims& repeats) {
  int64_t added = repeats.size() - input.dim();
  check(added >= 0,
        "repeat: Number of dimensions of repeat dims can not be smaller than number of dimensions "
        "of tensor");
  // Each dim n becomes (repeat, n), expanded and then joined.
  Dims split_sizes, wide, sizes;
  for (int64_t d = 0; d < repeats.size(); ++d) {
    int64_t n = d < added ? 1 : input.sizes()[d - added];
    check(repeats[d] >= 0, "repeat: Trying to create tensor with negative dimension ",
          wrapping_product(repeats[d], n), ": repeats ", repeats);
    split_sizes.push_back(1);
    split_sizes.push_back(n);
    wide.push_back(repeats[d]);
    wide.push_back(n);
    sizes.push_back(wrapping_product(repeats[d], n));
  }
  Tensor out = reshape(expand(reshape(input, split_sizes), wide), sizes);
  return out.storage() == input.storage() ? clone(out, MemoryFormat::Contiguous)
                                          : without_base(out);
}

Tensor tile(const Tensor& input, const Dims& dims) {
  Dims counts = dims;
  while (counts.size() < input.dim()) counts.insert(0, 1);
  return repeat(input, counts);
}

Tensor repeat_interleave(const Tensor& input, int64_t repeats, std::optional<int64_t> dim,
                         std::optional<int64_t>) {
  check(repeats >= 0, "repeat_interleave: Repeats must be non-negative, got ", repeats);
  Tensor x = dim ? input : reshape(input, Dims{-1});
  if (x.dim() == 0) x = unsqueeze(x, 0);
  int64_t d = wrap_dim(dim.value_or(0), x.dim(), "repeat_interleave");
  Dims wide = x.sizes(), sizes = x.sizes();
  wide.insert(d + 1, repeats);
  sizes[d] = wrapping_product(sizes[d], repeats);
  return reshape(clone(expand(unsqueeze(x, d + 1), wide), MemoryFormat::Contiguous), sizes);
}

Tensor repeat_interleave(const Tensor& input, const Tensor& repeats, std::optional<int64_t> dim,
                         std::optional<int64_t> output_size) {
  check(repeats.dim() <= 1, "repeat_interleave: repeats must be 0-dim or 1-dim tensor, got shape ",
        repeats.sizes());
  check(repeats.dtype() == DType::Int64 || repeats.dtype() == DType::Int32,
        "repeat_interleave: repeats has to be Long or Int tensor, got ", repeats.dtype());
  Tensor x = dim ? input : reshape(input, Dims{-1});
  int64_t d = wrap_dim(dim.value_or(0), x.dim(), "repeat_interleave"),
          n = x.dim() ? x.sizes()[d] : 1;
  check(repeats.dim() == 0 || repeats.numel() == 1 || repeats.numel() == n,
        "repeat_interleave: repeats must have the same size as input along dim, but got "
        "repeats.size(0) = ",
        repeats.numel(), " and input.size(", d, ") = ", n);
  check_elements("repeat_interleave", repeats);
  Tensor counts =
      on_host(contiguous(to_dtype(expand(reshape(repeats, Dims{-1}), Dims{n}), DType::Int64)));
  // A copy: somebody may change them after the check.
  const Dims count(IntSpan(counts.data<int64_t>(), n));
  int64_t total = 0;
  for (int64_t i = 0; i < n; ++i) {
    check(count[i] >= 0, "repeat_interleave: repeats can not be negative");
    check(!__builtin_add_overflow(total, count[i], &total) && total < int64_t(1) << 62,
          "repeat_interleave: repeats add up to more than a tensor can hold");
  }
  check(!output_size || *output_size == total,
        "repeat_interleave: allocated size does not match required size ", total);
  // Each is written `ahead` times at once, for what is beyond its count the next ones overwrite:
  // short loops of random lengths are slow.
  constexpr int64_t ahead = 8;
  Tensor room = rl::empty(Dims{total + ahead}, {DType::Int64, Device{}});
  int64_t* place = room.data<int64_t>();
  for (int64_t i = 0; i < n; ++i) {
    std::fill_n(place, ahead, i);
    if (count[i] > ahead) std::fill_n(place + ahead, count[i] - ahead, i);
    place += count[i];
  }
  return index_select(x.dim() ? x : unsqueeze(x, 0), d,
                      moved_to(slice(room, 0, 0, total, 1), input.device()));
}

Tensor repeat_interleave(const Tensor& repeats, std::optional<int64_t> output_size) {
  check(repeats.dim() == 1, "repeat_interleave: only accept 1D vector as repeat, got shape ",
        repeats.sizes());
  Tensor places = arange(Scalar(repeats.numel()), repeats.dtype(), {}, repeats.device());
  return repeat_interleave(places, repeats, std::nullopt, output_size);
}

Tensor diag_embed(const Tensor& input, int64_t offset, int64_t dim1, int64_t dim2) {
  int64_t ndim = input.dim() + 1, a = wrap_dim(dim1, ndim, "diag_embed"),
          b = wrap_dim(dim2, ndim, "diag_embed");
  check(input.dim() > 0, "diag_embed: expected a tensor with at least one dim");
  check(a != b, "diag_embed: diagonal dimensions cannot be identical ", dim1, ", ", dim2);
  int64_t side = input.sizes().back() + std::abs(offset);
  Dims sizes(IntSpan(input.sizes().data(), input.dim() - 1));
  sizes.insert(std::min(a, b), side);
  sizes.insert(std::max(a, b), side);
  Tensor out = zeros(sizes, input.dtype(), {}, input.device());
  copy_(diagonal(out, offset, a, b), input);
  return out;
}

Tensor diag(const Tensor& input, int64_t offset) {
  check(input.dim() == 1 || input.dim() == 2, "diag: diag(): Supports 1D or 2D tensors. Got ",
        input.dim(), "D");
  return input.dim() == 1 ? diag_embed(input, offset, 0, 1)
                          : clone(diagonal(input, offset, 0, 1), MemoryFormat::Contiguous);
}

Tensor rot90(const Tensor& input, int64_t k, const Dims& dims) {
  check(dims.size() == 2, "rot90: expected total rotation dims == 2, but got dims = ", dims.size());
  check(input.dim() >= 2, "rot90: expected total dims >= 2, but got total dims = ", input.dim());
  int64_t a = wrap_dim(dims[0], input.dim(), "rot90"), b = wrap_dim(dims[1], input.dim(), "rot90");
  check(a != b, "rot90: expected rotation dims to be different, but got dim0 = ", dims[0],
        " and dim1 = ", dims[1]);
  switch (((k % 4) + 4) % 4) {
    case 1: return without_base(transpose(flip(input, Dims{b}), a, b));
    case 2: return flip(input, Dims{a, b});
    case 3: return without_base(transpose(flip(input, Dims{a}), a, b));
    default: return clone(input, MemoryFormat::Contiguous);
  }
}

namespace {
Tensor at_least(const Tensor& t, int64_t ndim) {
  if (t.dim() >= ndim) return t;
  if (ndim == 1) return reshape(t, Dims{1});
  if (ndim == 2) return t.dim() == 0 ? reshape(t, Dims{1, 1}) : unsqueeze(t, 0);
  return unsqueeze(at_least(t, 2), 2);
}
TensorList all_at_least(const TensorList& tensors, int64_t ndim) {
  TensorList out;
  for (const Tensor& t : tensors) out.push_back(at_least(t, ndim));
  return out;
}
}  // namespace

Tensor hstack(const TensorList& tensors) {
  check(!tensors.empty(), "hstack: expects a non-empty TensorList");
  TensorList list = all_at_least(tensors, 1);
  return cat(list, list[0].dim() == 1 ? 0 : 1);
}
Tensor vstack(const TensorList& tensors) {
  check(!tensors.empty(), "vstack: expects a non-empty TensorList");
  return cat(all_at_least(tensors, 2), 0);
}
Tensor dstack(const TensorList& tensors) {
  check(!tensors.empty(), "dstack: expects a non-empty TensorList");
  return cat(all_at_least(tensors, 3), 2);
}
Tensor column_stack(const TensorList& tensors) {
  check(!tensors.empty(), "column_stack: expects a non-empty TensorList");
  TensorList list;
  for (const Tensor& t : tensors) list.push_back(t.dim() <= 1 ? reshape(t, Dims{t.numel(), 1}) : t);
  return cat(list, 1);
}

}  // namespace ops
}  // namespace rl
