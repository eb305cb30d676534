// What a profile and the NaN trap see of an op, and what a batch of gradients makes of it: the
// function of each row asks `observed()`, and goes through `observe` if one of them is on.
#pragma once
#include <array>
#include <cstring>

#include "core/observer.h"
#include "dispatch/batched.h"
#include "tensor/tensor.h"

namespace rl {

inline bool observed() { return __builtin_expect(mode() & Observed, 0); }

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

template <class... Rest> const Tensor& first(const Tensor& t, const Rest&...) { return t; }

// The same of a function and all of its arguments, whose names are in one string, a zero byte
// between two: functions of the same type share the code. Behind the name of the op and a zero byte
// is the key by which programs know it (program/operation.h): nothing where that is the name, "!"
// where it has none.
template <Elements elements = Elements::Computed, class R, class... A>
[[gnu::noinline, gnu::cold]] R observe(const char* op, R (*body)(A...), const char* names,
                                       const std::remove_reference_t<A>&... arguments) {
  [[maybe_unused]] auto next = [&names] {
    const char* name = names;
    names += std::strlen(name) + 1;
    return name;
  };
  const GivenList given = {Given(next(), arguments)...};
  if (mode() & Batched) {
    const Batching how = op_batch->compute(op, given, Spread::ByRule);
    if (how == Batching::Plain) {
      ModeGuard plain = op_batch->outside();
      return body(arguments...);
    }
    [[maybe_unused]] const bool computed = how == Batching::Results;
    if constexpr (std::is_reference_v<R>) {  // its first argument, which it changes
      if (computed) return first(arguments...);
    } else if constexpr (BatchedResult<R>::possible) {
      if (computed) return BatchedResult<R>::take();
    }
    return body(arguments...);
  }
  return observe<elements>(op, given, [&]() -> R { return body(arguments...); });
}

// Of a row whose function computes a batch of gradients too.
template <Spread how, class R, class... A>
[[gnu::noinline, gnu::cold]] R observe_spread(const char* op, R (*body)(A...), const char* names,
                                              const std::remove_reference_t<A>&... arguments) {
  if (!(mode() & Batched)) return observe(op, body, names, arguments...);
  const GivenList given = {Given("", arguments)...};
  switch (op_batch->compute(op, given, how)) {
    case Batching::Plain: {
      ModeGuard plain = op_batch->outside();
      return body(arguments...);
    }
    case Batching::Results: return BatchedResult<R>::take();
    case Batching::Body: return body(arguments...);
    case Batching::Spread: break;
  }
  SpreadArguments spread(*op_batch, how, given);
  std::tuple<std::decay_t<A>...> values{spread(arguments)...};  // in their order
  ModeGuard plain = op_batch->outside();
  return BatchedResult<R>::stand_in(std::apply(body, values), how);
}

}  // namespace rl
