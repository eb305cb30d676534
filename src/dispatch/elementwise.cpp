#include "dispatch/elementwise.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <sstream>

#include "autograd/inplace.h"
#include "dispatch/batched.h"
#include "dispatch/generated.h"
#include "dispatch/gradient_buffer.h"
#include "dispatch/lazy_expression.h"
#include "dispatch/result_memory.h"
#include "launch_copy.h"
#include "launch_elementwise.h"
#include "ops_create.h"
#include "tensor/output_layout.h"
#include "tensor/physical_layout.h"

namespace rl {

// Of the interface of kernels: numbers, sizes and dtypes, nothing that a backend computes.
using kernels::check_dtype;
using kernels::loop_result_dtype;

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

// A result whose strides read contiguous lies in physical layout if an input of its sizes does.
Tensor allocate_result(const Dims& sizes, DType dtype, const Tensor* const* inputs, int count) {
  Device device = inputs[0]->device();  // a number yields to a tensor of another device
  bool standard = true, channels_last = false;
  for (int k = 0; k < count; ++k) {
    if (k && inputs[k - 1]->dim() == 0 && device.is_cpu()) device = inputs[k]->device();
    standard = standard && inputs[k]->impl()->standard_strides;
    channels_last = channels_last || (!inputs[k]->impl()->data && inputs[k]->sizes() == sizes &&
                                      has_physical_layout(*inputs[k]));
  }
  if (standard && channels_last) return empty_channels_last(sizes, {dtype, device});
  Dims strides = elementwise_strides(sizes, inputs, count);
  if (!has_standard_strides(sizes, strides)) return empty_strided(sizes, strides, {dtype, device});
  return channels_last ? empty_channels_last(sizes, {dtype, device})
                       : empty(sizes, {dtype, device});
}

// `from` read as `sizes`, with stride 0 where it is broadcast.
View broadcast(const View& from, const View& sizes, Dims& strides) {
  int64_t shift = sizes.ndim - from.ndim;
  strides.resize(sizes.ndim);
  for (int64_t d = 0; d < sizes.ndim; ++d)
    strides[d] = d < shift || (from.sizes[d - shift] == 1 && sizes.sizes[d] != 1)
                     ? 0
                     : from.strides[d - shift];
  return {from.data, sizes.sizes, strides.data(), sizes.ndim, sizes.numel, from.dtype, from.device};
}

// Inputs lie where the result does. A number may come from the CPU: kernels of other devices take
// it by value.
void check_input_device(const Loop& loop, int k, const Tensor& input, Device device) {
  if (is_same_device(input.device(), device)) return;
  if (input.dim() == 0 && input.device().is_cpu()) return;
  std::istringstream names(loop.operands);
  std::string name;
  for (int i = 0; i <= k; ++i) names >> name;
  fail_same_device(loop.name, name.c_str(), input.device(), "the result", device);
}

// The elements as another dtype, which is no part of a graph.
Tensor convert(const Tensor& input, DType dtype) {
  Tensor result = empty_like(input, dtype);
  launch::copy(input, result);
  return result;
}

void check_layouts(const Loop& loop, const Tensor& given, const Tensor* const* inputs, int count) {
  if (given.defined() && given.is_sparse()) launch::fail_layout(loop.name, given.layout());
  for (int k = 0; k < count; ++k)
    if (inputs[k]->is_sparse()) launch::fail_layout(loop.name, inputs[k]->layout());
}

constexpr int64_t serial_limit = 16384;
constexpr int64_t spread_length = 512;  // elements of a number that is spread over a buffer

bool plain(const TensorImpl* t, DType dtype) {
  return t->dtype == dtype && t->standard_strides && !t->wrapped_number && t->data &&
         t->device.is_cpu();
}

// Whether some input shares memory with `out` other than element for element: both are contiguous
// and of one dtype, or a number's.
bool lies_over(const Tensor& out, const Tensor* const* inputs, int count) {
  const auto* begin = static_cast<const char*>(out.impl()->data);
  const char* end = begin + out.numel() * itemsize(out.dtype());
  for (int k = 0; k < count; ++k) {
    const auto* data = static_cast<const char*>(inputs[k]->impl()->data);
    bool same =
        data == begin && inputs[k]->dtype() == out.dtype() && inputs[k]->numel() == out.numel();
    if (!same && data < end && begin < data + inputs[k]->numel() * itemsize(inputs[k]->dtype()))
      return true;
  }
  return false;
}

// One element for all of a shape: a number, or what was expanded from one.
bool stands_for_all(const TensorImpl* t, const Dims& sizes) {
  if (t->sizes.empty()) return true;
  return t->sizes == sizes && std::all_of(t->strides.begin(), t->strides.end(),
                                          [](int64_t stride) { return stride == 0; });
}

// Writes up to 63 bytes behind them.
template <class T> void repeat(const void* element, void* to, int64_t n) {
  constexpr int block = 64 / sizeof(T);
  T value, *out = static_cast<T*>(to);
  std::memcpy(&value, element, sizeof value);
  for (int i = 0; i < block; ++i) out[i] = value;
  for (int64_t i = block; i < n; i += block) std::memcpy(out + i, out, 64);
}

// Fills n elements of `to` with the one of t, as `dtype`. False where promotion has to decide what
// dtype the operation has.
bool spread(const TensorImpl* t, DType dtype, void* to, int64_t n) {
  if (!t->data || !t->device.is_cpu()) return false;
  float single;
  double wide;
  const void* element = t->data;
  if (t->wrapped_number && is_floating(dtype) && t->dtype != DType::Complex128) {
    Scalar number = load_scalar(element, t->dtype);
    single = number.to<float>();
    wide = number.to<double>();
    element = dtype == DType::Float32 ? static_cast<void*>(&single) : &wide;
  } else if (t->dtype != dtype || t->wrapped_number) {
    return false;
  }
  switch (itemsize(dtype)) {
    case 1: repeat<uint8_t>(element, to, n); break;
    case 2: repeat<uint16_t>(element, to, n); break;
    case 4: repeat<uint32_t>(element, to, n); break;
    case 8: repeat<uint64_t>(element, to, n); break;
    default: repeat<complex128>(element, to, n);
  }
  return true;
}

// The operands of a small call, the result first: pointers that walk along, or to a spread number.
class SmallOperands {
 public:
  // The shape of all: that of the first input that is no number; null where there is none.
  static const TensorImpl* shape_of(const Tensor* const* inputs, int count) {
    for (int k = 0; k < count; ++k) {
      const TensorImpl* t = inputs[k]->impl();
      if (plain(t, t->dtype) && (!t->sizes.empty() || count == 1)) return t;
    }
    const TensorImpl* first = inputs[0]->impl();
    return plain(first, first->dtype) ? first : nullptr;
  }

