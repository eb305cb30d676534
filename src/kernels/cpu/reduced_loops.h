// Elementwise loops over 16-bit floats, which are widened and rounded in registers; for *.isa.cpp
// files.
#pragma once
#include <utility>

#include "kernels/cpu/reduced_floats.h"
#include "math/formula.h"

namespace rl::kernels::RL_ISA {
namespace {

// As those of single floats: rounded once where the processor can.
using math::minus_product;
using math::plus_product;
inline vec<float> plus_product(vec<float> z, vec<float> x, vec<float> y) {
  return mul_add(x, y, z);
}
inline vec<float> minus_product(vec<float> z, vec<float> x, vec<float> y) {
  return mul_add(-x, y, z);
}

// Of 16-bit floats, as of others, the bits of one and the sign of another.
using math::copysign;
inline half copysign(half x, half y) {
  half result;
  result.bits = static_cast<uint16_t>((x.bits & 0x7fff) | (y.bits & 0x8000));
  return result;
}

// What is computed at once: of bfloat16 the even and the odd elements of a vector, which lie in the
// upper halves of floats after a shift or a mask, and go back as they came.
template <class T> inline constexpr int64_t reduced_lanes = Vector<float>::lanes;
template <> inline constexpr int64_t reduced_lanes<bfloat16> = 2 * Vector<float>::lanes;

template <class T> struct WideElements {
  vec<float> all;
  explicit WideElements(const T* from) : all(load_wide(from)) {}
  explicit WideElements(float same) : all(vec<float>{} + same) {}
};
template <> struct WideElements<bfloat16> {
  vec<float> even, odd;
  explicit WideElements(const bfloat16* from) {
    vec<uint32_t> pairs;
    std::memcpy(&pairs, from, sizeof pairs);
    even = (vec<float>)(pairs << 16);
    odd = (vec<float>)(pairs & 0xffff0000u);
  }
  explicit WideElements(float same) : even(vec<float>{} + same), odd(even) {}
};
template <class T, class F, class... Elements>
void store_reduced(T* to, F f, const Elements&... x) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    vec<uint32_t> even = rounded_to_upper_half(f(x.even...)),
                  odd = rounded_to_upper_half(f(x.odd...)),
                  pairs = even >> 16 | (odd & 0xffff0000u);
    std::memcpy(static_cast<void*>(to), &pairs, sizeof pairs);
  } else {
    store_narrow(to, f(x.all...));
  }
}

// The result and two operands of a row after the other.
struct RowOperands {
  void* at[3];
  explicit RowOperands(void* const* operands) : at{operands[0], operands[1], operands[2]} {}
  void advance(const int64_t* steps) {
    for (int k = 0; k < 3; ++k) at[k] = static_cast<char*>(at[k]) + steps[k];
  }
};

// result[i] = f(first[i], second[i]) by vectors of floats; `constant` is the operand, 1 or 2, that
// is one float all along, or 0.
template <class T, int constant, class F>
void reduced_loop(int64_t count, void* const* operands, F f) {
  constexpr int64_t lanes = reduced_lanes<T>;
  using Elements = WideElements<T>;
  auto* result = static_cast<T*>(operands[0]);
  auto *first = static_cast<const T*>(operands[1]), *second = static_cast<const T*>(operands[2]);
  const Elements same(constant ? *static_cast<const float*>(operands[constant]) : 0.0f);
  auto compute = [&](const T* x, const T* y, T* to) {
    if constexpr (constant == 0) store_reduced(to, f, Elements(x), Elements(y));
    else if constexpr (constant == 1) store_reduced(to, f, same, Elements(y));
    else store_reduced(to, f, Elements(x), same);
  };
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) compute(first + i, second + i, result + i);
  if (i == count) return;
  T x[lanes] = {}, y[lanes] = {}, to[lanes];
  auto bytes = static_cast<size_t>(count - i) * sizeof(T);
  if (constant != 1) std::memcpy(static_cast<void*>(x), first + i, bytes);
  if (constant != 2) std::memcpy(static_cast<void*>(y), second + i, bytes);
  compute(x, y, to);
  std::memcpy(static_cast<void*>(result + i), to, bytes);
}

// A function of floats for vectors of them: gcc makes vector instructions of the loop.
template <class F> auto by_lanes(F f) {
  return [f](auto... vectors) {
    constexpr int64_t lanes = Vector<float>::lanes;
    auto compute = [f](const auto*... x) {
      float y[lanes];
      for (int64_t i = 0; i < lanes; ++i) y[i] = f(x[i]...);
      return load(y);
    };
    struct Lanes {
      float of[lanes];
      explicit Lanes(vec<float> v) { std::memcpy(of, &v, sizeof v); }
    };
    return compute(Lanes(vectors).of...);
  };
}

// result[i] = f(x[i]...), a function of as many floats as there are operands x.
template <class T, class F, size_t... k>
void reduced_loop_of(int64_t count, void* const* operands, std::index_sequence<k...>, F f) {
  constexpr int64_t lanes = reduced_lanes<T>;
  auto* result = static_cast<T*>(operands[0]);
  const T* const from[] = {static_cast<const T*>(operands[1 + k])...};
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    store_reduced(result + i, by_lanes(f), WideElements<T>(from[k] + i)...);
  if (i == count) return;
  T part[sizeof...(k)][lanes] = {}, to[lanes];
  auto bytes = static_cast<size_t>(count - i) * sizeof(T);
  (std::memcpy(static_cast<void*>(part[k]), from[k] + i, bytes), ...);
  store_reduced(to, by_lanes(f), WideElements<T>(part[k])...);
  std::memcpy(static_cast<void*>(result + i), to, bytes);
}

}  // namespace
}  // namespace rl::kernels::RL_ISA
