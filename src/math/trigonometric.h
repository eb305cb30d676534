// Circular functions and their inverses, and hypot. In float their arguments are reduced in double;
// those of doubles beyond 2^20 by the C library. The polynomials are of
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
RL_INLINE double less_turns(double x, double turns) {
  return mul_add(-turns, half_pi_parts[1], mul_add(-turns, half_pi_parts[0], x));
}
template <class T> RL_INLINE Angle<T> fast_angle(T x) {
  Nearest<T> n = nearest_product(x, T(2 / pi));
  double turns = n.value, r = less_turns(x, turns);
  if constexpr (sizeof(T) == 8) r = mul_add(-turns, half_pi_parts[2], r);
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
  double f = mul_add(m, low[k], turns - (shifted - round_shift));  // |f| < 3/4
  double carry = f + round_shift;
  f -= carry - round_shift;
  uint64_t quadrant = bit_cast<uint64_t>(shifted) + bit_cast<uint64_t>(carry);
  return {f * half_pi, static_cast<uint32_t>(quadrant)};
}
// sin of the whole angle; the polynomials have errors of 2^-28 and 2^-57.
RL_INLINE float sine_of(Angle<float> a) {
  float r = static_cast<float>(a.r), z = r * r;
  float share = polynomial(z, -1.666665524e-01f, 8.332173340e-03f, -1.951665472e-04f);
  float s = mul_add(r * z, share, r);
  float c =
      polynomial(z, 1.0f, -5.000000000e-01f, 4.166662320e-02f, -1.388675533e-03f, 2.438963566e-05f);
  float value = a.quadrant & 1 ? c : s;
  return bit_cast<float>(bit_cast<uint32_t>(value) ^ (a.quadrant & 2) << 30);
}
// sin and cos of |r| <= pi/4.
RL_INLINE double sine_of_acute(double r) {
  double z = r * r;
  double share = polynomial(z, -0.16666666666666630, 0.0083333333333218675, -0.00019841269829351616,
                            2.7557313527680095e-6, -2.5050731543254828e-8, 1.5895209584900861e-10);
  return mul_add(r * z, share, r);
}
RL_INLINE double cosine_of_acute(double r) {
  double z = r * r;
  double share = polynomial(z, 0.041666666666666595, -0.0013888888888873386, 2.4801587289001049e-5,
                            -2.7557314207717998e-7, 2.0875702931571449e-9, -1.1358561700868020e-11);
  return 1.0 + mul_add(z * z, share, -0.5 * z);
}
RL_INLINE double sine_of(Angle<double> a) {
  double s = sine_of_acute(a.r), c = cosine_of_acute(a.r);
  double value = a.quadrant & 1 ? c : s;
  return bit_cast<double>(bit_cast<uint64_t>(value) ^ (a.quadrant & 2) << 62);
}
template <class T> RL_INLINE T sine(T x, Angle<T> a) {
  T y = sine_of(a);
  return x == T(0) ? x : y;  // keeps the sign of -0
}
template <class T> RL_INLINE T cosine(Angle<T> a) { return sine_of(Angle<T>{a.r, a.quadrant + 1}); }
// -1 / t to 2^-33: a first guess by the bits, and two of Halley's steps, in half the time of a
// division of doubles.
RL_INLINE double minus_inverse(double t) {
  double y = bit_cast<double>(uint64_t(0xffde623822fc16e6) - bit_cast<uint64_t>(t));
  double e = mul_add(t, y, 1.0);
  y = mul_add(y, mul_add(e, e, e), y);
  e = mul_add(t, y, 1.0);
  return mul_add(y, mul_add(e, e, e), y);
}
RL_INLINE float tangent(double r, bool odd_quadrant) {
  double t = r * polynomial(r * r, 1.000000016352004, 0.3333307570461826, 0.13339897656740236,
                            0.053348572375044766, 0.02460288882544915, 0.002892461211522399,
                            0.009500277313195612);
  return static_cast<float>(odd_quadrant ? minus_inverse(t) : t);
}

