// Circular functions and their inverses, and hypot. In float their arguments are reduced in double;
// in double they are the C library's, but for hypot and near sin and cos. The polynomials are of
// our own, as in exponential.h.
#pragma once
#include "math/arithmetic.h"
#include "math/exponential.h"

namespace rl::math {

inline constexpr double pi = 3.14159265358979323846;
inline constexpr double half_pi = 1.57079632679489661923;

// ---- argument reduction ----

// x = quadrant pi/2 + r, |r| a little over pi/4 at most.
template <class T> struct Angle {
  double r;
  UInt<T> quadrant;  // in the low two bits
};
template <class T> inline constexpr T farthest_near_angle = sizeof(T) == 4 ? T(0x1p16) : T(0x1p20);
// pi/2 in three parts: quadrants times the first two, of 33 bits each, are exact in double.
inline constexpr double half_pi_parts[] = {0x1.921fb544p+0, 0x1.0b4611a6p-34,
                                           0x1.3198a2e037073p-69};
template <class T> RL_INLINE Angle<T> near_angle(T x) {
  Nearest<T> n = nearest(x * T(2 / pi));
  double turns = n.value, r = (x - turns * half_pi_parts[0]) - turns * half_pi_parts[1];
  if constexpr (sizeof(T) == 8) r -= turns * half_pi_parts[2];
  return {r, static_cast<UInt<T>>(n.integer)};
}

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

// r is NaN where x is not finite.
RL_INLINE Angle<float> far_angle(float x) {
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
  return {f * half_pi, static_cast<uint32_t>(quadrant)};
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
// sin of the whole angle; the polynomials have errors of 2^-28 and 2^-57.
RL_INLINE float sine_of(Angle<float> a) {
  float r = static_cast<float>(a.r), z = r * r;
  float s = r + r * z * polynomial(z, -1.666665524e-01f, 8.332173340e-03f, -1.951665472e-04f);
  float c = 1.0f + z * polynomial(z, -5.000000000e-01f, 4.166662320e-02f, -1.388675533e-03f,
                                  2.438963566e-05f);
  float value = a.quadrant & 1 ? c : s;
  return bit_cast<float>(bit_cast<uint32_t>(value) ^ (a.quadrant & 2) << 30);
}
RL_INLINE double sine_of(Angle<double> a) {
  double r = a.r, z = r * r;
  double s =
      r + r * z *
              polynomial(z, -0.16666666666666630, 0.0083333333333218675, -0.00019841269829351616,
                         2.7557313527680095e-6, -2.5050731543254828e-8, 1.5895209584900861e-10);
  double c = 1.0 + (z * z *
                        polynomial(z, 0.041666666666666595, -0.0013888888888873386,
                                   2.4801587289001049e-5, -2.7557314207717998e-7,
                                   2.0875702931571449e-9, -1.1358561700868020e-11) -
                    0.5 * z);
  double value = a.quadrant & 1 ? c : s;
  return bit_cast<double>(bit_cast<uint64_t>(value) ^ (a.quadrant & 2) << 62);
}
template <class T> RL_INLINE T sine(T x, Angle<T> a) {
  T y = sine_of(a);
  return x == T(0) ? x : y;  // keeps the sign of -0
}
template <class T> RL_INLINE T cosine(Angle<T> a) { return sine_of(Angle<T>{a.r, a.quadrant + 1}); }
RL_INLINE float tangent(Angle<float> a) {
  double f = a.r * (2 / pi), s = sine_of_quarter(f), c = cosine_of_quarter(f);
  double up = a.quadrant & 1 ? -c : s, down = a.quadrant & 1 ? s : c;
  return static_cast<float>(up / down);
}

template <class T> RL_INLINE T near_sin(T x) { return sine(x, near_angle(x)); }
template <class T> RL_INLINE T near_cos(T x) { return cosine(near_angle(x)); }
RL_INLINE float near_tan(float x) { return tangent(near_angle(x)); }
RL_INLINE double near_tan(double x) { return __builtin_tan(x); }
template <class T> RL_INLINE typename Format<T>::Int sin_is_far(T x) {
  return magnitude(x) <= farthest_near_angle<T> ? 0 : 1;
}
template <class T> RL_INLINE auto cos_is_far(T x) { return sin_is_far(x); }
template <class T> RL_INLINE auto tan_is_far(T x) { return sin_is_far(x); }

RL_INLINE Angle<float> angle_of_any(float x) {
  Angle<float> near = near_angle(x), far = far_angle(x);
  int32_t is_far = sin_is_far(x);
  return {is_far ? far.r : near.r, is_far ? far.quadrant : near.quadrant};
}
RL_INLINE float sin(float x) { return sine(x, angle_of_any(x)); }
RL_INLINE float cos(float x) { return cosine(angle_of_any(x)); }
RL_INLINE float tan(float x) { return tangent(angle_of_any(x)); }
RL_INLINE double sin(double x) { return sin_is_far(x) ? __builtin_sin(x) : near_sin(x); }
RL_INLINE double cos(double x) { return cos_is_far(x) ? __builtin_cos(x) : near_cos(x); }

// ---- inverses ----

// atan(t) for t in [0, 1]
RL_INLINE double atan_of_unit(double t) {
  return t * polynomial(t * t, 0.9999999996672075, -0.3333332471892999, 0.19999630606824406,
                        -0.14279493187677544, 0.11056675430190599, -0.08806908386690837,
                        0.06734636624664872, -0.044618578300912565, 0.0224966110189045,
                        -0.007304113574851657, 0.0011120812361198598);
}
RL_INLINE float atan(float x) {
  float a = magnitude(x), t = (a > 1.0f ? 1.0f : a) / (a > 1.0f ? a : 1.0f), z = t * t;
  float p = t + t * z *
                    polynomial(z, -3.333330187e-01f, 1.999863868e-01f, -1.426524567e-01f,
                               1.095757648e-01f, -8.419457577e-02f, 5.823449616e-02f,
                               -3.145562830e-02f, 1.106439401e-02f, -1.827201196e-03f);
  constexpr float high = static_cast<float>(half_pi), low = static_cast<float>(half_pi - high);
  return copysign(a > 1.0f ? high - (p - low) : p, x);
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
