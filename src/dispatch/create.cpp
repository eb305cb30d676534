// New tensors, copies and conversions.
#include <cmath>

#include "dispatch/generated.h"
#include "kernels/copy.h"

namespace rl {
namespace {

Dims strides_for(IntSpan sizes, std::optional<MemoryFormat> format, const char* op) {
  if (!format || *format == MemoryFormat::Contiguous || *format == MemoryFormat::Preserve)
    return contiguous_strides(sizes);
  int64_t spatial = *format == MemoryFormat::ChannelsLast ? 2 : 3;
  check(sizes.size() == spatial + 2, op, ": required rank ", spatial + 2, " tensor to use channels_last", spatial == 3 ? "_3d" : "",
        " format, got shape ", sizes);
  Dims strides(sizes.size());
  int64_t step = 1;
  auto place = [&](int64_t d) {
    strides[d] = step;
    step *= sizes[d] > 1 ? sizes[d] : 1;
  };
  place(1);
  for (int64_t d = sizes.size() - 1; d >= 2; --d) place(d);
  place(0);
  return strides;
}

Tensor finish(Tensor t, bool requires_grad, const char* op) {
  if (requires_grad) {
    check(is_differentiable(t.dtype()), op, ": Only Tensors of floating point and complex dtype can require gradients, got ", t.dtype());
    t.impl()->requires_grad = true;
  }
  return t;
}

Tensor create(IntSpan sizes, std::optional<DType> dtype, std::optional<Device> device, std::optional<MemoryFormat> format,
              const char* op) {
  TensorOptions options{dtype.value_or(default_dtype()), device.value_or(Device{})};
  if (!format) return empty(sizes, options);
  check(*format != MemoryFormat::Preserve, op, ": memory_format preserve needs a tensor to take it from");
  return empty_strided(sizes, strides_for(sizes, format, op), options);
}

Tensor create_like(const Tensor& input, std::optional<DType> dtype, std::optional<Device> device,
                   std::optional<MemoryFormat> format, const char* op) {
  TensorOptions options{dtype.value_or(input.dtype()), device.value_or(input.device())};
  Dims strides = !format || *format == MemoryFormat::Preserve ? dense_strides_like(input.sizes(), input.strides())
                                                              : strides_for(input.sizes(), format, op);
  return empty_strided(input.sizes(), strides, options);
}

Tensor filled(Tensor t, const Scalar& value) {
  if (!t.is_meta()) kernels::fill(t.view(), value);
  return t;
}

}  // namespace

namespace ops {

#define RL_FILLED(name, value)                                                                                             \
  Tensor name(const Dims& size, std::optional<DType> dtype, LayoutArgument, std::optional<Device> device, bool requires_grad, \
              bool, std::optional<MemoryFormat> format) {                                                                  \
    return finish(filled(create(size, dtype, device, format, #name), value), requires_grad, #name);                       \
  }                                                                                                                        \
  Tensor name##_like(const Tensor& input, std::optional<DType> dtype, LayoutArgument, std::optional<Device> device,       \
                     bool requires_grad, bool, std::optional<MemoryFormat> format) {                                       \
    return finish(filled(create_like(input, dtype, device, format, #name "_like"), value), requires_grad, #name "_like"); \
  }                                                                                                                        \
  Tensor new_##name(const Tensor& input, const Dims& size, std::optional<DType> dtype, LayoutArgument,                    \
                    std::optional<Device> device, bool requires_grad, bool) {                                             \
    return finish(filled(create(size, dtype.value_or(input.dtype()), device.value_or(input.device()), {}, "new_" #name),  \
                         value), requires_grad, "new_" #name);                                                            \
  }
RL_FILLED(zeros, Scalar(0))
RL_FILLED(ones, Scalar(1))
#undef RL_FILLED

Tensor empty(const Dims& size, std::optional<DType> dtype, LayoutArgument, std::optional<Device> device, bool requires_grad,
             bool, std::optional<MemoryFormat> format) {
  return finish(create(size, dtype, device, format, "empty"), requires_grad, "empty");
}
Tensor empty_like(const Tensor& input, std::optional<DType> dtype, LayoutArgument, std::optional<Device> device,
                  bool requires_grad, bool, std::optional<MemoryFormat> format) {
  return finish(create_like(input, dtype, device, format, "empty_like"), requires_grad, "empty_like");
}
Tensor new_empty(const Tensor& input, const Dims& size, std::optional<DType> dtype, LayoutArgument, std::optional<Device> device,
                 bool requires_grad, bool) {
  return finish(create(size, dtype.value_or(input.dtype()), device.value_or(input.device()), {}, "new_empty"), requires_grad,
                "new_empty");
}

Tensor full(const Dims& size, const Scalar& value, std::optional<DType> dtype, LayoutArgument, std::optional<Device> device,
            bool requires_grad, bool) {
  return finish(filled(create(size, dtype.value_or(tensor_dtype(value)), device, {}, "full"), value), requires_grad, "full");
}
Tensor full_like(const Tensor& input, const Scalar& value, std::optional<DType> dtype, LayoutArgument,
                 std::optional<Device> device, bool requires_grad, bool, std::optional<MemoryFormat> format) {
  return finish(filled(create_like(input, dtype, device, format, "full_like"), value), requires_grad, "full_like");
}
Tensor new_full(const Tensor& input, const Dims& size, const Scalar& value, std::optional<DType> dtype, LayoutArgument,
                std::optional<Device> device, bool requires_grad, bool) {
  Tensor t = create(size, dtype.value_or(input.dtype()), device.value_or(input.device()), {}, "new_full");
  return finish(filled(t, value), requires_grad, "new_full");
}

Tensor arange(const Scalar& end, std::optional<DType> dtype, LayoutArgument layout, std::optional<Device> device,
              bool requires_grad, bool pin_memory) {
  return arange(Scalar(0), end, Scalar(1), dtype, layout, device, requires_grad, pin_memory);
}

Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step, std::optional<DType> dtype, LayoutArgument,
              std::optional<Device> device, bool requires_grad, bool) {
  bool floating = start.is_floating() || end.is_floating() || step.is_floating();
  DType type = dtype.value_or(floating ? default_dtype() : DType::Int64);
  double from = start.real(), to = end.real(), by = step.real();
  check(by != 0, "arange: step must be nonzero");
  check(std::isfinite(from) && std::isfinite(to), "arange: unsupported range: ", from, " -> ", to);
  check((by > 0 && to >= from) || (by < 0 && to <= from), "arange: upper bound and lower bound inconsistent with step sign: start ",
        from, ", end ", to, ", step ", by);
  double count = std::ceil((to - from) / by);
  if (is_integral(type) && !floating) {
    int64_t span = end.to<int64_t>() - start.to<int64_t>(), stride = step.to<int64_t>();
    count = static_cast<double>(span / stride + (span % stride != 0));
  }
  check(count >= 0 && count <= 9e15, "arange: invalid size, possible overflow: ", count);
  Tensor t = create(Dims{static_cast<int64_t>(count)}, type, device, {}, "arange");
  if (!t.is_meta())
    visit_real("arange", type, [&](auto tag) {
      using T = typename decltype(tag)::type;
      T* out = t.data<T>();
      for (int64_t i = 0; i < t.numel(); ++i) {
        if constexpr (std::is_integral_v<T>) out[i] = convert<T>(start.to<int64_t>() + i * step.to<int64_t>());
        else out[i] = convert<T>(from + by * static_cast<double>(i));
      }
    });
  return finish(t, requires_grad, "arange");
}

Tensor conj(const Tensor& input) { return input.is_complex() ? conj_physical(input) : input; }

namespace {
// input is overwritten: its gradient ends here, that of src goes on.
struct CopyBackward final : Node {
  CopyBackward() : Node("copy") {}
  void apply(Gradients& g, Gradients& r) override {
    if (!g[0].defined()) return;
    if (wants(0)) r[0] = zeros_like(g[0]);
    if (wants(1)) r[1] = g[0];
  }
};
}  // namespace

Tensor copy_(const Tensor& input, const Tensor& src, bool) {
  check_in_place(input, "copy_", records(src));
  Ref<Node> node;
  if (records(input, src)) {
    node = make_ref<CopyBackward>();
    node->add_input(input);
    node->add_input(src);
  }
  Tensor from = unrecorded([&] {
    Tensor t = src.sizes() == input.sizes() ? src : expand(src, input.sizes());
    return memory_overlap(input, t) == Overlap::Partial ? clone_unrecorded(t) : t;
  });
  if (!input.is_meta() && memory_overlap(input, from) != Overlap::Same) kernels::copy(from.view(), input.view());
  bump_version(input, "copy_");
  if (node) rebase_history(input, node);
  return input;
}

Tensor resize_(const Tensor& input, const Dims& size, std::optional<MemoryFormat> format) {
  check(!records(input), "resize_: cannot resize variables that require grad");
  Dims strides = strides_for(size, format, "resize_");
  for (int64_t d : size) check(d >= 0, "resize_: negative size in ", size);
  TensorImpl* impl = input.impl();
  int64_t needed = (product(size) + impl->offset) * itemsize(impl->dtype);
  if (needed > impl->storage->nbytes) impl->storage->resize(needed);
  impl->sizes = size;
  impl->strides = strides;
  impl->refresh();
  return input;
}

}  // namespace ops

namespace impl {

Tensor clone(const Tensor& input, std::optional<MemoryFormat> format) {
  Tensor copy = create_like(input, {}, {}, format, "clone");
  if (!copy.is_meta()) kernels::copy(input.view(), copy.view());
  return copy;
}

Tensor to_dtype(const Tensor& input, std::optional<DType> dtype) {
  Tensor copy = rl::empty_like(input, dtype.value_or(input.dtype()));
  if (!copy.is_meta()) kernels::copy(input.view(), copy.view());
  return copy;
}

Tensor fill(const Tensor& input, const Scalar& value) { return filled(rl::empty_like(input), value); }

Tensor conj_physical(const Tensor& input) {
  Tensor out = rl::empty_like(input);
  if (!out.is_meta()) kernels::conj_copy(input.view(), out.view());
  return out;
}

}  // namespace impl
}  // namespace rl