template <class T> RL_INLINE T fast_sin(T x) { return sine(x, fast_angle(x)); }
template <class T> RL_INLINE T fast_cos(T x) { return cosine(fast_angle(x)); }
RL_INLINE float fast_tan(float x) {
  double wide = x;
  Nearest<double> n = nearest_product(wide, 2 / pi);
  return tangent(less_turns(wide, n.value), n.integer & 1);
}
// The quotient at r, and what the rounding of r lost of it.
RL_INLINE double fast_tan(double x) {
  Nearest<double> n = nearest_product(x, 2 / pi);
  double middle = n.value * half_pi_parts[1], low = n.value * half_pi_parts[2];
  double first = mul_add(-n.value, half_pi_parts[0], x), second = first - middle, r = second - low;
  double lost = ((first - second) - middle) + ((second - r) - low);
  double s = sine_of_acute(r), c = cosine_of_acute(r);
  bool odd = n.integer & 1;
  double t = (odd ? -c : s) / (odd ? s : c);
  double y = mul_add(lost, mul_add(t, t, 1.0), t);
  return x == 0.0 ? x : y;
}
template <class T> RL_INLINE typename Format<T>::Int sin_needs_slow_path(T x) {
  return magnitude(x) <= farthest_near_angle<T> ? 0 : 1;
}
template <class T> RL_INLINE auto cos_needs_slow_path(T x) { return sin_needs_slow_path(x); }
template <class T> RL_INLINE auto tan_needs_slow_path(T x) { return sin_needs_slow_path(x); }

RL_INLINE Angle<float> angle_of_any(float x) {
  Angle<float> near = fast_angle(x), far = far_angle(x);
  int32_t is_far = sin_needs_slow_path(x);
  return {is_far ? far.r : near.r, is_far ? far.quadrant : near.quadrant};
}
RL_INLINE float sin(float x) { return sine(x, angle_of_any(x)); }
RL_INLINE float cos(float x) { return cosine(angle_of_any(x)); }
RL_INLINE float tan(float x) {
  Angle<float> far = far_angle(x);
  float of_far = tangent(far.r, far.quadrant & 1);
  return tan_needs_slow_path(x) ? of_far : fast_tan(x);
}
RL_INLINE double sin(double x) { return sin_needs_slow_path(x) ? __builtin_sin(x) : fast_sin(x); }
RL_INLINE double cos(double x) { return cos_needs_slow_path(x) ? __builtin_cos(x) : fast_cos(x); }
RL_INLINE double tan(double x) { return tan_needs_slow_path(x) ? __builtin_tan(x) : fast_tan(x); }

// ---- inverses ----

// a > b, for numbers that are not negative, by their bits. Where a function asks twice, gcc would
// take the way that the first answer leaves, and work out a short polynomial on both.
template <class T> RL_INLINE bool above(T a, T b) {
  return bit_cast<typename Format<T>::Int>(a) > bit_cast<typename Format<T>::Int>(b);
}

// atan(t) for t in [0, 1]
RL_INLINE double atan_of_unit(double t) {
  return t * polynomial(t * t, 0.9999999996672075, -0.3333332471892999, 0.19999630606824406,
                        -0.14279493187677544, 0.11056675430190599, -0.08806908386690837,
                        0.06734636624664872, -0.044618578300912565, 0.0224966110189045,
                        -0.007304113574851657, 0.0011120812361198598);
}
RL_INLINE float atan(float x) {
  float a = magnitude(x), t = (a > 1.0f ? 1.0f : a) / (a > 1.0f ? a : 1.0f), z = t * t;
  float share = polynomial(z, -3.333330187e-01f, 1.999863868e-01f, -1.426524567e-01f,
                           1.095757648e-01f, -8.419457577e-02f, 5.823449616e-02f, -3.145562830e-02f,
                           1.106439401e-02f, -1.827201196e-03f);
  float p = mul_add(t * z, share, t);
  constexpr float high = static_cast<float>(half_pi), low = static_cast<float>(half_pi - high);
  return copysign(above(a, 1.0f) ? high - (p - low) : p, x);
}
RL_INLINE float atan2(float y, float x) {
  double a = magnitude(static_cast<double>(x)), b = magnitude(static_cast<double>(y));
  double low = b > a ? a : b, high = b > a ? b : a;
  double t = low == high ? (high == 0.0 ? 0.0 : 1.0) : low / high;
  double p = atan_of_unit(t);
  p = b > a ? half_pi - p : p;
  p = signbit(x) ? pi - p : p;
  float result = copysign(static_cast<float>(p), y);
  result = isnan(x) ? x : result;
  return isnan(y) ? y : result;
}

