// Functions that kernel formulas call under the name of the op that a composed gradient calls.
#pragma once
#include "math/math.h"

namespace rl::math {

template <class T> RL_INLINE T softplus(T x) { return log1pexp(x); }
template <class T> RL_INLINE T floor_division(T a, T b) { return floor_divide(a, b); }
template <class T> RL_INLINE T clamp_min(T x, T low) { return maximum(x, low); }
template <class T> RL_INLINE T clamp_max(T x, T high) { return minimum(x, high); }
// Exact at both ends: from the nearer one.
template <class T> RL_INLINE T lerp(T from, T to, T weight) {
  if constexpr (is_complex_v<T>) return from + weight * (to - from);
  else
    return magnitude(weight) < T(0.5) ? from + weight * (to - from)
                                      : to - (to - from) * (T(1) - weight);
}
template <class T> RL_INLINE T round_decimals(T x, T decimals) {
  if constexpr (is_float_v<T>) {
    T power = pow(T(10), magnitude(decimals));
    return decimals < T(0) ? round(x / power) * power : round(x * power) / power;
  } else {
    return x;
  }
}
template <class T> RL_INLINE T bitwise_not(T x) {
  if constexpr (std::is_same_v<T, bool>)
    return bit_cast<uint8_t>(x) == 0;  // !x, but vectorised by gcc
  else return static_cast<T>(~x);
}

}  // namespace rl::math
