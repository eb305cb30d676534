// Exponentials, logarithms, powers and what is built from them.
//
// The polynomials are minimax fits of our own (Remez exchange, 45 digits), their errors under
// 2^-27 for float and 2^-57 for double; the largest errors measured are beside each function.
#pragma once
#include "math/arithmetic.h"

namespace rl::math {

// What the bit tricks need to know of a float type.
template <class T> struct Format;
template <> struct Format<float> {
  using Int = int32_t;
  static constexpr int mantissa = 23, bias = 127;
  static constexpr float round_shift = 0x1.8p23f;  // adding it leaves an integer in the low bits
  static constexpr float ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
};
template <> struct Format<double> {
  using Int = int64_t;
  static constexpr int mantissa = 52, bias = 1023;
  static constexpr double round_shift = 0x1.8p52;
  static constexpr double ln2_high = 6.93147180369123816490e-01;  // 33 bits: n times it is exact
  static constexpr double ln2_low = 1.90821492927058770002e-10;
};
template <class T> inline constexpr T log2_e = T(1.44269504088896340736);
template <class T> inline constexpr T ln2 = T(0.69314718055994530942);

template <class T> using UInt = std::make_unsigned_t<typename Format<T>::Int>;

template <class T> RL_INLINE T power_of_two(typename Format<T>::Int n) {  // n in the normal range
  return bit_cast<T>(static_cast<UInt<T>>(n + Format<T>::bias) << Format<T>::mantissa);
}
// x 2^n for n to twice the normal range: two steps, so that only the last rounds or overflows.
template <class T> RL_INLINE T scale(T x, typename Format<T>::Int n) {
  auto half_n = n >> 1;
  return x * power_of_two<T>(half_n) * power_of_two<T>(n - half_n);
}

// The integer nearest to x, as a number and as an Int; |x| well under 2^22.
template <class T> struct Nearest {
  T value;
  typename Format<T>::Int integer;
};
template <class T> RL_INLINE Nearest<T> nearest(T x) {
  using Int = typename Format<T>::Int;
  T shifted = x + Format<T>::round_shift;
  return {shifted - Format<T>::round_shift,
          bit_cast<Int>(shifted) - bit_cast<Int>(Format<T>::round_shift)};
}

// x = n ln2 + r + lost, |r| <= ln2 / 2, `lost` what rounding took from r.
template <class T> struct ExpParts {
  T r, lost;
  typename Format<T>::Int n;
};
template <class T> RL_INLINE ExpParts<T> exp_parts(T x) {
  Nearest<T> n = nearest(x * log2_e<T>);
  T high = x - n.value * Format<T>::ln2_high, low = n.value * Format<T>::ln2_low;
  T r = high - low;
  return {r, (high - r) - low, n.integer};
}
// exp(r) = 1 + r + r^2 exp_tail(r)
RL_INLINE float exp_tail(float r) {
  return polynomial(r, 4.999999404e-01f, 1.666651964e-01f, 4.166840017e-02f, 8.368850686e-03f,
                    1.381432055e-03f);
}
RL_INLINE double exp_tail(double r) {
  return polynomial(r, 0.5000000000000011, 0.16666666666666408, 0.0416666666665281,
                    0.008333333333496932, 0.0013888888944249092, 0.0001984126950272233,
                    2.480149238841031e-05, 2.7557588439221337e-06, 2.7630523423391015e-07,
                    2.499985233855735e-08);
}

// Between these bounds lies every x for which exp(x) is neither 0 nor infinite. A NaN stays one.
template <class T> RL_INLINE T clamp_exponent(T x) {
  constexpr T low = sizeof(T) == 4 ? T(-105) : T(-746), high = sizeof(T) == 4 ? T(89) : T(710);
  x = x < low ? low : x;
  return x > high ? high : x;
}
// exp(x) 2^n, without overflow in between; x is clamped.
template <class T> RL_INLINE T exp_scaled(T x, int n) {
  ExpParts<T> e = exp_parts(x);
  return scale(T(1) + (e.r + e.r * e.r * exp_tail(e.r)), e.n + n);
}
// exp(x) where it is a normal number: |x| <= 87 for float, 708 for double.
template <class T> RL_INLINE T exp_normal(T x) {
  ExpParts<T> e = exp_parts(x);
  return (T(1) + (e.r + e.r * e.r * exp_tail(e.r))) * power_of_two<T>(e.n);
}
// exp(x) for x <= 0, and 0 where that is no normal number: a third faster, for softmax.
template <class T> RL_INLINE T exp_below(T x) {
  return x < (sizeof(T) == 4 ? T(-87) : T(-708)) ? T(0) : exp_normal(x);
}
// exp_normal in double with an error of 2^-28 only, for results that are rounded to float.
RL_INLINE double exp_short(double x) {
  ExpParts<double> e = exp_parts(x);
  double tail = polynomial(e.r, 4.999999404e-01, 1.666651964e-01, 4.166840017e-02, 8.368850686e-03,
                           1.381432055e-03);
  return (1.0 + (e.r + e.r * e.r * tail)) * power_of_two<double>(e.n);
}
RL_INLINE float exp(float x) { return exp_scaled(clamp_exponent(x), 0); }
RL_INLINE double exp(double x) { return exp_scaled(clamp_exponent(x), 0); }

RL_INLINE float exp2(float x) {
  x = x < -151.0f ? -151.0f : x;
  x = x > 129.0f ? 129.0f : x;
  Nearest<float> n = nearest(x);
  float r = x - n.value;
  float p = polynomial(r, 6.931471825e-01f, 2.402264774e-01f, 5.550331995e-02f, 9.618439712e-03f,
                       1.339913229e-03f, 1.535315532e-04f);
  return scale(1.0f + r * p, n.integer);
}
RL_INLINE double exp2(double x) {
  x = x < -1076.0 ? -1076.0 : x;
  x = x > 1025.0 ? 1025.0 : x;
  Nearest<double> n = nearest(x);
  double r = (x - n.value) * ln2<double>;
  return scale(1.0 + (r + r * r * exp_tail(r)), n.integer);
}

// exp(r) = 1 + r + r^2 tail, the tail accurate relative to expm1(r).
RL_INLINE float expm1_tail(float r) {
  return polynomial(r, 5.000000000e-01f, 1.666666567e-01f, 4.166635871e-02f, 8.333389647e-03f,
                    1.394082326e-03f, 1.984589180e-04f);
}
RL_INLINE double expm1_tail(double r) { return exp_tail(r); }
// 2^n (expm1(r) + (1 - 2^-n))
template <class T> RL_INLINE T expm1_of(T x) {
  constexpr T low = sizeof(T) == 4 ? T(-18) : T(-40);
  constexpr T tiny = sizeof(T) == 4 ? T(0x1p-26) : T(0x1p-55);
  constexpr int negligible = 64;
  T bounded = clamp_exponent(x < low ? low : x);
  ExpParts<T> e = exp_parts(bounded);
  T q = e.r + (e.r * e.r * expm1_tail(e.r) + e.lost);
  T one_less = T(1) - power_of_two<T>(-(e.n > negligible ? negligible : e.n));
  return magnitude(x) < tiny ? x : scale(q + one_less, e.n);
}
RL_INLINE float expm1(float x) { return expm1_of(x); }
RL_INLINE double expm1(double x) { return expm1_of(x); }

// ---- logarithms ----

// x = 2^k (1 + f), 1 + f in [sqrt(1/2), sqrt(2)); for positive finite x, subnormal ones too.
template <class T> struct LogParts {
  T k, f;
};
template <class T> RL_INLINE LogParts<T> log_parts(T x) {
  constexpr int mantissa = Format<T>::mantissa, offset = 2 * Format<T>::bias;  // k + offset > 0
  constexpr T smallest = std::numeric_limits<T>::min(), up = T(UInt<T>(1) << mantissa);
  T normal = x < smallest ? x * up : x;
  T shift = x < smallest ? T(mantissa + offset) : T(offset);
  using U = UInt<T>;
  constexpr U bias = U(offset) << mantissa;
  U bits = bit_cast<U>(normal);
  U k = (bits - bit_cast<U>(T(0.70710678118654752440)) + bias) >> mantissa;
  T m = bit_cast<T>(bits - (k << mantissa) + bias);
  T exponent = bit_cast<T>(k | bit_cast<U>(up)) - up;  // k as a float
  return {exponent - shift, m - T(1)};
}
// k ln2 + log(1 + f) + correction
RL_INLINE float log_of_parts(float k, float f, float correction) {
  float z = f * f;
  float y = polynomial(f, 3.333333135e-01f, -2.500081956e-01f, 2.000122815e-01f, -1.662335843e-01f,
                       1.420173794e-01f, -1.316015273e-01f, 1.276169568e-01f, -7.634708285e-02f);
  y = y * f * z + (k * Format<float>::ln2_low + correction);
  return f + (y - 0.5f * z) + k * Format<float>::ln2_high;
}
// With s = f / (2 + f): log(1 + f) = log((1 + s) / (1 - s)) = f - s (f - R(s^2)).
RL_INLINE double log_of_parts(double k, double f, double correction) {
  double s = f / (2.0 + f), z = s * s;
  double r = z * polynomial(z, 0.6666666666666735, 0.3999999999940749, 0.28571428744141064,
                            0.22222198378499675, 0.18183575164803387, 0.15313755767147041,
                            0.14799066112663198);
  double low = k * Format<double>::ln2_low + correction;
  return k * Format<double>::ln2_high - ((s * (f - r) - low) - f);
}
// A logarithm where it is not the computed number: NaN below 0, -inf at 0, x for inf and NaN.
template <class T> RL_INLINE T log_result(T x, T computed) {
  T y = x < infinity<T> ? computed : x;
  y = x == T(0) ? -infinity<T> : y;
  return x < T(0) ? quiet_nan<T> : y;
}

template <class T> RL_INLINE T log_of(T x) {
  LogParts<T> p = log_parts(x);
  return log_result(x, log_of_parts(p.k, p.f, T(0)));
}
template <class T> RL_INLINE T log2_of(T x) {
  LogParts<T> p = log_parts(x);
  return log_result(x, p.k + log_of_parts(T(0), p.f, T(0)) * log2_e<T>);
}
template <class T> RL_INLINE T log10_of(T x) {  // log10(2) in two parts, the first times k exact
  constexpr T high = sizeof(T) == 4 ? T(0x1.344p-2) : T(0x1.34413509fp-2);
  constexpr T low = T(0.30102999566398119521L - static_cast<long double>(high));
  LogParts<T> p = log_parts(x);
  T fraction = log_of_parts(T(0), p.f, T(0)) * T(0.43429448190325182765);
  return log_result(x, p.k * high + (fraction + p.k * low));
}
// Takes log(1 + x) and adds what rounding lost of 1 + x.
template <class T> RL_INLINE T log1p_of(T x) {
  constexpr T tiny = sizeof(T) == 4 ? T(0x1p-25) : T(0x1p-54);
  T u = T(1) + x;
  T lost = (u < T(2) ? x - (u - T(1)) : T(1) - (u - x)) / u;
  LogParts<T> p = log_parts(u);
  T y = log_result(u, log_of_parts(p.k, p.f, lost));
  return magnitude(x) < tiny ? x : y;
}
#define RL_BOTH(name)                                    \
  RL_INLINE float name(float x) { return name##_of(x); } \
  RL_INLINE double name(double x) { return name##_of(x); }
RL_BOTH(log)
RL_BOTH(log2)
RL_BOTH(log10)
RL_BOTH(log1p)
#undef RL_BOTH

// ---- powers ----

// In double, where y log2|x| is exact enough for every float; then IEEE's special cases.
RL_INLINE float pow(float x, float y) {
  double power = exp2(static_cast<double>(y) * log2(static_cast<double>(magnitude(x))));
  float result = static_cast<float>(power);
  // A negative base: the sign of its odd powers, and no fractional powers.
  float whole = __builtin_rintf(y), parity = y - 2.0f * __builtin_rintf(0.5f * y);  // 0 or +-1
  float signed_power = copysign(result, x);
  float of_negative = magnitude(parity) == 1.0f ? signed_power : result;
  float fractional = x < 0.0f ? quiet_nan<float> : result;
  fractional = x == -infinity<float> ? result : fractional;
  result = whole == y ? of_negative : fractional;
  float of_minus_one = magnitude(y) == infinity<float> ? 1.0f : result;
  result = x == -1.0f ? of_minus_one : result;
  result = x == 1.0f ? 1.0f : result;
  return y == 0.0f ? 1.0f : result;
}
RL_INLINE double pow(double x, double y) { return __builtin_pow(x, y); }
template <class T, std::enable_if_t<std::is_integral_v<T>, int> = 0> RL_INLINE T pow(T x, T y) {
  return integer_pow(x, y);
}

// ---- the logistic function and its relatives ----

template <class T> RL_INLINE T sigmoid(T x) {
  T e = exp(-magnitude(x)), d = T(1) + e, lost = e - (d - T(1));  // d + lost is 1 + e exactly
  T s = (x < T(0) ? e : T(1)) / d;
  T one_over_d = x < T(0) ? T(1) - s : s;
  return s - s * (lost * one_over_d);
}
// log(1 + exp(x)), exact for large |x|.
template <class T> RL_INLINE T log1pexp(T x) { return fmax(x, T(0)) + log1p(exp(-magnitude(x))); }
template <class T> RL_INLINE T log_sigmoid(T x) {
  return fmin(x, T(0)) - log1p(exp(-magnitude(x)));
}
template <class T> RL_INLINE T logit(T x) { return log(x / (T(1) - x)); }

template <class T> RL_INLINE T logaddexp(T a, T b) {
  T high = maximum(a, b);
  T sum = high + log1p(exp(-magnitude(a - b)));
  return a == b ? a + ln2<T> : sum;  // also where both are the same infinity
}
template <class T> RL_INLINE T logaddexp2(T a, T b) {
  T high = maximum(a, b);
  T sum = high + log2_e<T> * log1p(exp2(-magnitude(a - b)));
  return a == b ? a + T(1) : sum;  // also where both are the same infinity
}
// x * log(y), 0 where x is 0 (unless y is NaN).
template <class T> RL_INLINE T xlogy(T x, T y) {
  T product = x * log(y);
  return isnan(y) ? y : x == T(0) ? T(0) : product;
}
template <class T> RL_INLINE T xlog1py(T x, T y) {
  T product = x * log1p(y);
  return isnan(y) ? y : x == T(0) ? T(0) : product;
}

}  // namespace rl::math
