// New tensors, copies and conversions.
#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/meta.h"
#include "core/device_memory.h"
#include "core/device_placement.h"
#include "core/warning.h"
#include "dispatch/generated.h"
#include "dispatch/guards.h"
#include "dispatch/host_elements.h"
#include "dispatch/new_tensor.h"
#include "dispatch/result_memory.h"
#include "dispatch/shape_rules.h"
#include "impl_create.h"
#include "impl_shape.h"
#include "launch_copy.h"
#include "launch_range.h"
#include "ops_basic.h"
#include "ops_create.h"
#include "ops_indexing.h"
#include "ops_reduction.h"
#include "ops_shape.h"
#include "tensor/lazy_view.h"
#include "tensor/output_layout.h"
#include "tensor/physical_layout.h"

namespace rl {
namespace ops {

Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step,
              std::optional<DType> dtype, LayoutArgument, std::optional<Device> device,
              bool requires_grad, bool) {
  bool floating = start.is_floating() || end.is_floating() || step.is_floating();
  DType type = dtype.value_or(floating ? default_dtype() : DType::Int64);
  double from = start.real(), to = end.real(), by = step.real();
  check_implemented(type != DType::Bool, "arange: not implemented for dtype ", type);
  check(!start.is_complex() && !end.is_complex() && !step.is_complex(),
        "arange: complex start, end or step are not supported");
  check(by != 0, "arange: step must be nonzero");
  check(std::isfinite(from) && std::isfinite(to), "arange: unsupported range: ", from, " -> ", to);
  check((by > 0 && to >= from) || (by < 0 && to <= from),
        "arange: upper bound and lower bound inconsistent with step sign: start ", from, ", end ",
        to, ", step ", by);
  double count = std::ceil((to - from) / by);
  if (type == DType::Int64 || (is_integral(type) && !floating)) {
    int64_t stride = step.to<int64_t>();
    __int128 span = static_cast<__int128>(end.to<int64_t>()) - start.to<int64_t>();
    check_value(stride != 0, "arange: step must be nonzero, and ", by, " is 0 in ", type);
    count = static_cast<double>(span / stride + (span % stride != 0));
  }
  check(count >= 0 && count <= 9e15, "arange: invalid size, possible overflow: ", count);
  Tensor t = make_output(shape::sized("arange", Dims{static_cast<int64_t>(count)}, type),
                         device.value_or(Device{}));
  if (t.is_floating()) {
    launch::arange(t, from, by);
  } else {
    t = written_by_host(t, [&](const Tensor& out) {
      visit_integral_bool("arange", type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        T* to = out.data<T>();
        // Unsigned: the way from end to end of int64 is longer than an int64.
        uint64_t next = static_cast<uint64_t>(start.to<int64_t>());
        uint64_t stride = static_cast<uint64_t>(step.to<int64_t>());
        for (int64_t i = 0; i < out.numel(); ++i, next += stride)
          to[i] = convert<T>(static_cast<int64_t>(next));
      });
    });
  }
  return ask_gradient(t, requires_grad, "arange");
}

namespace {
void warn_of_complex() { warn("Casting complex values to real discards the imaginary part"); }

Tensor convert_to(const Tensor& input, DType dtype, Device device, bool copy,
                  std::optional<MemoryFormat> format) {
  device = placed(device);
  if (!is_same_device(device, input.device())) {
    Tensor there = unrecorded(
        [&] { return make_output(shape::sized_like("to", input, dtype, format), device); });
    return join_steps("ToCopyBackward0", {&input}, {}, [&] { return copy_(there, input); });
  }
  bool preserved = !format || *format == MemoryFormat::Preserve;
  if (dtype == input.dtype() && !copy && (preserved || suggested_format(input) == *format))
    return input;
  bool ordered = preserved || shape::strides_in(format, input.sizes(), "to") == input.strides();
  if (input.is_complex() && !is_complex(dtype) && dtype != DType::Bool) warn_of_complex();
  return join_steps("ToCopyBackward0", {&input}, {}, [&] {
    if (dtype == input.dtype()) return clone(input, ordered ? std::nullopt : format);
    Tensor out = to_dtype(input, dtype);
    return ordered ? out : clone(out, format);
  });
}
}  // namespace

