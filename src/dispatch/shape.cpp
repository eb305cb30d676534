// Views, and the copies that take the place of one.
#include <algorithm>
#include <limits>

#include "autograd/geometry.h"
#include "core/alignment.h"
#include "dispatch/generated.h"
#include "dispatch/pieces.h"
#include "impl_create.h"
#include "impl_shape.h"
#include "launch_copy.h"
#include "launch_index.h"
#include "ops_create.h"
#include "ops_shape.h"
#include "tensor/output_layout.h"

namespace rl {
namespace impl {

Tensor as_strided(const Tensor& input, const Dims& size, const Dims& stride,
                  std::optional<int64_t> storage_offset) {
  int64_t offset = storage_offset.value_or(input.offset());
  check(size.size() == stride.size(), "as_strided: size ", size, " and stride ", stride,
        " differ in length");
  check(offset >= 0, "as_strided: storage_offset must not be negative, got ", offset);
  int64_t last = offset;
  bool is_empty = false, overflow = false;
  for (int64_t d = 0; d < size.size(); ++d) {
    check(size[d] >= 0, "as_strided: negative size in ", size);
    check(stride[d] >= 0,
          "as_strided: Negative strides are not supported at the moment, got strides: ", stride);
    is_empty = is_empty || size[d] == 0;
    int64_t reach = 0;
    overflow = overflow || __builtin_mul_overflow(size[d] - 1, stride[d], &reach) ||
               __builtin_add_overflow(last, reach, &last);
  }
  bool fits = !overflow && last < input.storage()->nbytes / itemsize(input.dtype());
  check(is_empty || fits, "as_strided: sizes ", size, ", strides ", stride, ", storage offset ",
        offset, " are out of bounds for storage of ", input.storage()->nbytes, " bytes");
  return alias(input, size, stride, offset);
}

Tensor transpose(const Tensor& input, int64_t dim0, int64_t dim1) {
  int64_t a = wrap_dim(dim0, input.dim(), "transpose"),
          b = wrap_dim(dim1, input.dim(), "transpose");
  Dims sizes = input.sizes(), strides = input.strides();
  if (input.dim()) {
    std::swap(sizes[a], sizes[b]);
    std::swap(strides[a], strides[b]);
  }
  return alias(input, sizes, strides, input.offset());
}

Tensor permute(const Tensor& input, const Dims& dims) {
  check(dims.size() == input.dim(), "permute: input.dim() = ", input.dim(),
        " is not equal to len(dims) = ", dims.size());
  Dims sizes(dims.size()), strides(dims.size());
  bool seen[max_dims] = {};
  for (int64_t i = 0; i < dims.size(); ++i) {
    int64_t d = wrap_dim(dims[i], input.dim(), "permute");
    check(!seen[d], "permute: duplicate dims are not allowed: ", dims);
    seen[d] = true;
    sizes[i] = input.sizes()[d];
    strides[i] = input.strides()[d];
  }
  return alias(input, sizes, strides, input.offset());
}

Tensor expand(const Tensor& input, const Dims& size, bool) {
  int64_t added = size.size() - input.dim();
  check(added >= 0, "expand: the number of sizes provided (", size.size(),
        ") must be greater or equal to the number of dimensions in the tensor (", input.dim(), ")");
  Dims sizes(size), strides(size.size());
  for (int64_t d = size.size() - 1; d >= 0; --d) {
    int64_t have = d < added ? 1 : input.sizes()[d - added];
    if (sizes[d] == -1) {
      check(d >= added,
            "expand: The expanded size of the tensor (-1) isn't allowed in a leading, non-existing "
            "dimension ",
            d);
      sizes[d] = have;
    }
    check(sizes[d] >= 0, "expand: negative size in ", size);
    check(have == sizes[d] || have == 1, "expand: The expanded size of the tensor (", sizes[d],
          ") must match the existing size (", have, ") at non-singleton dimension ", d,
          ".  Target sizes: ", size, ".  Tensor sizes: ", input.sizes());
    if (input.dim() == 0 || (have == 1 && sizes[d] != 1)) strides[d] = 0;
    else if (d >= added) strides[d] = input.strides()[d - added];
    else strides[d] = d + 1 < size.size() ? sizes[d + 1] * strides[d + 1] : 1;
  }
  return alias(input, sizes, strides, input.offset());
}

Tensor view(const Tensor& input, const Dims& size) {
  if (input.is_contiguous()) {  // the common case, in one pass
    Dims strides = size;
    int64_t step = 1;
    bool plain = true;
    for (int64_t d = size.size() - 1; d >= 0; --d) {
      strides[d] = step;
      plain = plain && size[d] > 0 && !__builtin_mul_overflow(step, size[d], &step);
    }
    if (plain && step == input.numel()) return alias(input, size, strides, input.offset());
  }
  Dims sizes = infer_size(size, input.numel(), "view"), strides;
  check(view_strides(input, sizes, strides),
        "view: view size is not compatible with input tensor's size and stride (at least one "
        "dimension spans across two "
        "contiguous subspaces). Use .reshape(...) instead. Size ",
        sizes, ", input ", input.sizes(), " with strides ", input.strides());
  return alias(input, sizes, strides, input.offset());
}

Tensor squeeze(const Tensor& input) {
  Dims sizes, strides;
  for (int64_t d = 0; d < input.dim(); ++d)
    if (input.sizes()[d] != 1) {
      sizes.push_back(input.sizes()[d]);
      strides.push_back(input.strides()[d]);
    }
  return alias(input, sizes, strides, input.offset());
}

Tensor squeeze(const Tensor& input, const Dims& dim) {
  bool drop[max_dims] = {};
  for (int64_t d : dim) {
    int64_t at = wrap_dim(d, input.dim(), "squeeze");
    check(!drop[at], "squeeze: dim ", at, " appears multiple times in the list of dims");
    drop[at] = input.dim() > 0 && input.sizes()[at] == 1;
  }
  Dims sizes, strides;
  for (int64_t d = 0; d < input.dim(); ++d)
    if (!drop[d]) {
      sizes.push_back(input.sizes()[d]);
      strides.push_back(input.strides()[d]);
    }
  return alias(input, sizes, strides, input.offset());
}

Tensor unsqueeze(const Tensor& input, int64_t dim) {
  int64_t at = wrap_dim(dim, input.dim() + 1, "unsqueeze");
  Dims sizes = input.sizes(), strides = input.strides();
  int64_t stride = at < input.dim() ? sizes[at] * strides[at] : 1;
  sizes.insert(at, 1);
  strides.insert(at, stride);
  return alias(input, sizes, strides, input.offset());
}

Tensor select(const Tensor& input, int64_t dim, int64_t index) {
  check_index(input.dim() > 0, "select: select() cannot be applied to a 0-dim tensor.");
  int64_t d = wrap_dim(dim, input.dim(), "select"), size = input.sizes()[d];
  check_index(index >= -size && index < size, "select: index ", index,
              " out of range for tensor of size ", input.sizes(), " at dimension ", d);
  Dims sizes = input.sizes(), strides = input.strides();
  int64_t offset = input.offset() + (index < 0 ? index + size : index) * strides[d];
  sizes.erase(d);
  strides.erase(d);
  return alias(input, sizes, strides, offset);
}

Tensor slice(const Tensor& input, int64_t dim, std::optional<int64_t> start,
             std::optional<int64_t> end, int64_t step) {
  check(input.dim() > 0, "slice: slice() cannot be applied to a 0-dim tensor.");
  check_value(step > 0, "slice: slice step must be positive, got ", step);
  int64_t d = wrap_dim(dim, input.dim(), "slice"), size = input.sizes()[d];
  auto clamp = [&](int64_t at, int64_t low) {
    return std::min(std::max(at < 0 ? at + size : at, low), size);
  };
  int64_t from = clamp(start.value_or(0), 0), to = clamp(end.value_or(size), from);
  Dims sizes = input.sizes(), strides = input.strides();
  int64_t offset = input.offset() + from * strides[d];
  sizes[d] = (to - from) / step + ((to - from) % step != 0);
  bool overflow = __builtin_mul_overflow(strides[d], step, &strides[d]);
  if (overflow) strides[d] = 1;  // a step beyond every index: at most one element is left
  return alias(input, sizes, strides, offset);
}

Tensor diagonal(const Tensor& input, int64_t offset, int64_t dim1, int64_t dim2) {
  int64_t a = wrap_dim(dim1, input.dim(), "diagonal"), b = wrap_dim(dim2, input.dim(), "diagonal");
  check(input.dim() >= 2 && a != b, "diagonal: dimensions cannot be identical ", dim1, ", ", dim2);
  Dims sizes = input.sizes(), strides = input.strides();
  int64_t rows = sizes[a], columns = sizes[b];
  int64_t length = offset >= 0 ? std::min(rows, columns - std::min(offset, columns))
                               : std::min(rows + std::max(offset, -rows), columns);
  length = std::max<int64_t>(length, 0);
  int64_t at = input.offset();
  if (length > 0) at += offset >= 0 ? offset * strides[b] : -offset * strides[a];
  int64_t step = strides[a] + strides[b];
  for (int64_t d : {std::max(a, b), std::min(a, b)}) {
    sizes.erase(d);
    strides.erase(d);
  }
  sizes.push_back(length);
  strides.push_back(step);
  return alias(input, sizes, strides, at);
}

Tensor unfold(const Tensor& input, int64_t dimension, int64_t size, int64_t step) {
  int64_t d = wrap_dim(dimension, input.dim(), "unfold");
  int64_t have = input.dim() ? input.sizes()[d] : 1;
  check(size >= 0 && size <= have, "unfold: maximum size for tensor at dimension ", d, " is ", have,
        " but size is ", size);
  check(step > 0, "unfold: step is ", step, " but must be > 0");
  Dims sizes = input.sizes(), strides = input.strides();
  if (input.dim()) {
    sizes[d] = (have - size) / step + 1;
    sizes.push_back(size);
    strides.push_back(strides[d]);
    strides[d] *= step;
  } else {
    sizes.push_back(size);
    strides.push_back(1);
  }
  return alias(input, sizes, strides, input.offset());
}

TensorList unbind(const Tensor& input, int64_t dim) {
  check_index(input.dim() > 0, "unbind: Dimension specified as ", dim,
              " but tensor has no dimensions");
  int64_t d = wrap_dim(dim, input.dim(), "unbind");
  check_pieces("unbind", input.sizes()[d]);
  TensorList parts;
  for (int64_t i = 0; i < input.sizes()[d]; ++i) parts.push_back(select(input, d, i));
  return parts;
}

TensorList split_with_sizes(const Tensor& input, const Dims& split_sizes, int64_t dim) {
  int64_t d = wrap_dim(dim, input.dim(), "split_with_sizes"), at = 0;
  check(input.dim() > 0, "split: split expects at least a 1-dimensional tensor");
  TensorList parts;
  for (int64_t n : split_sizes) {
    check(n >= 0, "split_with_sizes: split_sizes must have only non-negative entries, got ",
          split_sizes);
    check(n <= input.sizes()[d] - at, "split_with_sizes: split_sizes must sum exactly to ",
          input.sizes()[d], " (size of dim ", d, "), got ", split_sizes);
    parts.push_back(slice(input, d, at, at + n, 1));
    at += n;
  }
  check(at == input.sizes()[d], "split_with_sizes: split_sizes must sum exactly to ",
        input.sizes()[d], " (size of dim ", d, "), got ", split_sizes);
  return parts;
}

namespace {
// The same bytes as another dtype.
Tensor reinterpret(const Tensor& input, DType dtype, const Dims& sizes, const Dims& strides,
                   int64_t offset) {
  Tensor out = alias(input);
  TensorImpl* impl = out.impl();
  impl->dtype = dtype;
  impl->sizes = sizes;
  impl->strides = strides;
  impl->offset = offset;
  impl->refresh();
  check_aligned(impl->data, dtype);
  return out;
}
}  // namespace

Tensor view(const Tensor& input, std::optional<DType> dtype) {
  int64_t old_size = itemsize(input.dtype()), new_size = itemsize(*dtype);
  Dims sizes = input.sizes(), strides = input.strides();
  if (old_size == new_size) return reinterpret(input, *dtype, sizes, strides, input.offset());
  check(input.dim() > 0, "view: self.dim() cannot be 0 to view ", input.dtype(), " as ", *dtype,
        " (different element sizes)");
  check(strides.back() == 1 || sizes.back() == 1, "view: self.stride(-1) must be 1 to view ",
        input.dtype(), " as ", *dtype, " (different element sizes), but got ", strides.back());
  int64_t ratio = new_size > old_size ? new_size / old_size : old_size / new_size;
  if (new_size < old_size) {
    for (int64_t& s : strides) s *= ratio;
    sizes.back() *= ratio;
    strides.back() = 1;
    return reinterpret(input, *dtype, sizes, strides, input.offset() * ratio);
  }
  check(sizes.back() % ratio == 0, "view: self.size(-1) must be divisible by ", ratio, " to view ",
        input.dtype(), " as ", *dtype, " (different element sizes), but got ", sizes.back());
  check(input.offset() % ratio == 0, "view: self.storage_offset() must be divisible by ", ratio,
        ", got ", input.offset());
  sizes.back() /= ratio;
  for (int64_t d = 0; d + 1 < input.dim(); ++d) {
    check(strides[d] % ratio == 0, "view: self.stride(", d, ") must be divisible by ", ratio,
          ", but got ", strides[d]);
    strides[d] /= ratio;
  }
  strides.back() = 1;
  return reinterpret(input, *dtype, sizes, strides, input.offset() / ratio);
}

Tensor view_as_real(const Tensor& input) {
  check(input.is_complex(), "view_as_real: only supported for complex tensors, got ",
        input.dtype());
  Dims sizes = input.sizes(), strides = input.strides();
  for (int64_t& s : strides) s *= 2;
  sizes.push_back(2);
  strides.push_back(1);
  return reinterpret(input, to_real(input.dtype()), sizes, strides, input.offset() * 2);
}

Tensor view_as_complex(const Tensor& input) {
  check(input.dtype() == DType::Float32 || input.dtype() == DType::Float64,
        "view_as_complex: only supported for float32 and float64 tensors, got ", input.dtype());
  check(input.dim() > 0 && input.sizes().back() == 2,
        "view_as_complex: Tensor must have a last dimension of size 2, got ", input.sizes());
  Dims sizes = input.sizes(), strides = input.strides();
  check(strides.back() == 1, "view_as_complex: Tensor must have a last dimension with stride 1");
  sizes.erase(sizes.size() - 1);
  strides.erase(strides.size() - 1);
  for (int64_t& s : strides) {
    check(s % 2 == 0,
          "view_as_complex: Tensor must have a stride divisible by 2 for all but last dimension, "
          "got ",
          input.strides());
    s /= 2;
  }
  check(input.offset() % 2 == 0,
        "view_as_complex: Tensor must have a storage_offset divisible by 2");
  return reinterpret(input, to_complex(input.dtype()), sizes, strides, input.offset() / 2);
}

namespace {
// channels_last where all the parts suggest it; in physical layout if any part lies so.
MemoryFormat common_format(const TensorList& parts) {
  MemoryFormat format = suggested_format(parts[0]);
  for (size_t i = 1; i < parts.size() && format != MemoryFormat::Contiguous; ++i)
    if (suggested_format(parts[i]) != format) format = MemoryFormat::Contiguous;
  return format;
}
Tensor empty_joined(const Dims& sizes, const TensorList& parts, TensorOptions wanted) {
  MemoryFormat format = common_format(parts);
  if (format != MemoryFormat::Contiguous)
    return empty_strided(sizes, channels_last_strides(sizes), wanted);
  bool channels_last = std::any_of(parts.begin(), parts.end(), has_physical_layout);
  return channels_last ? empty_channels_last(sizes, wanted) : rl::empty(sizes, wanted);
}

// A stack is the parts joined along the new dim, which is then split off; a last dim that is new
// has nothing to be split from.
Dims stacked_strides(const Dims& sizes, int64_t dim, const TensorList& parts) {
  if (dim + 1 == sizes.size() || common_format(parts) == MemoryFormat::Contiguous)
    return contiguous_strides(sizes);
  Dims joined = parts[0].sizes();
  joined[dim] *= static_cast<int64_t>(parts.size());
  Dims strides;
  view_strides(alias(parts[0], joined, channels_last_strides(joined), 0), sizes, strides);
  return strides;
}
}  // namespace

Tensor cat(const TensorList& tensors, int64_t dim) {
  check_value(!tensors.empty(), "cat: expected a non-empty list of Tensors");
  auto skipped = [](const Tensor& t) { return t.dim() == 1 && t.numel() == 0; };
  Promotion promotion;
  const Tensor* first = nullptr;
  for (const Tensor& t : tensors) {
    check(t.dim() > 0, "cat: zero-dimensional tensor (at position ", &t - tensors.data(),
          ") cannot be concatenated");
    promotion.add(t);
    if (!first && !skipped(t)) first = &t;
  }
  if (!first) first = &tensors[0];
  int64_t d = wrap_dim(dim, first->dim(), "cat");
  Dims sizes = first->sizes();
  sizes[d] = 0;
  for (const Tensor& t : tensors) {
    if (skipped(t)) continue;
    check(t.dim() == first->dim(), "cat: Tensors must have same number of dimensions: got ",
          first->dim(), " and ", t.dim());
    for (int64_t i = 0; i < t.dim(); ++i)
      check(i == d || t.sizes()[i] == sizes[i],
            "cat: Sizes of tensors must match except in dimension ", d, ". Expected size ",
            sizes[i], " but got size ", t.sizes()[i], " for tensor number ", &t - tensors.data(),
            " in the list.");
    sizes[d] += t.sizes()[d];
  }
  TensorOptions wanted{promotion.result(), first->device()};
  Tensor out = empty_joined(sizes, tensors, wanted);
  if (out.is_meta()) return out;
  int64_t at = 0;
  PhysicalView whole(out);
  for (const Tensor& t : tensors) {
    if (skipped(t)) continue;
    launch::copy(physical(t), whole.view().slice(d, at, t.sizes()));
    at += t.sizes()[d];
  }
  return out;
}

Tensor roll(const Tensor& input, const Dims& shifts, const Dims& dims) {
  check(!shifts.empty(), "roll: `shifts` required");
  if (dims.empty() && shifts.size() == 1) {
    Tensor flat = ops::reshape(input, Dims{-1});
    return without_base(ops::reshape(roll(flat, shifts, Dims{0}), input.sizes()));
  }
  check(shifts.size() == dims.size(), "roll: shifts and dimensions must align. shifts: ", shifts,
        ", dims: ", dims);
  Dims wrapped;
  check_index(input.dim() > 0, "roll: Dimension specified as ", dims[0],
              " but tensor has no dimensions");
  for (int64_t d : dims) wrapped.push_back(wrap_dim(d, input.dim(), "roll"));
  if (input.numel() == 0 || input.dim() == 0) return clone(input);
  Tensor out = empty_strided(
      input.sizes(), strides_in_format(input.sizes(), suggested_format(input)), options(input));
  launch::roll(input, shifts, wrapped, out);
  return out;
}

Tensor constant_pad_nd(const Tensor& input, const Dims& pad, const Scalar& value) {
  check_fits("pad", value, input.dtype());
  check(pad.size() % 2 == 0, "pad: Length of pad must be even but instead it equals ", pad.size());
  check(pad.size() / 2 <= input.dim(),
        "pad: Length of pad should be no more than twice the number of dimensions of the input. "
        "Pad length is ",
        pad.size(), " while the input has ", input.dim(), " dimensions.");
  // `inner` is what is kept of the input; `outer` is its place in the result.
  Tensor inner = input;
  Dims sizes = input.sizes();
  for (int64_t i = 0; i < pad.size() / 2; ++i) {
    int64_t d = input.dim() - 1 - i;
    constexpr int64_t least = std::numeric_limits<int64_t>::min();
    bool fits = pad[2 * i] > least && pad[2 * i + 1] > least &&  // which have no opposite
                !__builtin_add_overflow(sizes[d], pad[2 * i], &sizes[d]) &&
                !__builtin_add_overflow(sizes[d], pad[2 * i + 1], &sizes[d]);
    check(
        fits && sizes[d] >= 0, "pad: The input size ", input.sizes()[d], ", plus negative padding ",
        pad[2 * i], " and ", pad[2 * i + 1],
        ", resulted in a negative output size or one too large, which is invalid. Check dimension ",
        d, " of your input.");
    inner = slice(inner, d, std::max<int64_t>(0, -pad[2 * i]),
                  inner.sizes()[d] - std::max<int64_t>(0, -pad[2 * i + 1]), 1);
  }
  bool cuts_only = std::all_of(pad.begin(), pad.end(), [](int64_t n) { return n <= 0; });
  if (cuts_only) return clone(inner);
  MemoryFormat format = suggested_format(input);
  Tensor out = empty_strided(sizes, strides_in_format(sizes, format), options(input));
  if (out.is_meta()) return out;
  launch::fill(out, value);
  Tensor outer = out;
  for (int64_t i = 0; i < pad.size() / 2; ++i) {
    int64_t d = input.dim() - 1 - i;
    outer = slice(outer, d, std::max<int64_t>(0, pad[2 * i]),
                  sizes[d] - std::max<int64_t>(0, pad[2 * i + 1]), 1);
  }
  if (inner.numel()) launch::copy(inner, outer);
  return out;
}

Tensor stack(const TensorList& tensors, int64_t dim) {
  check(!tensors.empty(), "stack: expects a non-empty TensorList");
  int64_t d = wrap_dim(dim, tensors[0].dim() + 1, "stack");
  Promotion promotion;
  for (const Tensor& t : tensors) {
    check(t.sizes() == tensors[0].sizes(), "stack: expects each tensor to be equal size, but got ",
          tensors[0].sizes(), " at entry 0 and ", t.sizes(), " at entry ", &t - tensors.data());
    promotion.add(t);
  }
  Dims sizes = tensors[0].sizes();
  sizes.insert(d, static_cast<int64_t>(tensors.size()));
  Tensor out = empty_strided(sizes, stacked_strides(sizes, d, tensors),
                             {promotion.result(), tensors[0].device()});
  if (out.is_meta()) return out;
  for (size_t i = 0; i < tensors.size(); ++i)
    launch::copy(tensors[i], select(out, d, static_cast<int64_t>(i)));
  return out;
}

}  // namespace impl

namespace ops {

Tensor detach(const Tensor& input) { return alias(input); }

Tensor reshape(const Tensor& input, const Dims& shape) {
  Dims sizes = infer_size(shape, input.numel(), "reshape"), strides;
  if (view_strides(input, sizes, strides)) return view(input, sizes);
  return without_base(view(clone(input, MemoryFormat::Contiguous), sizes));
}

Tensor contiguous(const Tensor& input, std::optional<MemoryFormat> format) {
  bool plain = !format || *format == MemoryFormat::Contiguous;
  check(!format || *format != MemoryFormat::Preserve,
        "contiguous: preserve memory format is unsupported by the contiguous operator");
  if (plain && input.is_contiguous()) return input;
  if (!plain) {
    Tensor wanted = empty_like(input, {}, {}, Device{DeviceType::Meta}, false, false, format);
    bool same = true;
    for (int64_t d = 0; d < input.dim(); ++d)
      same = same && (input.sizes()[d] == 1 || input.strides()[d] == wanted.strides()[d]);
    if (same) return input;
  }
  return clone(input, plain ? MemoryFormat::Contiguous : *format);
}

Tensor real(const Tensor& input) {
  return input.is_complex() ? select(view_as_real(input), -1, 0) : input;
}

Tensor t(const Tensor& input) {
  check(input.dim() <= 2, "t: expects a tensor with <= 2 dimensions, but self is ", input.dim(),
        "D");
  return input.dim() < 2 ? input : transpose(input, 0, 1);
}

}  // namespace ops
}  // namespace rl
