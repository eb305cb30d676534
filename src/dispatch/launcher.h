// The launch seam: how a kernel is called with tensors.
//
//   launch::cumsum(input, dim, out);
//
// checks that the tensors are on one device, turns them into views and calls the kernel of that
// device's backend. On meta it does nothing. A tensor reaches the kernel in the order that its
// strides tell; physical(t) in the order in which its elements lie, for kernels that take any
// strides; reshaped(t, sizes) with dims of size 1 put in or left out. An undefined tensor is a null
// pointer to kernels that take `const View*`.
#pragma once
#include <new>
#include <optional>
#include <type_traits>

#include "core/observer.h"
#include "kernels/context.h"
#include "kernels/elementwise.h"
#include "tensor/physical_layout.h"

namespace rl {

// Both live as long as the launch, and so does what they make for its views.
class Physical {
 public:
  explicit Physical(const Tensor& t) : tensor_(t) {}
  const Tensor& tensor() const { return tensor_; }
  const View& view() const { return elements_.emplace(tensor_).view(); }

 private:
  const Tensor& tensor_;
  mutable std::optional<PhysicalView> elements_;
};
inline Physical physical(const Tensor& t) { return Physical(t); }

// The strides of a tensor whose sizes have more or fewer ones.
Dims strides_as(const Tensor& t, IntSpan sizes);

class Reshaped {
 public:
  Reshaped(const Tensor& t, IntSpan sizes) : tensor_(t), sizes_(sizes) {}
  const Tensor& tensor() const { return tensor_; }
  const View& view() const {
    strides_ = strides_as(tensor_, sizes_);
    view_ = tensor_.view();
    view_.sizes = sizes_.data();
    view_.strides = strides_.data();
    view_.ndim = sizes_.size();
    return view_;
  }

 private:
  const Tensor& tensor_;
  IntSpan sizes_;
  mutable Dims strides_;
  mutable View view_;
};
inline Reshaped reshaped(const Tensor& t, IntSpan sizes) { return {t, sizes}; }

// A kernel that does nothing on meta would leave as it is what stands for a batch of gradients.
void check_not_batched(const char* kernel);

namespace launch {

[[noreturn]] void fail_devices(const char* kernel, Device a, Device b);
[[noreturn]] void fail_missing(const char* kernel, Device device);
[[noreturn]] void fail_meta(const char* kernel);
[[noreturn]] void fail_layout(const char* kernel, Layout layout);

int64_t bytes_of(const Tensor& t);
int64_t bytes_of(const View& v);

// A tensor that a kernel takes as a view: read only once all devices are known to agree. It owns
// nothing and most of it stays uninitialized, as small ops launch a kernel in some ten nanoseconds.
class Operand {
 public:
  Operand(const Tensor& t) : tensor_(t.defined() ? &t : nullptr) {}
  Operand(const Physical& p) : Operand(p.tensor()) { physical_ = &p; }
  Operand(const Reshaped& r) : Operand(r.tensor()) { reshaped_ = &r; }
  Operand(const View& v) : view_(&v) {}
  Operand(const View* v) : view_(v) {}
  Operand(const PhysicalView& v) : view_(&v.view()) {}
  Operand(std::nullptr_t) {}
  Operand(const Operand&) = delete;
  Operand& operator=(const Operand&) = delete;

  bool given() const { return tensor_ || view_; }
  Device device() const { return tensor_ ? tensor_->device() : view_->device; }
  bool is_sparse() const { return tensor_ && tensor_->is_sparse(); }
  Layout layout() const { return tensor_ ? tensor_->layout() : Layout::Strided; }
  // Bytes of elements, each once however often strides repeat it.
  int64_t bytes() const { return tensor_ ? bytes_of(*tensor_) : view_ ? bytes_of(*view_) : 0; }
  const View& view() {
    if (view_) return *view_;
    if (physical_) return physical_->view();
    if (reshaped_) return reshaped_->view();
    return *new (&own_) View(tensor_->view());
  }

 private:
  const Tensor* tensor_ = nullptr;
  const View* view_ = nullptr;
  const Physical* physical_ = nullptr;
  const Reshaped* reshaped_ = nullptr;
  union {
    View own_;
  };
};

// How a launch takes what the kernel takes: views as operands, all else as it is.
template <class Parameter> struct Taken {
  using type = Parameter;
};
template <> struct Taken<const View&> {
  using type = Operand&&;
};
template <> struct Taken<const View*> {
  using type = Operand&&;
};

template <class T, class = void> inline constexpr bool has_device = false;
template <class T> inline constexpr bool has_device<T, std::void_t<decltype(T::device)>> = true;

// The device on which all operands are.
class Placement {
 public:
  explicit Placement(const char* kernel) : kernel_(kernel) {}
  void add(const Operand& operand) {
    if (!operand.given()) return;
    if (__builtin_expect(operand.is_sparse(), 0)) fail_layout(kernel_, operand.layout());
    add(operand.device());
  }
  // Structures of views say on which device these are; numbers are on none.
  template <class Other> void add(const Other& other) {
    if constexpr (has_device<Other>) add(other.device);
  }
  Device device() const { return device_; }

