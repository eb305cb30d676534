// Functions that kernel formulas call under the name of the op that a composed gradient calls.
#pragma once
#include "math/math.h"

namespace rl::math {

// Of formulas: their products, and those which they add to sums or take either from the other.
// Integers of one type wrap around; operands of several types are multiplied and added as they are.
template <class X, class... Others>
constexpr bool wraps_v =
    std::is_integral_v<X> && sizeof(X) >= sizeof(int) && (std::is_same_v<X, Others> && ...);
template <class X, class Y> RL_INLINE auto product(X x, Y y) {
  if constexpr (is_complex_v<X> && std::is_same_v<X, Y>) return times(x, y);
  else if constexpr (wraps_v<X, Y>)
    return static_cast<X>(static_cast<wrapping_t<X>>(x) * static_cast<wrapping_t<X>>(y));
  else return x * y;
}
template <class X, class Y> RL_INLINE auto plus(X x, Y y) {
  if constexpr (wraps_v<X, Y>)
    return static_cast<X>(static_cast<wrapping_t<X>>(x) + static_cast<wrapping_t<X>>(y));
  else return x + y;
}
template <class X, class Y> RL_INLINE auto minus(X x, Y y) {
  if constexpr (wraps_v<X, Y>)
    return static_cast<X>(static_cast<wrapping_t<X>>(x) - static_cast<wrapping_t<X>>(y));
  else return x - y;
}
template <class X, class Y, class Z> RL_INLINE auto plus_product(Z z, X x, Y y) {
  if constexpr (is_float_v<X> && std::is_same_v<X, Y> && std::is_same_v<X, Z>)
    return mul_add(x, y, z);
  else return plus(z, product(x, y));
}
template <class X, class Y, class Z> RL_INLINE auto minus_product(Z z, X x, Y y) {
  if constexpr (is_float_v<X> && std::is_same_v<X, Y> && std::is_same_v<X, Z>)
    return mul_add(-x, y, z);
  else return minus(z, product(x, y));
}
template <class X, class Y, class Z> RL_INLINE auto product_minus(X x, Y y, Z z) {
  if constexpr (is_float_v<X> && std::is_same_v<X, Y> && std::is_same_v<X, Z>)
    return mul_add(x, y, -z);
  else return minus(product(x, y), z);
}

template <class T> RL_INLINE T softplus(T x) { return log1pexp(x); }
template <class T> RL_INLINE T floor_division(T a, T b) { return floor_divide(a, b); }
template <class T> RL_INLINE T fast_floor_division(T a, T b) { return fast_floor_divide(a, b); }
template <class T> RL_INLINE auto floor_division_needs_slow_path(T a, T b) {
  return fmod_needs_slow_path(a, b);
}
template <class T> RL_INLINE T clamp_min(T x, T low) { return maximum(x, low); }
template <class T> RL_INLINE T clamp_max(T x, T high) { return minimum(x, high); }
// Exact at both ends: from the nearer one.
template <class T> RL_INLINE T lerp(T from, T to, T weight) {
  if constexpr (is_complex_v<T>) return from + times(weight, to - from);
  else
    return magnitude(weight) < T(0.5) ? mul_add(weight, to - from, from)
                                      : mul_add(from - to, T(1) - weight, to);
}
template <class T> RL_INLINE constexpr T ten_to_64() {
  if constexpr (std::is_same_v<T, double>) return 1e32 * 1e32;
  else return infinity<T>;
}
// Without a loop, so that loops around it work it out once. Infinite from 512 on.
template <class T> RL_INLINE T power_of_ten(int n) {
  T power = (n & 1 ? T(1e1) : T(1)) * (n & 2 ? T(1e2) : T(1)) * (n & 4 ? T(1e4) : T(1));
  power *= (n & 8 ? T(1e8) : T(1)) * (n & 16 ? T(1e16) : T(1));
  power *= n & 32 ? T(1e32) : T(1);
  T high = n & 64 ? ten_to_64<T>() : T(1), higher = n & 128 ? ten_to_64<T>() : T(1);
  power *= high * higher * higher;
  return n >= 256 ? infinity<T> : power;
}
template <class T> RL_INLINE T round_decimals(T x, T decimals) {
  if constexpr (is_float_v<T>) {
    T power = power_of_ten<T>(static_cast<int>(magnitude(decimals)));
    return decimals < T(0) ? round(x / power) * power : round(x * power) / power;
  } else {
    return x;
  }
}
template <class T> RL_INLINE bool logical_not(T x) {
  if constexpr (std::is_same_v<T, bool>)
    return bit_cast<uint8_t>(x) == 0;  // !x, but vectorised by gcc
  else return x == T(0);
}
template <class T> RL_INLINE T bitwise_not(T x) {
  if constexpr (std::is_same_v<T, bool>) return logical_not(x);
  else return static_cast<T>(~x);
}

}  // namespace rl::math