  bool add(const TensorImpl* t, const TensorImpl* shape) {
    int64_t size = itemsize(shape->dtype);
    if (plain(t, shape->dtype) && t->sizes == shape->sizes) return push(t->data, size);
    if (used_ == most || shape->numel == 0 || !stands_for_all(t, shape->sizes)) return false;
    char* buffer = buffers_[used_++];
    return spread(t, shape->dtype, buffer, std::min(shape->numel, spread_length)) &&
           push(buffer, 0);
  }

  void run(kernels::StripFunction function, int64_t n, const Tensor& out, const Scalar* numbers) {
    pointers_[0] = out.impl()->data;
    steps_[0] = itemsize(out.dtype());
    int64_t strip = used_ ? spread_length : std::max<int64_t>(n, 1);
    for (int64_t i = 0; i < n; i += strip) {
      function(std::min(strip, n - i), pointers_, numbers);
      for (int k = 0; k < count_; ++k)
        pointers_[k] = static_cast<char*>(pointers_[k]) + strip * steps_[k];
    }
  }

 private:
  static constexpr int most = 2;
  bool push(void* pointer, int64_t step) {
    pointers_[count_] = pointer;
    steps_[count_++] = step;
    return true;
  }

  int count_ = 1, used_ = 0;
  void* pointers_[kernels::max_loop_inputs + 1];
  int64_t steps_[kernels::max_loop_inputs + 1];
  alignas(64) char buffers_[most][spread_length * 16];
};

// Small operands with standard strides, of one shape and dtype, beside single elements that stand
// for all: no promotion, no other broadcast. Undefined where the case is another one; most calls
// of small programs end here.
Tensor run_small(const Loop& loop, LoopType type, const Tensor* const* inputs, int count,
                 const Scalar* numbers, const Tensor& given) {
  const TensorImpl* shape = SmallOperands::shape_of(inputs, count);
  if (!shape || shape->numel > serial_limit || is_reduced(shape->dtype)) return {};
  DType dtype = shape->dtype, returned = loop_result_dtype(loop_result(type), dtype);
  if (type == LoopType::Float && is_integral_or_bool(dtype)) return {};
  if (given.defined() && (!plain(given.impl(), returned) || given.sizes() != shape->sizes ||
                          lies_over(given, inputs, count)))
    return {};
  SmallOperands operands;
  for (int k = 0; k < count; ++k)
    if (!operands.add(inputs[k]->impl(), shape)) return {};
  kernels::StripFunction function = launch::find_strip(loop, dtype);  // the CPU's
  Tensor out = given.defined() ? given : empty_beside(*shape, returned);
  if (__builtin_expect(mode() & Profiled, 0)) {
    launch::KernelObserver observer(loop.name);
    if (observer) {
      for (int k = 0; k < count; ++k) observer.add(*inputs[k]);
      observer.add(out);
    }
    operands.run(function, shape->numel, out, numbers);
    return out;
  }
  operands.run(function, shape->numel, out, numbers);
  return out;
}

Tensor memory_for_result(const Loop& loop, DType returned, const Tensor* const* inputs, int count) {
  bool equal = true, quick = !ResultMemory::is_offered();
  for (int k = 1; k < count; ++k) equal = equal && inputs[k]->sizes() == inputs[0]->sizes();
  for (int k = 0; k < count; ++k)
    quick = quick && inputs[k]->impl()->data && inputs[k]->impl()->standard_strides &&
            is_same_device(inputs[k]->device(), inputs[0]->device());
  if (equal && quick) return empty_beside(*inputs[0]->impl(), returned);
  const Dims sizes = equal ? inputs[0]->sizes() : common_sizes(loop.name, inputs, count);
  Tensor offered = ResultMemory::take(sizes, returned, inputs[0]->device());
  return offered.defined() ? offered : allocate_result(sizes, returned, inputs, count);
}

}  // namespace

