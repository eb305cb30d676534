// Views, and the copies that take the place of one.
#include <algorithm>
#include <limits>

#include "autograd/geometry.h"
#include "core/alignment.h"
#include "dispatch/generated.h"
#include "dispatch/pieces.h"
#include "dispatch/result_memory.h"
#include "impl_create.h"
#include "impl_shape.h"
#include "kernels/copy_hints.h"
#include "launch_copy.h"
#include "launch_index.h"
#include "ops_create.h"
#include "ops_shape.h"
#include "tensor/lazy_view.h"
#include "tensor/output_layout.h"

namespace rl {
namespace impl {

TensorList unbind(const Tensor& input, int64_t dim) {
  int64_t d = existing_dim(dim, input.dim(), "unbind");
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

Tensor conj_view(const Tensor& input) { return lazily(input, Conjugated); }
Tensor neg_view(const Tensor& input) {
  check_negation(input);
  return lazily(input, Negated);
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
  if (!first) return rl::empty(Dims{0}, {promotion.result(), tensors[0].device()});
  int64_t d = wrap_dim(dim, first->dim(), "cat");
  Dims sizes = first->sizes();
  sizes[d] = 0;
  for (const Tensor& t : tensors) {
    if (skipped(t)) continue;
    check(is_same_device(t.device(), first->device()),
          "cat: expected all tensors to be on the same device, but tensor ", first - tensors.data(),
          " is on ", first->device(), " and tensor ", &t - tensors.data(), " on ", t.device());
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
  Tensor out = ResultMemory::take(sizes, wanted.dtype, wanted.device);
  if (!out.defined()) out = empty_joined(sizes, tensors, wanted);
  int64_t at = 0;
  PhysicalView whole(out);
  kernels::CopyInParts hint(out.numel() * itemsize(out.dtype()));
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
  for (int64_t d : dims) wrapped.push_back(existing_dim(d, input.dim(), "roll"));
  if (input.numel() == 0) return clone(input);
  Dims totals(input.dim(), 0), each;  // a dim may be named any number of times
  for (int64_t i = 0; i < dims.size(); ++i) {
    int64_t& total = totals[wrapped[i]];
    total = (total + shifts[i] % input.sizes()[wrapped[i]]) % input.sizes()[wrapped[i]];
  }
  for (int64_t d = 0; d < input.dim(); ++d) each.push_back(d);
  Tensor out = empty_strided(
      input.sizes(), strides_in_format(input.sizes(), suggested_format(input)), options(input));
  launch::roll(input, totals, each, out);
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
    check(is_same_device(t.device(), tensors[0].device()),
          "stack: expected all tensors to be on the same device, but tensor 0 is on ",
          tensors[0].device(), " and tensor ", &t - tensors.data(), " on ", t.device());
    check(t.sizes() == tensors[0].sizes(), "stack expects each tensor to be equal size, but got ",
          tensors[0].sizes(), " at entry 0 and ", t.sizes(), " at entry ", &t - tensors.data());
    promotion.add(t);
  }
  Dims sizes = tensors[0].sizes();
  sizes.insert(d, static_cast<int64_t>(tensors.size()));
  Tensor out = ResultMemory::take(sizes, promotion.result(), tensors[0].device());
  if (!out.defined())
    out = empty_strided(sizes, stacked_strides(sizes, d, tensors),
                        {promotion.result(), tensors[0].device()});
  for (size_t i = 0; i < tensors.size(); ++i)
    launch::copy(tensors[i], select(out, d, static_cast<int64_t>(i)));
  return out;
}

}  // namespace impl

namespace ops {

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

}  // namespace ops
}  // namespace rl