// asin(t) / t - 1 for t in [0, 1/2], given z = t^2
RL_INLINE float asin_share(float z) {
  return z * polynomial(z, 1.666665971e-01f, 7.500510663e-02f, 4.451571777e-02f, 3.181762993e-02f,
                        1.440253947e-02f, 3.756528720e-02f);
}
RL_INLINE double asin_share(double z) {
  return z * polynomial(z, 0.16666666666666763, 0.07499999999970258, 0.04464285717512345,
                        0.030381942683512922, 0.02237221566275458, 0.017351600055021694,
                        0.013980961818688582, 0.01139777350682629, 0.010786540404051451,
                        0.003683007549059966, 0.021763564784529517, -0.021077362227207012,
                        0.032676920679235534);
}
// pi/4 in two parts, of which small multiples of the first are exact.
template <class T> struct QuarterPi;
template <> struct QuarterPi<float> {
  static constexpr float high = 0x1.921fbp-1f, low = 1.5695823933e-07f;
};
template <> struct QuarterPi<double> {
  static constexpr double high = 0x1.921fb54442d18p-1, low = 3.061616997868383e-17;
};
// asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2)) brings a > 1/2 back.
template <class T> RL_INLINE T asin_of(T x) {
  T a = magnitude(x), half = T(0.5) * (T(1) - a);
  T z = a > T(0.5) ? half : a * a, t = a > T(0.5) ? sqrt(half) : a;
  T tail = t * asin_share(z), large = mul_add(T(-2), tail, T(2) * QuarterPi<T>::low);
  large = mul_add(T(-2), t, T(2) * QuarterPi<T>::high) + large;
  return copysign(above(a, T(0.5)) ? large : t + tail, x);
}
template <class T> RL_INLINE T acos_of(T x) {
  T a = magnitude(x), half = T(0.5) * (T(1) - a);
  T z = a > T(0.5) ? half : x * x, t = a > T(0.5) ? sqrt(half) : x;
  T p = mul_add(t, asin_share(z), t), of_large = T(2) * p;  // acos(|x|)
  T of_small = T(2) * QuarterPi<T>::high - (p - T(2) * QuarterPi<T>::low);
  T turned = T(4) * QuarterPi<T>::high - (of_large - T(4) * QuarterPi<T>::low);
  of_large = x < T(0) ? turned : of_large;
  return above(a, T(0.5)) ? of_large : of_small;
}
RL_INLINE float asin(float x) { return asin_of(x); }
RL_INLINE double asin(double x) { return asin_of(x); }
RL_INLINE float acos(float x) { return acos_of(x); }
RL_INLINE double acos(double x) { return acos_of(x); }

// atan(t) for |t| <= tan(pi/8)
RL_INLINE double atan_of_small(double t) {
  double z = t * t;
  double share = polynomial(z, -0.33333333333333326, 0.19999999999997692, -0.14285714285390708,
                            0.11111111088346272, -0.09090908150616417, 0.07692282896536773,
                            -0.06666228796866802, 0.05877041805509296, -0.05218533423206277,
                            0.04504075128447826, -0.033486720236117075, 0.015207633560270079);
  return mul_add(t * z, share, t);
}
inline constexpr double tan_of_eighth = 0.41421356237309504880;  // tan(pi/8)
// n pi/4 + r
RL_INLINE double with_quarters(double n, double r) {
  return mul_add(n, QuarterPi<double>::high, mul_add(n, QuarterPi<double>::low, r));
}
RL_INLINE double atan(double x) {
  double a = magnitude(x);
  bool middle = a > tan_of_eighth, large = a > 1.0 / tan_of_eighth;
  double up = middle ? a - 1.0 : a, down = middle ? a + 1.0 : 1.0;
  up = large ? -1.0 : up;
  down = large ? a : down;
  double quarters = middle ? 1.0 : 0.0;
  quarters = large ? 2.0 : quarters;
  return copysign(with_quarters(quarters, atan_of_small(up / down)), x);
}
RL_INLINE double atan2(double y, double x) {
  double a = magnitude(x), b = magnitude(y), high = a > b ? a : b;
  double shrink = high > 0x1p1000 ? 0.25 : 1.0;  // for the sum below
  a *= shrink;
  b *= shrink;
  double low = b > a ? a : b;
  high = b > a ? b : a;
  bool middle = low > tan_of_eighth * high;
  double t = (middle ? low - high : low) / (middle ? low + high : high);
  double quarters = middle ? 1.0 : 0.0;
  t = low == high ? 0.0 : t;  // both may be 0 or infinite
  quarters = low == high ? 1.0 : quarters;
  quarters = high == 0.0 ? 0.0 : quarters;
  double r = atan_of_small(t);
  quarters = b > a ? 2.0 - quarters : quarters;
  r = b > a ? -r : r;
  double turned = copysign(1.0, x) < 0.0 ? 4.0 - quarters : quarters;
  r = copysign(1.0, x) < 0.0 ? -r : r;
  double result = copysign(with_quarters(turned, r), y);
  result = isnan(x) ? x : result;
  return isnan(y) ? y : result;
}

// ---- the plane ----

RL_INLINE float hypot(float x, float y) {
  double a = x, b = y;
  float h = static_cast<float>(sqrt(mul_add(a, a, b * b)));
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