Tensor run_elementwise(const Loop& loop, LoopType type, const Tensor* const* inputs, int count,
                       const Scalar* numbers, const Tensor& given) {
  if (Tensor quick = run_small(loop, type, inputs, count, numbers, given)) return quick;
  check_layouts(loop, given, inputs, count);
  if (!inputs[0]->impl()->data && loop_result(type) == LoopResult::Same)
    if (Tensor lazy = make_lazy(loop, inputs, count, numbers, given)) return lazy;
  DType common = common_dtype(type, inputs, count);
  DType compute = compute_dtype(common);
  LoopResult result = loop_result(type);
  DType returned = loop_result_dtype(result, common);
  Tensor out = given;
  if (!out.defined()) {
    out = memory_for_result(loop, returned, inputs, count);
  } else {
    Dims sizes = common_sizes(loop.name, inputs, count);
    check(broadcast_sizes(sizes, out.sizes(), loop.name) == out.sizes(), loop.name,
          ": output with shape ", out.sizes(), " doesn't match the broadcast shape ", sizes);
    check(can_cast(returned, out.dtype()), loop.name, ": result type ", returned,
          " can't be cast to the desired output type ", out.dtype());
  }
  check_dtype(loop, compute);
  const bool changes_meta = given.defined() && given.is_meta();  // by elements of any device
  for (int k = 0; k < count && !changes_meta; ++k)
    check_input_device(loop, k, *inputs[k], out.device());
  if (out.is_meta()) return check_not_batched(loop.name), out;

  if (given.defined()) copy_on_write(given);
  Tensor kept[kernels::max_loop_inputs];
  for (int k = 0; k < count; ++k) {
    kept[k] = *inputs[k];
    // A comparison is of numbers of the common dtype: half(0.1) == 0.1 although 0.1 is not a half.
    if (type == LoopType::Bool && is_reduced(common) && kept[k].dtype() != common)
      kept[k] = convert(kept[k], common);
    if (given.defined() && memory_overlap(given, kept[k]) == Overlap::Partial) {
      // read everything before anything is written, as NumPy does
      Tensor copy = empty_like(kept[k]);
      launch::copy(kept[k], copy);
      kept[k] = copy;
    }
  }
  // After the checks of overlap, which may have moved elements to plain order.
  PhysicalView written(out);
  Dims strides[kernels::max_loop_inputs];
  View views[kernels::max_loop_inputs];
  std::optional<PhysicalView> read[kernels::max_loop_inputs];
  for (int k = 0; k < count; ++k)
    new (&views[k]) View(broadcast(read[k].emplace(kept[k]).view(), written.view(), strides[k]));
  launch::run_loop(loop, compute, result, written, {views, count, out.device()}, numbers);
  return out;
}

