// Circular functions and their inverses, and hypot.
#pragma once
#include "math/arithmetic.h"

namespace rl::math {

#define RL_LIBM(name)                                              \
  RL_INLINE float name(float x) { return __builtin_##name##f(x); } \
  RL_INLINE double name(double x) { return __builtin_##name(x); }
RL_LIBM(sin)
RL_LIBM(cos)
RL_LIBM(tan)
RL_LIBM(asin)
RL_LIBM(acos)
RL_LIBM(atan)
#undef RL_LIBM

RL_INLINE float atan2(float y, float x) { return __builtin_atan2f(y, x); }
RL_INLINE double atan2(double y, double x) { return __builtin_atan2(y, x); }

RL_INLINE float hypot(float x, float y) {
  double a = x, b = y;
  float h = static_cast<float>(__builtin_sqrt(a * a + b * b));
  return isinf(x) | isinf(y) ? infinity<float> : h;
}
RL_INLINE double hypot(double x, double y) { return __builtin_hypot(x, y); }

// sin(pi x) / (pi x)
template <class T> RL_INLINE T sinc(T x) {
  T y = x * T(3.14159265358979323846);
  return x == T(0) ? T(1) : sin(y) / y;
}
// The angle of a real number in the complex plane.
template <class T> RL_INLINE T angle(T x) {
  return isnan(x) ? x : x < T(0) ? T(3.14159265358979323846) : T(0);
}

}  // namespace rl::math
