// Circular functions and their inverses, and hypot. In float they are computed through double by
// short polynomials; in double they are the C library's, but for hypot.
#pragma once
#include "math/arithmetic.h"

namespace rl::math {

inline constexpr double pi = 3.14159265358979323846;
inline constexpr double half_pi = 1.57079632679489661923;

// ---- argument reduction ----

// 2^k 2/pi modulo 4 for k = 0 .. 104, as the sum of a number of 28 bits, whose products with 24-bit
// factors are exact in double, and the next 53 bits (Payne and Hanek's method, for every float).
struct TwoOverPi {
  static constexpr int count = 105;
  double high[count] = {}, low[count] = {};
  constexpr TwoOverPi() {
    constexpr uint32_t bits[] = {0xa2f9836e, 0x4e441529, 0xfc2757d1,
                                 0xf534ddc0, 0xdb629599, 0x3c439041};
    auto take = [&](int from, int count) {  // bits as an integer; index 0 is next to the point
      double value = 0;
      for (int i = from; i < from + count; ++i)
        value = 2 * value + (i < 0 ? 0 : (bits[i / 32] >> (31 - i % 32)) & 1);
      return value;
    };
    for (int k = 0; k < count; ++k) {
      high[k] = take(k - 2, 28) * 0x1p-26;
      low[k] = take(k + 26, 53) * 0x1p-79;
    }
  }
};
inline constexpr TwoOverPi two_over_pi;

// x = (quadrant + f) pi/2 modulo 2 pi, |f| <= 1/2. f is NaN where x is not finite.
struct Turn {
  double f;
  uint32_t quadrant;  // in the low two bits
};
RL_INLINE Turn turn(float x) {
  constexpr double round_shift = 0x1.8p52;
  int32_t k = ((bit_cast<int32_t>(x) >> 23) & 0xff) - (127 + 23);
  k = k < 0 ? 0 : k >= TwoOverPi::count ? TwoOverPi::count - 1 : k;
  double m = static_cast<double>(x * bit_cast<float>((127 - k) << 23));
  const double *high = two_over_pi.high, *low = two_over_pi.low;
  double turns = m * high[k], shifted = turns + round_shift;
  double f = (turns - (shifted - round_shift)) + m * low[k];  // |f| < 3/4
  double carry = f + round_shift;
  f -= carry - round_shift;
  uint64_t quadrant = bit_cast<uint64_t>(shifted) + bit_cast<uint64_t>(carry);
  return {f, static_cast<uint32_t>(quadrant)};
}
// sin and cos of f pi/2
RL_INLINE double sine_of_quarter(double f) {
  return f * polynomial(f * f, 1.5707963267880456, -0.6459640961376644, 0.07969258249967524,
                        -0.004681264533948448, 0.00015820230590320026);
}
RL_INLINE double cosine_of_quarter(double f) {
  return polynomial(f * f, 0.9999999999521266, -1.2337005405715693, 0.2536692021205274,
                    -0.02086005774623167, 0.0009036007013787527);
}
// sin of the whole angle, finished in float: the polynomials have errors of 2^-28.
RL_INLINE float sine_of(Turn t) {
  float r = static_cast<float>(t.f * half_pi), z = r * r;
  float s = r + r * z * polynomial(z, -1.666665524e-01f, 8.332173340e-03f, -1.951665472e-04f);
  float c = 1.0f + z * polynomial(z, -5.000000000e-01f, 4.166662320e-02f, -1.388675533e-03f,
                                  2.438963566e-05f);
  float value = t.quadrant & 1 ? c : s;
  return bit_cast<float>(bit_cast<uint32_t>(value) ^ (t.quadrant & 2) << 30);
}

RL_INLINE float sin(float x) {
  float y = sine_of(turn(x));
  return x == 0.0f ? x : y;  // keeps the sign of -0
}
RL_INLINE float cos(float x) {
  Turn t = turn(x);
  return sine_of({t.f, t.quadrant + 1});
}
RL_INLINE float tan(float x) {
  Turn t = turn(x);
  double s = sine_of_quarter(t.f), c = cosine_of_quarter(t.f);
  double up = t.quadrant & 1 ? -c : s, down = t.quadrant & 1 ? s : c;
  return static_cast<float>(up / down);
}

// ---- inverses ----

// atan(t) for t in [0, 1]
RL_INLINE double atan_of_unit(double t) {
  return t * polynomial(t * t, 0.9999999996672075, -0.3333332471892999, 0.19999630606824406,
                        -0.14279493187677544, 0.11056675430190599, -0.08806908386690837,
                        0.06734636624664872, -0.044618578300912565, 0.0224966110189045,
                        -0.007304113574851657, 0.0011120812361198598);
}
RL_INLINE float atan(float x) {
  double a = magnitude(static_cast<double>(x));
  double p = atan_of_unit(a > 1.0 ? 1.0 / a : a);
  return copysign(static_cast<float>(a > 1.0 ? half_pi - p : p), x);
}
RL_INLINE float atan2(float y, float x) {
  double a = magnitude(static_cast<double>(x)), b = magnitude(static_cast<double>(y));
  double low = b > a ? a : b, high = b > a ? b : a;
  double t = low == high ? (high == 0.0 ? 0.0 : 1.0) : low / high;
  double p = atan_of_unit(t);
  p = b > a ? half_pi - p : p;
  p = signbit(x) ? pi - p : p;
  float result = copysign(static_cast<float>(p), y);
  return isnan(x) | isnan(y) ? x + y : result;
}

// asin(t) for t in [0, 1/2], given z = t^2
RL_INLINE double asin_of_half(double t, double z) {
  return t * polynomial(z, 0.9999999999845389, 0.16666667435870647, 0.07499937294017005,
                        0.04466225199834025, 0.030089742447455346, 0.024725981300242672,
                        0.007181906477491108, 0.03499938611721722);
}
// asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2)) brings a > 1/2 back.
RL_INLINE float asin(float x) {
  double a = magnitude(static_cast<double>(x));
  bool large = a > 0.5;
  double z = large ? 0.5 * (1.0 - a) : a * a;
  double p = asin_of_half(large ? sqrt(z) : a, z);
  return copysign(static_cast<float>(large ? half_pi - 2.0 * p : p), x);
}
RL_INLINE float acos(float x) {
  double a = magnitude(static_cast<double>(x));
  bool large = a > 0.5;
  double z = large ? 0.5 * (1.0 - a) : a * a;
  double p = asin_of_half(large ? sqrt(z) : a, z);
  double acute = large ? 2.0 * p : half_pi - p;  // acos(|x|)
  return static_cast<float>(x < 0.0f ? pi - acute : acute);
}

#define RL_LIBM(name) \
  RL_INLINE double name(double x) { return __builtin_##name(x); }
RL_LIBM(sin)
RL_LIBM(cos)
RL_LIBM(tan)
RL_LIBM(asin)
RL_LIBM(acos)
RL_LIBM(atan)
#undef RL_LIBM
RL_INLINE double atan2(double y, double x) { return __builtin_atan2(y, x); }

// ---- the plane ----

RL_INLINE float hypot(float x, float y) {
  double a = x, b = y;
  float h = static_cast<float>(sqrt(a * a + b * b));
  h = magnitude(x) == infinity<float> ? infinity<float> : h;
  return magnitude(y) == infinity<float> ? infinity<float> : h;
}
// Squares that would overflow or vanish are scaled first.
RL_INLINE double hypot(double x, double y) {
  double a = magnitude(x), b = magnitude(y), high = a > b ? a : b;
  double down = high > 0x1p500 ? 0x1p-600 : 1.0, up = high > 0x1p500 ? 0x1p600 : 1.0;
  down = high < 0x1p-500 ? 0x1p600 : down;
  up = high < 0x1p-500 ? 0x1p-600 : up;
  a *= down;
  b *= down;
  double h = sqrt(a * a + b * b) * up;
  h = a == infinity<double> ? a : h;
  return b == infinity<double> ? b : h;
}
// The angle of a real number in the complex plane.
template <class T> RL_INLINE T angle(T x) { return isnan(x) ? x : x < T(0) ? T(pi) : T(0); }

// sin(pi x) / (pi x)
template <class T> RL_INLINE T sinc(T x) {
  T y = x * T(pi), ratio = sin(y) / y;
  return x == T(0) ? T(1) : ratio;
}

}  // namespace rl::math
