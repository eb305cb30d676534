#include "dispatch/window.h"

#include <algorithm>

#include "core/alignment.h"
#include "tensor/lazy_view.h"

namespace rl {

Tensor look(const Tensor& t, const TypedWindow& w) {
  Tensor out = alias(t);
  TensorImpl* impl = out.impl();
  impl->dtype = w.dtype;
  impl->sizes = w.sizes;
  impl->strides = w.strides;
  impl->offset = w.offset;
  impl->refresh();
  check_aligned(impl->data, w.dtype);
  return out;
}

namespace window {

Window as_strided(const Tensor& input, const Dims& size, const Dims& stride,
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
  return {size, stride, offset};
}

Window transpose(const Tensor& input, int64_t dim0, int64_t dim1) {
  int64_t a = wrap_dim(dim0, input.dim(), "transpose"),
          b = wrap_dim(dim1, input.dim(), "transpose");
  Window w{input.sizes(), input.strides(), input.offset()};
  Dims &sizes = w.sizes, &strides = w.strides;
  if (input.dim()) {
    std::swap(sizes[a], sizes[b]);
    std::swap(strides[a], strides[b]);
  }
  return w;
}

Window t(const Tensor& input) {
  check(input.dim() <= 2, "t: expects a tensor with <= 2 dimensions, but self is ", input.dim(),
        "D");
  return transpose(input, 0, input.dim() - 1);
}

Window permute(const Tensor& input, const Dims& dims) {
  check(dims.size() == input.dim(), "permute: input.dim() = ", input.dim(),
        " is not equal to len(dims) = ", dims.size());
  Window w{Dims(dims.size()), Dims(dims.size()), input.offset()};
  bool seen[max_dims] = {};
  for (int64_t i = 0; i < dims.size(); ++i) {
    int64_t d = wrap_dim(dims[i], input.dim(), "permute");
    check(!seen[d], "permute: duplicate dims are not allowed: ", dims);
    seen[d] = true;
    w.sizes[i] = input.sizes()[d];
    w.strides[i] = input.strides()[d];
  }
  return w;
}

Window expand(const Tensor& input, const Dims& size) {
  int64_t added = size.size() - input.dim();
  check(added >= 0, "expand: the number of sizes provided (", size.size(),
        ") must be greater or equal to the number of dimensions in the tensor (", input.dim(), ")");
  Window w{size, Dims(size.size()), input.offset()};
  Dims &sizes = w.sizes, &strides = w.strides;
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
  return w;
}

Window view(const Tensor& input, const Dims& size) {
  Window w{size, size, input.offset()};
  if (input.is_contiguous()) {  // the common case, in one pass
    int64_t step = 1;
    bool plain = true;
    for (int64_t d = size.size() - 1; d >= 0; --d) {
      w.strides[d] = step;
      plain = plain && size[d] > 0 && !__builtin_mul_overflow(step, size[d], &step);
    }
    if (plain && step == input.numel()) return w;
  }
  w.sizes = infer_size(size, input.numel(), "view");
  check(view_strides(input, w.sizes, w.strides),
        "view: view size is not compatible with input tensor's size and stride (at least one "
        "dimension spans across two "
        "contiguous subspaces). Use .reshape(...) instead. Size ",
        w.sizes, ", input ", input.sizes(), " with strides ", input.strides());
  return w;
}

Window squeeze(const Tensor& input) {
  Dims sizes, strides;
  for (int64_t d = 0; d < input.dim(); ++d)
    if (input.sizes()[d] != 1) {
      sizes.push_back(input.sizes()[d]);
      strides.push_back(input.strides()[d]);
    }
  return {sizes, strides, input.offset()};
}

Window squeeze(const Tensor& input, const Dims& dim) {
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
  return {sizes, strides, input.offset()};
}

Window unsqueeze(const Tensor& input, int64_t dim) {
  int64_t at = wrap_dim(dim, input.dim() + 1, "unsqueeze");
  Window w{input.sizes(), input.strides(), input.offset()};
  Dims &sizes = w.sizes, &strides = w.strides;
  int64_t stride = at < input.dim() ? sizes[at] * strides[at] : 1;
  sizes.insert(at, 1);
  strides.insert(at, stride);
  return w;
}

Window select(const Tensor& input, int64_t dim, int64_t index) {
  check_index(input.dim() > 0, "select: select() cannot be applied to a 0-dim tensor.");
  int64_t d = wrap_dim(dim, input.dim(), "select"), size = input.sizes()[d];
  check_index(index >= -size && index < size, "select: index ", index,
              " out of range for tensor of size ", input.sizes(), " at dimension ", d);
  Window w{input.sizes(), input.strides(), input.offset()};
  w.offset += (index < 0 ? index + size : index) * w.strides[d];
  w.sizes.erase(d);
  w.strides.erase(d);
  return w;
}

Window slice(const Tensor& input, int64_t dim, std::optional<int64_t> start,
             std::optional<int64_t> end, int64_t step) {
  check(input.dim() > 0, "slice: slice() cannot be applied to a 0-dim tensor.");
  check_value(step > 0, "slice: slice step must be positive, got ", step);
  int64_t d = wrap_dim(dim, input.dim(), "slice"), size = input.sizes()[d];
  auto clamp = [&](int64_t at, int64_t low) {
    return std::min(std::max(at < 0 ? at + size : at, low), size);
  };
  int64_t from = clamp(start.value_or(0), 0), to = clamp(end.value_or(size), from);
  Window w{input.sizes(), input.strides(), input.offset()};
  w.offset += from * w.strides[d];
  w.sizes[d] = (to - from) / step + ((to - from) % step != 0);
  bool overflow = __builtin_mul_overflow(w.strides[d], step, &w.strides[d]);
  if (overflow) w.strides[d] = 1;  // a step beyond every index: at most one element is left
  return w;
}

Window diagonal(const Tensor& input, int64_t offset, int64_t dim1, int64_t dim2) {
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
  return {sizes, strides, at};
}

Window unfold(const Tensor& input, int64_t dimension, int64_t size, int64_t step) {
  int64_t d = wrap_dim(dimension, input.dim(), "unfold");
  int64_t have = input.dim() ? input.sizes()[d] : 1;
  check(size >= 0, "unfold: size is ", size, " but must be >= 0");
  check(size <= have, "unfold: maximum size for tensor at dimension ", d, " is ", have,
        " but size is ", size);
  check(step > 0, "unfold: step is ", step, " but must be > 0");
  Window w{input.sizes(), input.strides(), input.offset()};
  Dims &sizes = w.sizes, &strides = w.strides;
  if (input.dim()) {
    sizes[d] = (have - size) / step + 1;
    sizes.push_back(size);
    strides.push_back(strides[d]);
    strides[d] *= step;
  } else {
    sizes.push_back(size);
    strides.push_back(1);
  }
  return w;
}

bool keeps_numbers(const Tensor& input, DType dtype) {
  return !is_differentiable(dtype) || to_real(dtype) == to_real(input.dtype());
}

TypedWindow as_dtype(const Tensor& input, DType dtype) {
  int64_t old_size = itemsize(input.dtype()), new_size = itemsize(dtype);
  check(dtype == input.dtype() || !input.impl()->lazy, "view: a ",
        is_conjugated(input) ? "conjugate" : "negative", " view of ", input.dtype(),
        " cannot be seen as ", dtype, ", as its memory holds other numbers; use resolve_",
        is_conjugated(input) ? "conj()" : "neg()", " first");
  Dims sizes = input.sizes(), strides = input.strides();
  if (old_size == new_size) return {{sizes, strides, input.offset()}, dtype};
  check(input.dim() > 0, "view: self.dim() cannot be 0 to view ", input.dtype(), " as ", dtype,
        " (different element sizes)");
  check(strides.back() == 1 || sizes.back() == 1, "view: self.stride(-1) must be 1 to view ",
        input.dtype(), " as ", dtype, " (different element sizes), but got ", strides.back());
  int64_t ratio = new_size > old_size ? new_size / old_size : old_size / new_size;
  if (new_size < old_size) {
    for (int64_t& s : strides) s *= ratio;
    sizes.back() *= ratio;
    strides.back() = 1;
    return {{sizes, strides, input.offset() * ratio}, dtype};
  }
  check(sizes.back() % ratio == 0, "view: self.size(-1) must be divisible by ", ratio, " to view ",
        input.dtype(), " as ", dtype, " (different element sizes), but got ", sizes.back());
  check(input.offset() % ratio == 0, "view: self.storage_offset() must be divisible by ", ratio,
        ", got ", input.offset());
  sizes.back() /= ratio;
  for (int64_t d = 0; d + 1 < input.dim(); ++d) {
    check(strides[d] % ratio == 0, "view: self.stride(", d, ") must be divisible by ", ratio,
          ", but got ", strides[d]);
    strides[d] /= ratio;
  }
  strides.back() = 1;
  return {{sizes, strides, input.offset() / ratio}, dtype};
}

TypedWindow as_real(const Tensor& input) {
  check(input.is_complex(), "view_as_real: only supported for complex tensors, got ",
        input.dtype());
  check(!is_conjugated(input),
        "view_as_real: doesn't work on a conjugate view, whose memory holds other numbers; "
        "resolve_conj() copies it, or use real and imag");
  Dims sizes = input.sizes(), strides = input.strides();
  for (int64_t& s : strides) s *= 2;
  sizes.push_back(2);
  strides.push_back(1);
  return {{sizes, strides, input.offset() * 2}, to_real(input.dtype())};
}

TypedWindow as_complex(const Tensor& input) {
  check(input.dtype() == DType::Float32 || input.dtype() == DType::Float64,
        "view_as_complex: only supported for float32 and float64 tensors, got ", input.dtype());
  check(input.dim() > 0, "view_as_complex: Input tensor must have one or more dimensions");
  check(input.sizes().back() == 2,
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
  return {{sizes, strides, input.offset() / 2}, to_complex(input.dtype())};
}

}  // namespace window
}  // namespace rl