Tensor to(const Tensor& input, std::optional<DType> dtype, bool non_blocking, bool copy,
          std::optional<MemoryFormat> format) {
  CopiesMayWait scope(non_blocking);
  return convert_to(input, dtype.value_or(input.dtype()), input.device(), copy, format);
}
Tensor to(const Tensor& input, std::optional<Device> device, std::optional<DType> dtype,
          bool non_blocking, bool copy, std::optional<MemoryFormat> format) {
  CopiesMayWait scope(non_blocking);
  return convert_to(input, dtype.value_or(input.dtype()), device.value_or(input.device()), copy,
                    format);
}
Tensor to(const Tensor& input, const Tensor& other, bool non_blocking, bool copy,
          std::optional<MemoryFormat> format) {
  CopiesMayWait scope(non_blocking);
  return convert_to(input, other.dtype(), other.device(), copy, format);
}

Tensor eye(int64_t n, std::optional<int64_t> m, std::optional<DType> dtype, LayoutArgument,
           std::optional<Device> device, bool requires_grad, bool) {
  check(n >= 0, "eye: n must be greater or equal to 0, got ", n);
  check(m.value_or(0) >= 0, "eye: m must be greater or equal to 0, got ", m.value_or(0));
  Tensor out =
      make_output(shape::sized("eye", Dims{n, m.value_or(n)}, dtype), device.value_or(Device{}));
  launch::fill(out, Scalar(0));
  launch::fill(impl::diagonal(out, 0, 0, 1), Scalar(1));
  return ask_gradient(out, requires_grad, "eye");
}

namespace {
// Element i of `steps` from start to end: start + step * i from the front, end - step * i from the
// back, so that both ends are exact. Integers are computed as doubles.
template <class T> class EvenSteps {
 public:
  EvenSteps(T start, T end, int64_t steps)
      : start_(static_cast<C>(start)),
        end_(static_cast<C>(end)),
        step_(steps > 1 ? (end_ - start_) / static_cast<real_t<C>>(steps - 1) : C(0)),
        steps_(steps) {}
  T operator()(int64_t i) const {
    if (i < steps_ / 2 || steps_ == 1) return static_cast<T>(start_ + step_ * number(i));
    return static_cast<T>(end_ - step_ * number(steps_ - 1 - i));
  }

 private:
  using C = std::conditional_t<std::is_integral_v<T>, double, T>;
  static real_t<C> number(int64_t i) { return static_cast<real_t<C>>(i); }
  C start_, end_, step_;
  int64_t steps_;
};

DType line_dtype(const char* op, const Scalar& start, const Scalar& end,
                 std::optional<DType> dtype) {
  const bool complex = start.is_complex() || end.is_complex();
  check(!complex || !dtype || rl::is_complex(*dtype), "torch.", op, "(): inferred dtype ",
        to_complex(default_dtype()), " of complex ends can't be safely cast to passed dtype ",
        dtype.value_or(DType::Float32));
  return dtype.value_or(complex ? to_complex(default_dtype()) : default_dtype());
}
}  // namespace

Tensor linspace(const Scalar& start, const Scalar& end, int64_t steps, std::optional<DType> dtype,
                LayoutArgument, std::optional<Device> device, bool requires_grad, bool) {
  check(steps >= 0, "linspace: number of steps must be non-negative, got ", steps);
  Tensor out =
      make_output(shape::sized("linspace", Dims{steps}, line_dtype("linspace", start, end, dtype)),
                  device.value_or(Device{}));
  if (out.is_floating()) {
    launch::linspace(out, start, end);
  } else {
    out = written_by_host(out, [&](const Tensor& line) {
      visit<uint8_t, int8_t, int16_t, int32_t, int64_t, complex64, complex128>(
          "linspace", line.dtype(), [&](auto tag) {
            using T = typename decltype(tag)::type;
            T* to = line.data<T>();
            const EvenSteps<T> element(start.to<T>(), end.to<T>(), steps);
            for (int64_t i = 0; i < steps; ++i) to[i] = element(i);
          });
    });
  }
  return ask_gradient(out, requires_grad, "linspace");
}

Tensor logspace(const Scalar& start, const Scalar& end, int64_t steps, double base,
                std::optional<DType> dtype, LayoutArgument layout, std::optional<Device> device,
                bool requires_grad, bool pin) {
  check(steps >= 0, "logspace: number of steps must be non-negative, got ", steps);
  DType type = line_dtype("logspace", start, end, dtype);
  DType wide = rl::is_complex(type) ? DType::Complex128 : DType::Float64;
  const bool whole = is_integral_or_bool(type);  // the exponents are then of that dtype too
  Tensor line =
      linspace(whole ? Scalar(start.to<int64_t>()) : start, whole ? Scalar(end.to<int64_t>()) : end,
               steps, wide, layout, device, false, pin);
  return ask_gradient(to_dtype(pow(wrap_number(Scalar(base)), line), type), requires_grad,
                      "logspace");
}