void run_elementwise_out(const Loop& loop, LoopType type, const Scalar* numbers, const Tensor& out,
                         bool recorded, OutDType exactness, const Tensor* const* inputs,
                         int count) {
  // Where nothing else is to be checked: run_small refuses what shares memory or promotes.
  if (!recorded && out.impl()->data && !out.impl()->lazy && !records(out)) {
    check_in_place(out, loop.name);
    if (run_small(loop, type, inputs, count, numbers, out)) return;
  }
  DType returned = loop_result_dtype(loop_result(type), common_dtype(type, inputs, count));
  check_out(loop.name, out, returned, inputs[0]->device(), recorded, exactness);
  check_in_place(out, loop.name);
  Dims sizes = common_sizes(loop.name, inputs, count);
  bool resized = out.sizes() != sizes;
  for (int k = 0; k < count; ++k)
    if (!inputs[k]->is_same(out)) check_apart(loop.name, out, *inputs[k], resized);
  if (resized) resize_out(out, sizes, elementwise_strides(sizes, inputs, count));
  if (is_reduced(returned) && out.dtype() != returned) {  // out tells nothing of how to compute
    launch::copy(run_elementwise(loop, type, inputs, count, numbers, Tensor()), out);
    return;
  }
  run_elementwise(loop, type, inputs, count, numbers, out);
}

namespace {
Tensor run_for_batch(const Loop& loop, const Scalar* numbers, const Tensor* const* inputs,
                     int count) {
  int64_t rank = 0;
  for (int i = 0; i < count; ++i) rank = std::max(rank, inputs[i]->dim());
  const SpreadArguments spread(*op_batch, Spread::Elementwise, rank);
  Tensor all[kernels::max_loop_inputs];
  const Tensor* operands[kernels::max_loop_inputs];
  for (int i = 0; i < count; ++i) operands[i] = &(all[i] = spread(*inputs[i]));
  ModeGuard plain = op_batch->outside();
  return op_batch->stand_in(
      run_elementwise(loop, LoopType::Common, operands, count, numbers, Tensor()));
}
}  // namespace

Tensor run_in_gradient_buffer(const Loop& loop, const Scalar* numbers, bool last,
                              const Tensor* const* inputs, int count) {
  if (__builtin_expect(mode() & Batched, 0)) return run_for_batch(loop, numbers, inputs, count);
  const Tensor& grad = *inputs[0];
  const TensorImpl* impl = grad.impl();
  // A part of a larger storage would keep all of that.
  bool ours = last && impl->data && is_exclusive(grad) &&
              impl->storage->nbytes == impl->numel * itemsize(impl->dtype) &&
              common_dtype(LoopType::Common, inputs, count) == impl->dtype;
  for (int i = 1; i < count; ++i)  // the gradient of a sum is smaller than what is added
    ours = ours && inputs[i]->dim() <= impl->sizes.size() && inputs[i]->numel() <= impl->numel;
  return run_elementwise(loop, LoopType::Common, inputs, count, numbers, ours ? grad : Tensor());
}

}  // namespace rl
