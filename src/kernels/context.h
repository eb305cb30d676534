// What a kernel is told of where it runs.
#pragma once
#include "core/device.h"

namespace rl::kernels {

struct Context {
  Device device;
  void* stream = nullptr;  // the device's launch queue; the CPU has none
};

// The type of a slot for a kernel that is declared without its context: void(const View&) becomes
// void (*)(const Context&, const View&).
template <class Function> struct KernelOf;
template <class Result, class... Arguments> struct KernelOf<Result(Arguments...)> {
  using type = Result (*)(const Context&, Arguments...);
};
template <class Function> using Kernel = typename KernelOf<Function>::type;

// A function of the host as a slot of its backend.
template <auto* function> struct WithoutContext;
template <class Result, class... Arguments, Result (*function)(Arguments...)>
struct WithoutContext<function> {
  static Result call(const Context&, Arguments... arguments) {
    return function(static_cast<Arguments&&>(arguments)...);
  }
};

}  // namespace rl::kernels
