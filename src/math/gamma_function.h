// The gamma function's logarithm, its derivatives, and the zeta function, in double.
//
// lgamma, digamma and trigamma are branch-free; lgamma and digamma are near where x > 0, and by
// reflection elsewhere.
#pragma once
#include "math/exponential.h"
#include "math/trigonometric.h"

namespace rl::math {

#define RL_THROUGH_DOUBLE(name) \
  RL_INLINE float name(float x) { return static_cast<float>(name(static_cast<double>(x))); }

// lgamma(x) for x >= 0: t R(t) at 2 + t for |t| <= 1/2, by recurrence up to 8.5, then Stirling's
// series. The two zeros are exact that way.
RL_INLINE double lgamma_of_positive(double x) {
  double y = x, product = 1.0;
  for (int k = 0; k < 6; ++k) {
    double less = y - 1.0, longer = product * less;
    product = y > 2.5 ? longer : product;
    y = y > 2.5 ? less : y;
  }
  double t = x < 1.5 ? x - 1.0 : y - 2.0;
  t = x < 0.5 ? x : t;
  double divisor = x < 0.5 ? x * (x + 1.0) : x;
  double argument = x < 1.5 ? divisor : product;
  argument = x > 8.5 ? x : argument;
  double core =
      t * polynomial(t, 0.42278433509846713, 0.32246703342411326, -0.06735230105319831,
                     0.02058080842778057, -0.0073855510286497195, 0.0028905103310236644,
                     -0.0011927539127579454, 0.0005096695156779519, -0.00022315473517576124,
                     9.945767000786267e-05, -4.49265310033762e-05, 2.0505617599086894e-05,
                     -9.437237655937786e-06, 4.384588806948848e-06, -2.0497504716027807e-06,
                     9.203169473088635e-07, -4.200516085879293e-07, 2.78492238062839e-07,
                     -1.4328723248356947e-07);
  double log_argument = log(argument), inverse = 1.0 / x;
  double up = core + log_argument, down = core - log_argument;
  double small = x < 1.5 ? down : up;
  double tail =
      inverse * polynomial(inverse * inverse, 0.08333333333333333, -0.002777777777774099,
                           0.0007936507898347617, -0.0005952366069330176, 0.0008414728477961988,
                           -0.0018905399047096563, 0.0050692485778123025);
  double large = mul_add(x - 0.5, log_argument - 1.0, 0.41893853320467274178 + tail);
  return x > 8.5 ? large : small;
}
// From it come |sin(pi x)| and tan(pi x).
RL_INLINE double distance_to_integer(double x) { return x - round(x); }

RL_INLINE double fast_lgamma(double x) { return lgamma_of_positive(x); }
RL_INLINE int64_t lgamma_needs_slow_path(double x) { return x > 0.0 ? 0 : 1; }
RL_INLINE double lgamma(double x) {
  double a = magnitude(x), of_positive = lgamma_of_positive(a);
  double sine = magnitude(fast_sin(pi * distance_to_integer(a)));
  double reflected = log(pi / (a * sine)) - of_positive;
  reflected = a < 1e-20 ? of_positive : reflected;
  reflected = sine == 0.0 ? infinity<double> : reflected;  // and not inf - inf far out
  reflected = a == infinity<double> ? a : reflected;
  return x < 0.0 ? reflected : of_positive;
}
RL_INLINE float fast_lgamma(float x) { return static_cast<float>(lgamma_of_positive(x)); }
RL_INLINE int32_t lgamma_needs_slow_path(float x) { return x > 0.0f ? 0 : 1; }
RL_THROUGH_DOUBLE(lgamma)

// By recurrence up to 10, whose terms are added up as one fraction, then the asymptotic series. Not
// by mul_add: gcc does not unroll loops with calls, and then makes no vectors.
RL_INLINE double digamma_of_positive(double x) {
  double y = x, up = 0.0, down = 1.0;
  for (int k = 0; k < 10; ++k) {
    double sum = up * y + down, product = down * y, more = y + 1.0;
    up = y < 10.0 ? sum : up;
    down = y < 10.0 ? product : down;
    y = y < 10.0 ? more : y;
  }
  double inverse = 1.0 / y, z = inverse * inverse;
  double tail = z * polynomial(z, 1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132,
                               -691.0 / 32760, 1.0 / 12);
  return (mul_add(-0.5, inverse, log(y)) - tail) - up / down;
}
RL_INLINE double fast_digamma(double x) { return digamma_of_positive(x); }
RL_INLINE int64_t digamma_needs_slow_path(double x) { return x > 0.0 ? 0 : 1; }
RL_INLINE double digamma(double x) {
  double of_positive = digamma_of_positive(x > 0.0 ? x : 1.0 - x);
  double r = distance_to_integer(x);
  double reflected = of_positive - pi / fast_tan(pi * r);
  reflected = r == 0.0 ? quiet_nan<double> : reflected;
  reflected = x == 0.0 ? copysign(infinity<double>, -x) : reflected;
  return x > 0.0 ? of_positive : reflected;
}
RL_INLINE float fast_digamma(float x) { return static_cast<float>(digamma_of_positive(x)); }
RL_INLINE int32_t digamma_needs_slow_path(float x) { return x > 0.0f ? 0 : 1; }
RL_THROUGH_DOUBLE(digamma)

RL_INLINE double trigamma_of_positive(double x) {
  double y = x, up = 0.0, down = 1.0;
  for (int k = 0; k < 10; ++k) {
    double square = y * y, sum = up * square + down, product = down * square, more = y + 1.0;
    up = y < 10.0 ? sum : up;
    down = y < 10.0 ? product : down;
    y = y < 10.0 ? more : y;
  }
  double inverse = 1.0 / y, z = inverse * inverse;
  double tail =
      z * inverse *
      polynomial(z, 1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6);
  return up / down + (mul_add(0.5, z, inverse) + tail);
}
RL_INLINE double trigamma(double x) {
  double of_positive = trigamma_of_positive(x > 0.0 ? x : 1.0 - x);
  double s = fast_sin(pi * distance_to_integer(x));
  double reflected = (pi * pi) / (s * s) - of_positive;
  return x > 0.0 ? of_positive : reflected;
}
RL_THROUGH_DOUBLE(trigamma)

// One by one the C library's pow is quicker than ours.
RL_INLINE double c_pow(double x, double y) { return __builtin_pow(x, y); }

// The sum over k >= 0 of (q + k)^-s, s > 1, by Euler-Maclaurin from q + 10 on.
RL_OUTLINED double zeta_by_steps(double s, double q) {
  double sum = 0;
  for (int k = 0; k < 10 || q < 10; ++k, q += 1) {
    double term = c_pow(q, -s);
    sum += term;
    if (magnitude(term) < 1e-17 * magnitude(sum) && q > 0) return sum;
  }
  double power = c_pow(q, -s);
  sum += power * q / (s - 1) + 0.5 * power;
  // B2k / (2k)!
  constexpr double bernoulli[] = {1.0 / 12,
                                  -1.0 / 720,
                                  1.0 / 30240,
                                  -1.0 / 1209600,
                                  1.0 / 47900160,
                                  -5.284190138687493e-10,
                                  1.3382536530684679e-11,
                                  -3.389680296322583e-13,
                                  8.586062056277845e-15};
  double rising = s;
  for (int k = 0; k < 9; ++k) {
    power /= q;
    sum += bernoulli[k] * rising * power;
    rising *= (s + 2 * k + 1) * (s + 2 * k + 2);
    power /= q;
  }
  return sum;
}
// The Hurwitz zeta function.
RL_OUTLINED double zeta(double s, double q) {
  if (s == 1) return infinity<double>;
  if (s < 1 || isnan(s) || isnan(q)) return quiet_nan<double>;
  if (q == infinity<double>) return 0.0;
  if (q <= 0) {
    if (q == floor(q)) return infinity<double>;
    if (s != floor(s)) return quiet_nan<double>;
  }
  if (q > -100) return zeta_by_steps(s, q);
  // From q to below 0 the terms are those of two sums over positive numbers, but for their sign.
  double part = q - floor(q), sign = s * 0.5 == floor(s * 0.5) ? 1.0 : -1.0;
  double sums[3], from[] = {part, 1.0 - part, 1.0 - q};
  for (int k = 0; k < 3; ++k) sums[k] = zeta_by_steps(s, from[k]);
  return sums[0] + sign * (sums[1] - sums[2]);
}
RL_INLINE float zeta(float s, float q) {
  return static_cast<float>(zeta(static_cast<double>(s), static_cast<double>(q)));
}

// The n-th derivative of digamma, n > 0.
RL_OUTLINED double polygamma_of_order(int64_t n, double x) {
  double factorial = 1;
  for (int64_t k = 2; k <= n && factorial < infinity<double>; ++k)
    factorial *= static_cast<double>(k);
  double value = factorial * zeta(static_cast<double>(n) + 1, x);
  return n % 2 ? value : -value;
}
template <class T> RL_INLINE T polygamma(int64_t n, T x) {
  return n == 0 ? digamma(x) : static_cast<T>(polygamma_of_order(n, static_cast<double>(x)));
}

#undef RL_THROUGH_DOUBLE
}  // namespace rl::math
