#include "dispatch/elementwise.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "dispatch/deferred.h"
#include "dispatch/in_gradient.h"
#include "kernels/copy.h"
#include "tensor/hidden_order.h"

namespace rl {
namespace {

using kernels::Loop;
using kernels::LoopResult;

constexpr LoopResult loop_result(LoopType type) {
  return type == LoopType::Bool   ? LoopResult::Bool
         : type == LoopType::Real ? LoopResult::Real
                                  : LoopResult::Same;
}

DType common_dtype(LoopType type, const Tensor* const* inputs, int count) {
  const TensorImpl* first = inputs[0]->impl();
  DType t = first->dtype;
  bool mixed = first->wrapped_number;
  for (int k = 1; k < count; ++k)
    mixed = mixed || inputs[k]->dtype() != t || inputs[k]->impl()->wrapped_number;
  if (mixed) {
    Promotion promotion;
    for (int k = 0; k < count; ++k) promotion.add(*inputs[k]);
    t = promotion.result();
  }
  return type == LoopType::Float && is_integral_or_bool(t) ? default_dtype() : t;
}

Dims common_sizes(const char* op, const Tensor* const* inputs, int count) {
  Dims sizes = inputs[0]->sizes();
  for (int k = 1; k < count; ++k)
    if (inputs[k]->sizes() != sizes) sizes = broadcast_sizes(sizes, inputs[k]->sizes(), op);
  return sizes;
}

// The result keeps the layout of the first input that has its shape, or lies in hidden order if any
// such input does.
Tensor allocate_result(const Dims& sizes, DType dtype, const Tensor* const* inputs, int count) {
  Device device = inputs[0]->device();
  for (int k = 1; k < count; ++k)
    if (inputs[k]->is_meta()) device = inputs[k]->device();
  for (int k = 0; k < count; ++k)
    if (!inputs[k]->impl()->data && inputs[k]->sizes() == sizes && in_hidden_order(*inputs[k]))
      return empty_channels_last(sizes, {dtype, device});
  for (int k = 0; k < count; ++k)
    if (inputs[k]->sizes() == sizes) {
      if (inputs[k]->is_contiguous()) break;
      return empty_strided(sizes, dense_strides_like(sizes, inputs[k]->strides()), {dtype, device});
    }
  return empty(sizes, {dtype, device});
}

// `from` read as `sizes`, with stride 0 where it is broadcast.
View broadcast(const View& from, const View& sizes, Dims& strides) {
  int64_t shift = sizes.ndim - from.ndim;
  strides.resize(sizes.ndim);
  for (int64_t d = 0; d < sizes.ndim; ++d)
    strides[d] = d < shift || (from.sizes[d - shift] == 1 && sizes.sizes[d] != 1)
                     ? 0
                     : from.strides[d - shift];
  return {from.data, sizes.sizes, strides.data(), sizes.ndim, sizes.numel, from.dtype};
}

constexpr int64_t serial_limit = 16384;
constexpr int64_t number_limit = 256;  // elements up to which a number is spread over a buffer here

bool plain(const TensorImpl* t, DType dtype) {
  return t->dtype == dtype && t->contiguous && !t->wrapped_number && t->data;
}

// Small contiguous operands of one shape and dtype, beside numbers of that dtype: no promotion, no
// broadcast, one call of the loop. Undefined where the case is another one; most calls of small
// programs end here.
Tensor run_small(const Loop& loop, LoopType type, const Tensor* const* inputs, int count,
                 const Scalar* numbers, const Tensor& given) {
  const TensorImpl* first = inputs[0]->impl();
  DType dtype = first->dtype;
  if (!plain(first, dtype) || first->numel > serial_limit || is_reduced(dtype)) return {};
  if (type == LoopType::Float && is_integral_or_bool(dtype)) return {};
  if (given.defined() &&
      (given.impl() != first || type == LoopType::Bool || type == LoopType::Real))
    return {};
  alignas(64) char buffers[2][number_limit * 8];
  int used = 0;
  void* operands[kernels::max_loop_inputs + 1];
  operands[1] = first->data;
  for (int k = 1; k < count; ++k) {
    const TensorImpl* t = inputs[k]->impl();
    if (!plain(t, dtype)) return {};
    operands[k + 1] = t->data;
    if (t->sizes == first->sizes) {
      if (given.defined() && t->storage == first->storage && t->data != first->data) return {};
      continue;
    }
    if (!t->sizes.empty() || first->numel > number_limit || used == 2 || itemsize(dtype) > 8)
      return {};
    char* spread = buffers[used++];
    operands[k + 1] = spread;
    int64_t size = itemsize(dtype);
    for (int64_t i = 0; i < first->numel; ++i)
      std::memcpy(spread + i * size, t->data, static_cast<size_t>(size));
  }
  kernels::StripFunction function = kernels::find_strip(loop, dtype);
  Tensor out = given.defined()
                   ? given
                   : empty_beside(*first, kernels::loop_result_dtype(loop_result(type), dtype));
  operands[0] = out.impl()->data;
  function(first->numel, operands, numbers);
  return out;
}

}  // namespace

Tensor run_elementwise(const Loop& loop, LoopType type, const Tensor* const* inputs, int count,
                       const Scalar* numbers, const Tensor& given) {
  if (Tensor quick = run_small(loop, type, inputs, count, numbers, given)) return quick;
  if (!inputs[0]->impl()->data && loop_result(type) == LoopResult::Same)
    if (Tensor late = defer(loop, inputs, count, numbers, given)) return late;
  DType common = common_dtype(type, inputs, count);
  DType compute = compute_dtype(common);
  LoopResult result = loop_result(type);
  DType returned = kernels::loop_result_dtype(result, common);
  Tensor out = given;
  if (!out.defined()) {
    bool equal = true, quick = inputs[0]->is_contiguous();
    for (int k = 1; k < count; ++k) equal = equal && inputs[k]->sizes() == inputs[0]->sizes();
    for (int k = 0; k < count; ++k) quick = quick && inputs[k]->impl()->data;
    out = equal && quick
              ? empty_beside(*inputs[0]->impl(), returned)
              : allocate_result(equal ? inputs[0]->sizes() : common_sizes(loop.name, inputs, count),
                                returned, inputs, count);
  } else {
    Dims sizes = common_sizes(loop.name, inputs, count);
    check(broadcast_sizes(sizes, out.sizes(), loop.name) == out.sizes(), loop.name,
          ": output with shape ", out.sizes(), " doesn't match the broadcast shape ", sizes);
    check(can_cast(returned, out.dtype()), loop.name, ": result type ", returned,
          " can't be cast to the desired output type ", out.dtype());
  }
  kernels::find_strip(loop, compute);  // refuses the dtypes that the row does not have
  if (out.is_meta()) return out;
  if (given.defined())
    for (int k = 0; k < count; ++k)
      check(!inputs[k]->is_meta(), loop.name, ": a tensor on device ", given.device(),
            " can't be changed in place by one on device meta, of shape ", inputs[k]->sizes());

  if (given.defined()) make_own(given);
  Tensor kept[kernels::max_loop_inputs];
  for (int k = 0; k < count; ++k) {
    kept[k] = *inputs[k];
    if (given.defined() && memory_overlap(given, kept[k]) == Overlap::Partial) {
      // read everything before anything is written, as NumPy does
      Tensor copy = empty_like(kept[k]);
      kernels::copy(kept[k].view(), copy.view());
      kept[k] = copy;
    }
  }
  // After the checks of overlap, which may have moved elements to plain order.
  AsItLies written(out);
  Dims strides[kernels::max_loop_inputs];
  View views[kernels::max_loop_inputs];
  std::optional<AsItLies> read[kernels::max_loop_inputs];
  for (int k = 0; k < count; ++k)
    views[k] = broadcast(read[k].emplace(kept[k]).view(), written.view(), strides[k]);
  kernels::run_loop(loop, compute, result, written.view(), views, count, numbers);
  return out;
}

Tensor run_in_gradient(const Loop& loop, const Scalar* numbers, bool last,
                       const Tensor* const* inputs, int count) {
  const Tensor& grad = *inputs[0];
  const TensorImpl* impl = grad.impl();
  // A part of a larger storage would keep all of that.
  bool ours = last && impl->data && is_exclusive(grad) &&
              impl->storage->nbytes == impl->numel * itemsize(impl->dtype) &&
              common_dtype(LoopType::Common, inputs, count) == impl->dtype;
  return run_elementwise(loop, LoopType::Common, inputs, count, numbers, ours ? grad : Tensor());
}

}  // namespace rl
