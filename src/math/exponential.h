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
  return bit_cast<T>((static_cast<UInt<T>>(n) + Format<T>::bias) << Format<T>::mantissa);
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
template <class T> RL_INLINE Nearest<T> nearest_from(T shifted) {
  UInt<T> steps = bit_cast<UInt<T>>(shifted) - bit_cast<UInt<T>>(Format<T>::round_shift);
  return {shifted - Format<T>::round_shift, static_cast<typename Format<T>::Int>(steps)};
}
template <class T> RL_INLINE Nearest<T> nearest(T x) {
  return nearest_from(x + Format<T>::round_shift);
}
template <class T> RL_INLINE Nearest<T> nearest_product(T x, T y) {
  return nearest_from(mul_add(x, y, Format<T>::round_shift));
}

// x = n ln2 + r + lost, |r| <= ln2 / 2, `lost` what rounding took from r.
template <class T> struct ExpParts {
  T r, lost;
  typename Format<T>::Int n;
};
template <class T> RL_INLINE ExpParts<T> exp_parts(T x) {
  Nearest<T> n = nearest_product(x, log2_e<T>);
  T high = mul_add(-n.value, Format<T>::ln2_high, x);
  T r = mul_add(-n.value, Format<T>::ln2_low, high);
  return {r, mul_add(-n.value, Format<T>::ln2_low, high - r), n.integer};
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
template <class T> RL_INLINE T exp_of_rest(T r) { return T(1) + mul_add(r * r, exp_tail(r), r); }

// Between these bounds lies every x for which exp(x) is neither 0 nor infinite.
template <class T> inline constexpr T least_exponent = sizeof(T) == 4 ? T(-105) : T(-746);
template <class T> inline constexpr T largest_exponent = sizeof(T) == 4 ? T(89) : T(710);
// exp(x) 2^n, without overflow in between; x lies between those bounds.
template <class T> RL_INLINE T exp_scaled(T x, int n) {
  ExpParts<T> e = exp_parts(x);
  return scale(exp_of_rest(e.r), e.n + n);
}
// exp(x) where it is a normal number: |x| <= 87 for float, 708 for double.
template <class T> RL_INLINE T exp_normal(T x) {
  ExpParts<T> e = exp_parts(x);
  return exp_of_rest(e.r) * power_of_two<T>(e.n);
}
// exp(x) + y, with such an exp(x)
template <class T> RL_INLINE T exp_normal_plus(T x, T y) {
  ExpParts<T> e = exp_parts(x);
  return mul_add(exp_of_rest(e.r), power_of_two<T>(e.n), y);
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
  return (1.0 + mul_add(e.r * e.r, tail, e.r)) * power_of_two<double>(e.n);
}
// The bounds are looked at last: from x to the result is a long way, of which a processor has few
// at a time under way.
template <class T> RL_INLINE T exp_of(T x) {
  T result = exp_scaled(x, 0);
  result = x < least_exponent<T> ? T(0) : result;
  return x > largest_exponent<T> ? infinity<T> : result;
}
RL_INLINE float exp(float x) { return exp_of(x); }
RL_INLINE double exp(double x) { return exp_of(x); }
// exp(x) for x <= 0.
template <class T> RL_INLINE T exp_of_negative(T x) {
  return exp_scaled(x < least_exponent<T> ? least_exponent<T> : x, 0);
}
template <class T> RL_INLINE T fast_exp(T x) { return exp_normal(x); }
template <class T> RL_INLINE typename Format<T>::Int exp_needs_slow_path(T x) {
  return magnitude(x) <= (sizeof(T) == 4 ? T(87) : T(708)) ? 0 : 1;
}

// 2^r for |r| <= 1/2
RL_INLINE float exp2_of_half(float r) {
  return polynomial(r, 1.0f, 6.931471825e-01f, 2.402264774e-01f, 5.550331995e-02f, 9.618439712e-03f,
                    1.339913229e-03f, 1.535315532e-04f);
}
RL_INLINE double exp2_of_half(double r) { return exp_of_rest(r * ln2<double>); }
template <class T> RL_INLINE T exp2_of(T x) {
  constexpr T least = sizeof(T) == 4 ? T(-151) : T(-1076),
              largest = sizeof(T) == 4 ? T(129) : T(1025);
  Nearest<T> n = nearest(x);
  T result = scale(exp2_of_half(x - n.value), n.integer);
  result = x < least ? T(0) : result;
  return x > largest ? infinity<T> : result;
}
RL_INLINE float exp2(float x) { return exp2_of(x); }
RL_INLINE double exp2(double x) { return exp2_of(x); }
// 2^x where it is a normal number
template <class T> RL_INLINE T exp2_normal(T x) {
  Nearest<T> n = nearest(x);
  return exp2_of_half(x - n.value) * power_of_two<T>(n.integer);
}

// The same of a number: what becomes of NaN is anything. n is added to the exponent's bits.
RL_INLINE float exp2_of_number(float x) {
  float shifted = x + Format<float>::round_shift;
  float power = exp2_of_half(x - (shifted - Format<float>::round_shift));
  return bit_cast<float>(bit_cast<uint32_t>(power) +
                         (bit_cast<uint32_t>(shifted) << Format<float>::mantissa));
}

// y - 2^x, with such a 2^x
template <class T> RL_INLINE T less_exp2_normal(T y, T x) {
  Nearest<T> n = nearest(x);
  return mul_add(-exp2_of_half(x - n.value), power_of_two<T>(n.integer), y);
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
  ExpParts<T> e = exp_parts(x < low ? low : x);
  T q = e.r + mul_add(e.r * e.r, expm1_tail(e.r), e.lost);
  T one_less = T(1) - power_of_two<T>(-(e.n > negligible ? negligible : e.n));
  T result = magnitude(x) < tiny ? x : scale(q + one_less, e.n);
  return x > largest_exponent<T> ? infinity<T> : result;
}
RL_INLINE float expm1(float x) { return expm1_of(x); }
RL_INLINE double expm1(double x) { return expm1_of(x); }

// ---- logarithms ----

// x = 2^k (1 + f), 1 + f in [sqrt(1/2), sqrt(2)).
template <class T> struct LogParts {
  T k, f;
};
// For normal x, from which the k that is found is shifted.
template <class T> RL_INLINE LogParts<T> log_parts(T x, T shift) {
  if constexpr (sizeof(T) == 4) {
    uint32_t bits = bit_cast<uint32_t>(x), above = bits - bit_cast<uint32_t>(0.70710678f);
    T m = bit_cast<T>(bits - (above & 0xff800000u));
    return {static_cast<T>(static_cast<int32_t>(above) >> 23) - shift, m - T(1)};
  }
  constexpr int mantissa = Format<T>::mantissa, offset = 2 * Format<T>::bias;  // k + offset > 0
  constexpr T up = T(UInt<T>(1) << mantissa);
  using U = UInt<T>;
  constexpr U bias = U(offset) << mantissa;
  U bits = bit_cast<U>(x);
  U k = (bits - bit_cast<U>(T(0.70710678118654752440)) + bias) >> mantissa;
  T m = bit_cast<T>(bits - (k << mantissa) + bias);
  T exponent = bit_cast<T>(k | bit_cast<U>(up)) - up;  // k as a float
  return {exponent - (T(offset) + shift), m - T(1)};
}
// For positive finite x, subnormal ones too.
template <class T> RL_INLINE LogParts<T> log_parts(T x) {
  constexpr T smallest = std::numeric_limits<T>::min(),
              scale = T(UInt<T>(1) << Format<T>::mantissa);
  return log_parts(x < smallest ? x * scale : x, x < smallest ? T(Format<T>::mantissa) : T(0));
}
// k ln2 + log(1 + f) + correction
RL_INLINE float log_of_parts(float k, float f, float correction) {
  float z = f * f;
  float y = polynomial(f, 3.333333135e-01f, -2.500081956e-01f, 2.000122815e-01f, -1.662335843e-01f,
                       1.420173794e-01f, -1.316015273e-01f, 1.276169568e-01f, -7.634708285e-02f);
  y = mul_add(y * f, z, mul_add(k, Format<float>::ln2_low, correction));
  return mul_add(k, Format<float>::ln2_high, f + mul_add(-0.5f, z, y));
}
// With s = f / (2 + f): log(1 + f) = log((1 + s) / (1 - s)) = f - s (f - s^2 R(s^2)).
RL_INLINE double log_of_parts(double k, double f, double correction) {
  double s = f / (2.0 + f), z = s * s;
  double r = polynomial(z, 0.6666666666666735, 0.3999999999940749, 0.28571428744141064,
                        0.22222198378499675, 0.18183575164803387, 0.15313755767147041,
                        0.14799066112663198);
  double low = mul_add(k, Format<double>::ln2_low, correction);
  return mul_add(k, Format<double>::ln2_high, f - mul_add(s, mul_add(-z, r, f), -low));
}
// A logarithm where it is not the computed number: NaN below 0, -inf at 0, x for inf and NaN.
template <class T> RL_INLINE T log_result(T x, T computed) {
  T y = x < infinity<T> ? computed : x;
  y = x == T(0) ? -infinity<T> : y;
  return x < T(0) ? quiet_nan<T> : y;
}

template <class T> RL_INLINE T log_of(LogParts<T> p) { return log_of_parts(p.k, p.f, T(0)); }
template <class T> RL_INLINE T log2_of(LogParts<T> p) {
  return mul_add(log_of_parts(T(0), p.f, T(0)), log2_e<T>, p.k);
}
template <class T> RL_INLINE T log10_of(LogParts<T> p) {  // log10(2) in two parts: k high is exact
  constexpr T high = sizeof(T) == 4 ? T(0x1.344p-2) : T(0x1.34413509fp-2);
  constexpr T low = T(0.30102999566398119521L - static_cast<long double>(high));
  T rest = mul_add(log_of_parts(T(0), p.f, T(0)), T(0.43429448190325182765), p.k * low);
  return mul_add(p.k, high, rest);
}
// The normal numbers above 0 are near.
template <class T> RL_INLINE typename Format<T>::Int log_needs_slow_path(T x) {
  typename Format<T>::Int far = x >= std::numeric_limits<T>::min() ? 0 : 1;
  return far | (x < infinity<T> ? 0 : 1);
}
#define RL_LOG(name)                                                               \
  RL_INLINE float name(float x) { return log_result(x, name##_of(log_parts(x))); } \
  RL_INLINE double name(double x) { return log_result(x, name##_of(log_parts(x))); }
RL_LOG(log)
RL_LOG(log2)
RL_LOG(log10)
#undef RL_LOG
template <class T> RL_INLINE T fast_log(T x) { return log_of(log_parts(x, T(0))); }
template <class T> RL_INLINE T fast_log2(T x) { return log2_of(log_parts(x, T(0))); }
template <class T> RL_INLINE auto log2_needs_slow_path(T x) { return log_needs_slow_path(x); }

// Takes log(1 + x) and adds what rounding lost of 1 + x.
template <class T> RL_INLINE T log1p_of(T x) {
  constexpr T tiny = sizeof(T) == 4 ? T(0x1p-25) : T(0x1p-54);
  T u = T(1) + x;
  T lost = (u < T(2) ? x - (u - T(1)) : T(1) - (u - x)) / u;
  LogParts<T> p = log_parts(u);
  T y = log_result(u, log_of_parts(p.k, p.f, lost));
  return magnitude(x) < tiny ? x : y;
}
RL_INLINE float log1p(float x) { return log1p_of(x); }
RL_INLINE double log1p(double x) { return log1p_of(x); }

// exp(-share x^2) for x >= 0, `share` 1 or 1/2: the square in two parts, as its rounding would cost
// x^2 units. `x` is at most what makes the result 0.
template <class T> RL_INLINE ExpParts<T> exp_parts_of_square(T x, T share) {
  constexpr UInt<T> upper = ~UInt<T>(0) << (Format<T>::mantissa / 2 + 1);
  T head = bit_cast<T>(bit_cast<UInt<T>>(x) & upper);
  T high = head * head * share, low = (x - head) * (x + head) * share;
  Nearest<T> n = nearest_product(high + low, -log2_e<T>);
  T r = mul_add(-n.value, Format<T>::ln2_high, -high) - mul_add(n.value, Format<T>::ln2_low, low);
  return {r, T(0), n.integer};
}
template <class T> RL_INLINE T exp_of_square(T x, T share) {
  ExpParts<T> e = exp_parts_of_square(x, share);
  return scale(exp_of_rest(e.r), e.n);
}
// Where that is a normal number: x^2 share <= 87 for float, 708 for double.
template <class T> RL_INLINE T exp_of_square_normal(T x, T share) {
  ExpParts<T> e = exp_parts_of_square(x, share);
  return exp_of_rest(e.r) * power_of_two<T>(e.n);
}

// ---- powers ----

// IEEE's special cases, given |x|^y.
template <class T> RL_INLINE T power_result(T x, T y, T result) {
  // A negative base: the sign of its odd powers, and no fractional powers.
  T whole = round(y), parity = mul_add(T(-2), round(T(0.5) * y), y);  // 0 or +-1
  T signed_power = copysign(result, x);
  T of_negative = magnitude(parity) == T(1) ? signed_power : result;
  T fractional = x < T(0) ? quiet_nan<T> : result;
  fractional = x == -infinity<T> ? result : fractional;
  result = whole == y ? of_negative : fractional;
  T of_minus_one = magnitude(y) == infinity<T> ? T(1) : result;
  result = x == T(-1) ? of_minus_one : result;
  result = x == T(1) ? T(1) : result;
  return y == T(0) ? T(1) : result;
}
// log2(x) and 2^x in double with errors of 2^-36 and 2^-29 only, for results that are rounded to
// float: x is a float above 0, or lies in the normal range.
RL_INLINE double log2_short(double x) {
  LogParts<double> p = log_parts(x, 0.0);
  double s = p.f / (2.0 + p.f);
  return mul_add(s,
                 polynomial(s * s, 2.8853900817901446, 0.9617966732758888, 0.577083596132475,
                            0.41167211322543007, 0.34074037776149374),
                 p.k);
}
RL_INLINE double exp2_short(double x) {
  Nearest<double> n = nearest(x);
  return polynomial(x - n.value, 0.9999999999189373, 0.693147206741074, 0.24022651506027504,
                    0.05550327148731356, 0.009617994406314907, 0.0013400458476145274,
                    0.00015478052135131962) *
         power_of_two<double>(n.integer);
}
// In double, where y log2|x| is exact enough for every float.
RL_INLINE float pow(float x, float y) {
  constexpr double end = 160.0;  // beyond both, a float is 0 or infinite
  double a = static_cast<double>(magnitude(x)), log = log2_short(a);
  log = a < infinity<double> ? log : a;
  log = a == 0.0 ? -infinity<double> : log;
  double z = static_cast<double>(y) * log;
  z = z > end ? end : z;
  z = z < -end ? -end : z;
  return power_result(x, y, static_cast<float>(exp2_short(z)));
}

// A number in two parts, the first of 26 bits: products of such parts are exact.
struct TwoParts {
  double high, low;
};
RL_INLINE double upper_half(double x) {
  return bit_cast<double>(bit_cast<uint64_t>(x) & (~uint64_t(0) << 27));
}
// log2(x) to 2^-65, relative, for positive finite x: log(1 + f) = 2/3 s (3 + s^2 + r) with
// s = f / (2 + f), each factor in two parts.
RL_INLINE TwoParts log2_in_parts(double x) {
  LogParts<double> p = log_parts(x);
  double f = p.f, d = 2.0 + f, s = f / d;
  double d_high = upper_half(d), d_low = f - (d_high - 2.0), s_high = upper_half(s);
  double s_low = mul_add(-s_high, d_low, mul_add(-s_high, d_high, f)) / d;
  double z = s * s, square = s_high * s_high;
  double r =
      z * z *
      polynomial(z, 0.6, 0.42857142857144054, 0.3333333333248233, 0.27272727503395156,
                 0.23076892414063613, 0.2000220852195873, 0.17559317900750102, 0.17585123366702926);
  r = mul_add(s_low, s_high + s, r);
  double t_high = upper_half(3.0 + square + r), t_low = r - ((t_high - 3.0) - square);
  double u = s_high * t_high, v = mul_add(s_low, t_high, t_low * s);
  double p_high = upper_half(u + v), p_low = v - (p_high - u);
  constexpr double c_high = 0x1.ec709dp-1;  // 2 / (3 ln 2)
  constexpr double c_low = static_cast<double>(0.96179669392597560491L - c_high);
  double z_high = c_high * p_high, z_low = mul_add(c_low, p_high, p_low * (c_high + c_low));
  double high = upper_half(z_high + z_low + p.k);
  return {high, z_low - ((high - p.k) - z_high)};
}
RL_INLINE double pow(double x, double y) {
  double a = magnitude(x);
  TwoParts log = log2_in_parts(a);
  constexpr double enough = 0x1p66;  // for every base but 1
  double b = y > enough ? enough : y;
  b = b < -enough ? -enough : b;
  double b_high = upper_half(b);
  double high = b_high * log.high, low = mul_add(b - b_high, log.high, b * log.low), z = high + low;
  bool far = magnitude(z) > 1100.0;
  low = far ? 0.0 : low;
  high = far ? copysign(1100.0, z) : high;
  Nearest<double> n = nearest(high + low);
  double r = ((high - n.value) + low) * ln2<double>;
  double power = scale(exp_of_rest(r), n.integer);
  double of_zero = y < 0.0 ? infinity<double> : 0.0;
  double of_infinity = y < 0.0 ? 0.0 : infinity<double>;
  power = a == 0.0 ? of_zero : power;
  power = a == infinity<double> ? of_infinity : power;
  power = isnan(x) ? x : power;
  power = isnan(y) ? y : power;
  return power_result(x, y, power);
}
template <class T, std::enable_if_t<std::is_integral_v<T>, int> = 0> RL_INLINE T pow(T x, T y) {
  return integer_pow(x, y);
}

// ---- the logistic function and its relatives ----

// From e = exp(-|x|). The numerator, e below 0 and else 1, is chosen by the sign's bit: from a
// comparison gcc makes two branches, and divides in both. What rounding took from 1 + e is small
// enough for a line to stand for the reciprocal.
template <class T> RL_INLINE T sigmoid_from(T x, T e) {
  using Int = typename Format<T>::Int;
  Int negative = bit_cast<Int>(x) >> (8 * sizeof(T) - 1), one = bit_cast<Int>(T(1));
  T upper = bit_cast<T>(one ^ ((bit_cast<Int>(e) ^ one) & negative));
  T d = T(1) + e, lost = e - (d - T(1)), share = lost * mul_add(T(-0.486), d, T(1.457));
  T s = upper / d;
  return mul_add(-s, share, s);
}
template <class T> RL_INLINE T sigmoid(T x) {
  return sigmoid_from(x, exp_of_negative(-magnitude(x)));
}
template <class T> RL_INLINE T fast_sigmoid(T x) {
  return sigmoid_from(x, exp_normal(-magnitude(x)));
}
template <class T> RL_INLINE auto sigmoid_needs_slow_path(T x) { return exp_needs_slow_path(x); }
// log(1 + exp(x)), exact for large |x|.
template <class T> RL_INLINE T log1pexp(T x) {
  return fmax(x, T(0)) + log1p(exp_of_negative(-magnitude(x)));
}
template <class T> RL_INLINE T log_sigmoid(T x) {
  return fmin(x, T(0)) - log1p(exp_of_negative(-magnitude(x)));
}
template <class T> RL_INLINE T logit(T x) { return log(x / (T(1) - x)); }

template <class T> RL_INLINE T logaddexp(T a, T b) {
  T high = maximum(a, b);
  T sum = high + log1p(exp_of_negative(-magnitude(a - b)));
  return a == b ? a + ln2<T> : sum;  // also where both are the same infinity
}
template <class T> RL_INLINE T logaddexp2(T a, T b) {
  T high = maximum(a, b);
  T sum = mul_add(log2_e<T>, log1p(exp2(-magnitude(a - b))), high);
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
