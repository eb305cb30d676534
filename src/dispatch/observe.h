// What a profile and the NaN trap see of an op: the function of each row asks `observed()`, and
// goes through `observe` if one of them is on.
#pragma once
#include <array>
#include <cstring>
#include <initializer_list>
#include <optional>

#include "core/observer.h"
#include "tensor/tensor.h"

namespace rl {

inline bool observed() { return __builtin_expect(mode() & Observed, 0); }

// An argument of an op, by its name.
struct Given {
  enum Kind : uint8_t { None, OneTensor, Tensors, Integer, Real, Flag, Integers };
  const char* name;
  Kind kind = None;
  union {
    const void* at;
    int64_t integer = 0;
    double real;
  };

  template <class T> Given(const char* name, const T&) : name(name) {}
  Given(const char* name, const Tensor& t) : name(name), kind(OneTensor) { at = &t; }
  Given(const char* name, const TensorList& t) : name(name), kind(Tensors) { at = &t; }
  Given(const char* name, const Dims& d) : name(name), kind(Integers) { at = &d; }
  Given(const char* name, bool v) : name(name), kind(Flag) { integer = v; }
  Given(const char* name, int64_t v) : name(name), kind(Integer) { integer = v; }
  Given(const char* name, double v) : name(name), kind(Real) { real = v; }
  Given(const char* name, const Scalar& v) : name(name) {
    if (v.is_bool() || v.is_integral()) {
      kind = v.is_bool() ? Flag : Integer;
      integer = v.to<int64_t>();
    } else if (!v.is_complex()) {
      kind = Real;
      real = v.real();
    }
  }
  template <class T> Given(const char* name, const std::optional<T>& v) : name(name) {
    if (v) *this = Given(name, *v);
  }
};
using GivenList = std::initializer_list<Given>;

// Whether the elements of a result are those that the op computed, or what memory held.
enum class Elements { Computed, Uninitialized };

class OpObserver {
 public:
  OpObserver(const char* op, GivenList given, Elements elements);
  ~OpObserver();
  OpObserver(const OpObserver&) = delete;
  OpObserver& operator=(const OpObserver&) = delete;

  void done(const Tensor& result) { done(&result, 1); }
  void done(const TensorList& results) { done(results.data(), results.size()); }
  template <size_t N> void done(const std::array<Tensor, N>& results) { done(results.data(), N); }
  template <class T> void done(const T&) {}  // a number
  void done() {}

 private:
  void done(const Tensor* results, size_t count);

  const char* const op_;
  const GivenList given_;
  observer::Scope event_;
  const bool checks_;  // is it for the trap to look at the results?
  const uint64_t sequence_;
};

template <Elements elements = Elements::Computed, class F>
[[gnu::noinline, gnu::cold]] decltype(auto) observe(const char* op, GivenList given, F&& body) {
  OpObserver observer(op, given, elements);
  if constexpr (std::is_void_v<decltype(body())>) {
    body();
    observer.done();
  } else {
    decltype(body()) result = body();
    observer.done(result);
    return result;
  }
}

// The same of a function and all of its arguments, whose names are in one string, a zero byte
// between two: functions of the same type share the code.
template <Elements elements = Elements::Computed, class R, class... A>
[[gnu::noinline, gnu::cold]] R observe(const char* op, R (*body)(A...), const char* names,
                                       const std::remove_reference_t<A>&... arguments) {
  [[maybe_unused]] auto next = [&names] {
    const char* name = names;
    names += std::strlen(name) + 1;
    return name;
  };
  return observe<elements>(op, {Given(next(), arguments)...},
                           [&]() -> R { return body(arguments...); });
}

}  // namespace rl