 private:
  void add(Device d) {
    if (known_ && !is_same_device(device_, d)) fail_devices(kernel_, device_, d);
    device_ = d;
    known_ = true;
  }
  const char* kernel_;
  Device device_;
  bool known_ = false;
};

// The same of tensors that a kernel takes in a structure of its own.
template <class... Tensors> Device place_of(const char* kernel, const Tensors&... tensors) {
  Placement placement(kernel);
  (placement.add(Operand(tensors)), ...);
  return placement.device();
}

template <class Parameter> struct Hand {
  template <class Given> static Parameter over(Given& given) {
    return static_cast<Parameter>(given);
  }
};
template <> struct Hand<const View&> {
  static const View& over(Operand& operand) { return operand.view(); }
};
template <> struct Hand<const View*> {
  static const View* over(Operand& operand) { return operand.given() ? &operand.view() : nullptr; }
};

// What a profile is told of a launch. Made only where there is one: 10 ns of a small op are what an
// object costs that asks by itself.
class KernelObserver {
 public:
  explicit KernelObserver(const char* kernel) : event_(EventKind::Kernel, kernel) {
    if (__builtin_expect(event_.event() != nullptr, 0)) begin(kernel);
  }
  ~KernelObserver() {
    if (__builtin_expect(event_.event() != nullptr, 0)) thread_state().kernel = outer_;
  }
  explicit operator bool() const { return __builtin_expect(event_.event() != nullptr, 0); }
  void add(const Operand& operand) { event_.event()->bytes += operand.bytes(); }
  void add(const kernels::Loop& loop) { event_.event()->name = thread_state().kernel = loop.name; }
  void add(const Views& views) {
    for (const View& v : views) event_.event()->bytes += bytes_of(v);
  }
  template <class Other> void add(const Other&) {}

 private:
  void begin(const char* kernel) {
    outer_ = thread_state().kernel;
    thread_state().kernel = kernel;
  }
  observer::Scope event_;
  const char* outer_ = nullptr;
};

// A launch that a profile watches, in a function that kernels of the same type share.
template <class Result, class... Parameters>
[[gnu::noinline, gnu::cold]] Result launch_observed(
    const char* name, Result (*kernel)(const kernels::Context&, Parameters...), Device device,
    typename Taken<Parameters>::type... arguments) {
  KernelObserver observer(name);
  if (observer) (observer.add(arguments), ...);
  return kernel(kernels::Context{device}, Hand<Parameters>::over(arguments)...);
}

template <class Slot, Slot slot> class Launcher;
template <class Kernels, class Result, class... Parameters,
          Result (*Kernels::*slot)(const kernels::Context&, Parameters...)>
class Launcher<Result (*Kernels::*)(const kernels::Context&, Parameters...), slot> {
 public:
  explicit constexpr Launcher(const char* name) : name_(name) {}

  // Inlined, so that nothing is left of the operands but the views.
  [[gnu::always_inline]] Result operator()(typename Taken<Parameters>::type... arguments) const {
    Placement placement(name_);
    (placement.add(arguments), ...);
    Device device = placement.device();
    if (__builtin_expect(device.is_meta(), 0)) {
      check_not_batched(name_);
      if constexpr (std::is_void_v<Result>) return;
      else if constexpr (std::is_same_v<Result, bool>) return true;  // nothing is left to do
      else if constexpr (std::is_class_v<Result>) return {};
      else fail_meta(name_);
    }
    const Kernels* table = Kernels::of_device[static_cast<int>(device.type)];
    auto kernel = table ? table->*slot : nullptr;
    if (__builtin_expect(!kernel, 0)) fail_missing(name_, device);
    // Who asks for a loop runs it, and is the one to be observed.
    if (!std::is_pointer_v<Result> && __builtin_expect(mode() & Profiled, 0))
      return launch_observed<Result, Parameters...>(
          name_, kernel, device, static_cast<typename Taken<Parameters>::type>(arguments)...);
    return kernel(kernels::Context{device}, Hand<Parameters>::over(arguments)...);
  }

 private:
  const char* name_;
};

}  // namespace launch
}  // namespace rl
