// Hyperbolic functions and their inverses. Except for tanh, float goes through double, whose range
// and precision leave nothing to guard against.
#pragma once
#include "math/exponential.h"

namespace rl::math {

RL_INLINE float tanh(float x) {
  float a = magnitude(x), z = x * x;
  float share = polynomial(z, -3.333333135e-01f, 1.333324760e-01f, -5.395247415e-02f,
                           2.173444070e-02f, -8.267091587e-03f, 2.231064951e-03f);
  float small = mul_add(x * z, share, x);
  float large = 1.0f - 2.0f / exp_normal_plus(a > 10.0f ? 20.0f : 2.0f * a, 1.0f);
  return copysign(a < 0.6f ? small : large, x);
}
RL_INLINE double tanh(double x) {
  double a = magnitude(x), z = x * x;
  double share = polynomial(z, -0.33333333333332352, 0.13333333333173737, -0.053968253878372643,
                            0.021869486026075741, -0.0088631951525612133, 0.0035917246507682812,
                            -0.0014532400640692757, 0.00057920309422918668, -0.00021040591034306928,
                            5.1090294921527979e-05);
  double small = mul_add(x * z, share, x);
  double large = 1.0 - 2.0 / exp_normal_plus(a > 20.0 ? 40.0 : 2.0 * a, 1.0);
  return copysign(a < 0.55 ? small : large, x);
}

// exp(a) / 2 for a >= 0, infinite only where that is.
RL_INLINE double half_of_exp(double a) { return exp_scaled(a > 711.0 ? 711.0 : a, -1); }
RL_INLINE double sinh(double x) {
  double a = magnitude(x), z = a * a, half_exp = half_of_exp(a);
  double share = polynomial(z, 0.16666666666666666, 0.008333333333333333, 0.0001984126984126959,
                            2.755731922412024e-06, 2.5052108345641634e-08, 1.6059050705855312e-10,
                            7.646476361674716e-13, 2.8483982836129548e-15);
  double small = mul_add(a * z, share, a);
  return copysign(a < 1.0 ? small : half_exp - 0.25 / half_exp, x);
}
RL_INLINE double cosh(double x) {
  double half_exp = half_of_exp(magnitude(x));
  return half_exp + 0.25 / half_exp;
}

// From 2^28 on, where squares stop to matter (and may overflow): log(2a).
RL_INLINE double asinh(double x) {
  double a = magnitude(x), b = a > 0x1p28 ? 0x1p28 : a;
  double middle = log1p(b + b * b / (1.0 + sqrt(mul_add(b, b, 1.0))));
  return copysign(a > 0x1p28 ? log(a) + ln2<double> : middle, x);
}
RL_INLINE double acosh(double x) {
  double t = (x > 0x1p28 ? 0x1p28 : x) - 1.0;
  double middle = log1p(t + sqrt(mul_add(t, t, 2.0 * t)));
  double y = x > 0x1p28 ? log(x) + ln2<double> : middle;
  return x < 1.0 ? quiet_nan<double> : y;
}
RL_INLINE double atanh(double x) {
  double a = magnitude(x);
  return copysign(0.5 * log1p(2.0 * a / (1.0 - a)), x);
}

// Half of log((1 + a) / (1 - a)), which has lost too many digits of a small one.
RL_INLINE float atanh(float x) {
  double a = static_cast<double>(magnitude(x));
  double y = 0.5 * ln2<double> * log2_short((1.0 + a) / (1.0 - a));
  y = a < 0x1p-9 ? a * mul_add(a * a, 1.0 / 3.0, 1.0) : y;
  y = a < 1.0 ? y : infinity<double>;
  y = a <= 1.0 ? y : quiet_nan<double>;
  return copysign(static_cast<float>(y), x);
}

RL_INLINE float cosh(float x) {
  double e = exp_short(magnitude(x) > 100.0f ? 100.0 : magnitude(static_cast<double>(x)));
  return static_cast<float>(0.5 * (e + 1.0 / e));
}
#define RL_THROUGH_DOUBLE(name) \
  RL_INLINE float name(float x) { return static_cast<float>(name(static_cast<double>(x))); }
RL_THROUGH_DOUBLE(sinh)
RL_THROUGH_DOUBLE(asinh)
RL_THROUGH_DOUBLE(acosh)
#undef RL_THROUGH_DOUBLE

}  // namespace rl::math
