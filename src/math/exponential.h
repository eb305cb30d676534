// Exponentials, logarithms, powers and the hyperbolic functions.
#pragma once
#include "math/arithmetic.h"

namespace rl::math {

#define RL_LIBM(name)                                              \
  RL_INLINE float name(float x) { return __builtin_##name##f(x); } \
  RL_INLINE double name(double x) { return __builtin_##name(x); }
RL_LIBM(exp)
RL_LIBM(exp2)
RL_LIBM(expm1)
RL_LIBM(log)
RL_LIBM(log2)
RL_LIBM(log10)
RL_LIBM(log1p)
RL_LIBM(sinh)
RL_LIBM(cosh)
RL_LIBM(tanh)
RL_LIBM(asinh)
RL_LIBM(acosh)
RL_LIBM(atanh)
#undef RL_LIBM

template <class T> RL_INLINE T sigmoid(T x) { return T(1) / (T(1) + exp(-x)); }
// log(1 + exp(x)), exact for large |x|.
template <class T> RL_INLINE T log1pexp(T x) { return fmax(x, T(0)) + log1p(exp(-magnitude(x))); }
template <class T> RL_INLINE T log_sigmoid(T x) { return -log1pexp(-x); }
template <class T> RL_INLINE T logit(T x) { return log(x / (T(1) - x)); }

RL_INLINE float pow(float x, float y) { return __builtin_powf(x, y); }
RL_INLINE double pow(double x, double y) { return __builtin_pow(x, y); }
template <class T, std::enable_if_t<std::is_integral_v<T>, int> = 0> RL_INLINE T pow(T x, T y) {
  return integer_pow(x, y);
}

template <class T> RL_INLINE T logaddexp(T a, T b) {
  T high = maximum(a, b);
  return isinf(high) && a == b ? a : high + log1p(exp(-magnitude(a - b)));
}
template <class T> RL_INLINE T logaddexp2(T a, T b) {
  constexpr T log2_e = T(1.44269504088896340736);
  T high = maximum(a, b);
  return isinf(high) && a == b ? a : high + log2_e * log1p(exp2(-magnitude(a - b)));
}
// x * log(y), 0 where x is 0 (unless y is NaN).
template <class T> RL_INLINE T xlogy(T x, T y) {
  return isnan(y) ? y : x == T(0) ? T(0) : x * log(y);
}
template <class T> RL_INLINE T xlog1py(T x, T y) {
  return isnan(y) ? y : x == T(0) ? T(0) : x * log1p(y);
}

}  // namespace rl::math