Tensor one_hot(const Tensor& input, int64_t num_classes) {
  check(input.dtype() == DType::Int64,
        "one_hot is only applicable to index tensor of type LongTensor, got ", input.dtype());
  check(input.numel() > 0 || num_classes > 0,
        "one_hot: Can not infer total number of classes from empty tensor.");
  int64_t classes = num_classes;
  if (classes == -1) check_elements("one_hot", input);
  if (input.numel()) {
    check(item_or<int64_t>(amin(input), 0) >= 0, "one_hot: Class values must be non-negative.");
    int64_t largest = item_or<int64_t>(amax(input), 0);
    if (classes == -1) classes = largest + 1;
    check(largest < classes || classes < 1,
          "one_hot: Class values must be smaller than num_classes.");
  }
  check(classes >= 1 || input.numel() == 0, "one_hot: num_classes should be positive, got ",
        num_classes);
  Dims sizes = input.sizes();
  sizes.push_back(classes);
  Tensor out = zeros(sizes, DType::Int64, {}, input.device());
  return scatter_(out, -1, unsqueeze(input, -1), Scalar(int64_t(1)));
}

namespace {
// input is overwritten: its gradient ends here, that of src goes on.
struct CopyBackward final : Node {
  explicit CopyBackward(Device source) : Node("copy"), source(source) {}
  void apply(Gradients& g, Gradients& r) override {
    if (!g[0].defined()) return;
    if (wants(0)) r[0] = zeros_like(g[0]);
    if (wants(1)) r[1] = to(g[0], source, std::nullopt);
  }
  const Device source;
};

// From another device: converted and put in row-major order where the elements are, moved as bytes,
// and brought into the order of `input` there.
void copy_across(const Tensor& from, const Tensor& input) {
  if (input.is_meta()) return check_not_batched("copy_");
  check_implemented(!from.is_meta(), "Cannot copy out of meta tensor; no data!");
  if (!from.numel()) return;
  Tensor source = unrecorded([&] {
    return ops::contiguous(from.dtype() == input.dtype() ? from : to_dtype(from, input.dtype()));
  });
  copy_on_write(input);
  Tensor target = input.is_contiguous() ? input : rl::empty(input.sizes(), options(input));
  copy_bytes(target.data<void>(), target.device(), source.data<void>(), source.device(),
             static_cast<size_t>(source.numel() * itemsize(source.dtype())));
  if (!target.is_same(input)) launch::copy(target, input);
}
}  // namespace

Tensor copy_(const Tensor& input, const Tensor& src, bool non_blocking) {
  if (__builtin_expect(mode() & Batched, 0)) {
    const GivenList given = {{"input", input}, {"other", src}, {"non_blocking", non_blocking}};
    const Batching how = op_batch->compute("copy_\0", given, Spread::ByRule);
    if (how == Batching::Results) return input;
    if (how == Batching::Plain) {
      ModeGuard plain = op_batch->outside();
      return copy_(input, src, non_blocking);
    }
  }
  CopiesMayWait scope(non_blocking || copies_may_wait());
  if (src.is_complex() && !input.is_complex() && input.dtype() != DType::Bool) warn_of_complex();
  check_in_place(input, "copy_", records(src));
  Ref<Node> node;
  if (records(input, src)) {
    node = make_ref<CopyBackward>(src.device());
    node->add_input(input);
    node->add_input(src);
  }
  Tensor from = unrecorded([&] {
    Tensor t = src.sizes() == input.sizes() ? src : expand(src, input.sizes());
    return memory_overlap(input, t) == Overlap::Partial ? clone_unrecorded(t) : t;
  });
  if (!is_same_device(input.device(), from.device())) copy_across(from, input);
  else if (memory_overlap(input, from) != Overlap::Same) launch::copy(from, input);
  bump_version(input, "copy_");
  if (node) rebase_history(input, node);
  return input;
}

Tensor resize_(const Tensor& input, const Dims& size, std::optional<MemoryFormat> format) {
  check(!records(input), "resize_: cannot resize variables that require grad");
  check(!format || *format != MemoryFormat::Preserve,
        "resize_: memory_format preserve_format is unsupported; resize_as_ takes it");
  if (!format && size == input.sizes()) return input;  // strides and all
  Dims strides = shape::strides_in(format, size, "resize_");
  TensorImpl* impl = input.impl();
  int64_t needed = impl->offset;
  int64_t elements = 1;
  bool overflow = false;
  for (int64_t d : size) {
    check(d >= 0, "resize_: negative size in ", size);
    overflow = overflow || __builtin_mul_overflow(elements, d, &elements);
  }
  overflow = overflow || __builtin_add_overflow(needed, elements, &needed) ||
             __builtin_mul_overflow(needed, itemsize(impl->dtype), &needed);
  check(!overflow, "resize_: Storage size calculation overflowed with sizes=", size);
  if (elements && needed > impl->storage->nbytes) {
    // Other tensors on this storage remember where its bytes are.
    check(impl->storage->refs.load() == 1,
          "resize_: cannot move memory that other tensors share; resize a clone()");
    impl->storage->materialize();
    const int64_t before =
        (impl->storage->nbytes + itemsize(impl->dtype) - 1) / itemsize(impl->dtype);
    impl->storage->resize(needed);
    const int64_t added = needed / itemsize(impl->dtype) - before;
    if (added > 0) fill_uninitialized(alias(input, Dims{added}, Dims{1}, before));
  }
  const bool changes = impl->sizes != size;
  impl->sizes = size;
  reshape_accumulator(input);
  impl->strides = strides;
  impl->refresh();
  if (changes) bump_version(input, "resize_");
  return input;
}

}  // namespace ops

namespace impl {

Tensor clone(const Tensor& input, std::optional<MemoryFormat> format) {
  bool keeps = format.value_or(MemoryFormat::Preserve) <= MemoryFormat::Preserve &&
               has_physical_layout(input);
  Tensor copy = ResultMemory::take(input.sizes(), input.dtype(), input.device());
  if (!copy.defined())
    copy = keeps ? empty_in_layout_of(input, input.dtype())
                 : make_output(shape::sized_like("clone", input, input.dtype(), format),
                               input.device());
  launch::copy(physical(input), physical(copy));
  return copy;
}

Tensor to_dtype(const Tensor& input, std::optional<DType> dtype) {
  Tensor copy = rl::empty_like(input, dtype.value_or(input.dtype()));
  launch::copy(input, copy);
  return copy;
}

namespace {
// Of elements that expand() repeats, the one in memory.
Tensor without_repeats(const Tensor& t) {
  if (t.impl()->standard_strides) return t;
  Dims sizes = t.sizes();
  for (int64_t d = 0; d < sizes.size(); ++d)
    if (t.strides()[d] == 0 && sizes[d] > 1) sizes[d] = 1;
  return sizes == t.sizes() ? t : alias(t, sizes, t.strides(), t.offset());
}
}  // namespace

Tensor fill(const Tensor& input, const Tensor& value, const Tensor& given) {
  check(value.dim() == 0, "fill: only supports 0-dimension value tensor but got tensor with ",
        value.dim(), " dimensions.");
  Tensor out = empty_unless(given, input), written = without_repeats(out);
  launch::copy(expand(value, written.sizes(), false), written);
  return out;
}

Tensor fill(const Tensor& input, const Scalar& value, const Tensor& given) {
  check_fits("fill", value, input.dtype());
  Tensor out = given.defined() || !has_physical_layout(input)
                   ? empty_unless(given, input)
                   : empty_in_layout_of(input, input.dtype());
  copy_on_write(out);
  launch::fill(physical(without_repeats(out)), value);
  return out;
}

Tensor complex(const Tensor& real, const Tensor& imag) {
  check(real.is_floating(),
        "complex: Expected both inputs to be Half, Float or Double tensors but got ", real.dtype(),
        " and ", imag.dtype());
  check(real.dtype() == imag.dtype(), "complex: Expected object of scalar type ", real.dtype(),
        " but got scalar type ", imag.dtype(), " for second argument");
  Dims sizes = broadcast_sizes(real.sizes(), imag.sizes(), "complex");
  const Tensor* parts_in[] = {&real, &imag};
  Tensor out = empty_strided(sizes, elementwise_strides(sizes, parts_in, 2),
                             options(real, to_complex(real.dtype())));
  Tensor parts = view_as_real(out);
  launch::copy(expand(real, sizes, false), select(parts, -1, 0));
  launch::copy(expand(imag, sizes, false), select(parts, -1, 1));
  return out;
}

}  // namespace impl
}  // namespace rl
