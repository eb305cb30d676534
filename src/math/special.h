// Error functions, gamma functions and their relatives.
#pragma once
#include "math/arithmetic.h"
#include "math/bessel.h"
#include "math/exponential.h"
#include "math/trigonometric.h"

namespace rl::math {

inline constexpr double sqrt_half = 0.70710678118654752440;

// A function of double for float too.
#define RL_THROUGH_DOUBLE(name) \
  RL_INLINE float name(float x) { return static_cast<float>(name(static_cast<double>(x))); }

// ---- the error function and the normal distribution ----
RL_INLINE float erf(float x) {
  float a = magnitude(x), z = x * x;
  float small =
      x + x * polynomial(z, 1.283791661e-01f, -3.761263490e-01f, 1.128369421e-01f,
                         -2.685927041e-02f, 5.200634245e-03f, -8.137439145e-04f, 8.345230890e-05f);
  float b = a > 4.0f ? 4.0f : a;
  float log_erfc =
      polynomial(b, 1.746834896e-04f, -1.129514933e+00f, -6.333469152e-01f, -1.082800776e-01f,
                 2.511941828e-02f, -4.171059467e-03f, 4.344618355e-04f, -2.109497836e-05f);
  return a < 0.92f ? small : copysign(1.0f - exp_normal(log_erfc), x);
}
RL_INLINE double erf(double x) { return __builtin_erf(x); }
// In double, through exp(x^2) erfc(x) (1 + 2x) as a polynomial in (x - 4) / (x + 4).
RL_INLINE float erfc(float x) {
  double a = magnitude(static_cast<double>(x)), b = a > 10.5 ? 10.5 : a;
  double p = polynomial((b - 4.0) / (b + 4.0), 1.2329951186119663, -0.13962111721033738,
                        0.015379655025287068, 0.06809708292757528, -0.10103915039583976,
                        0.09373216077434576, -0.06632983287152106, 0.03717422135359429,
                        -0.01619456989600347, 0.0050041006162716475, -0.000797085643721505,
                        -0.00017365823828574848, 0.0002433269107940566, 4.467149971407365e-05);
  double y = p / (1.0 + 2.0 * b) * exp_short(-b * b);
  return static_cast<float>(x < 0.0f ? 2.0 - y : y);
}
RL_INLINE double erfc(double x) { return __builtin_erfc(x); }

// exp(x^2) erfc(x): from 2 on by the continued fraction 1 / (x + (1/2) / (x + (2/2) / (x + ...))).
RL_INLINE double erfcx(double x) {
  double a = magnitude(x), result;
  if (a < 2) {
    result = exp(a * a) * erfc(a);
  } else {
    double tail = 0;
    for (int n = 60; n > 0; --n) tail = 0.5 * n / (a + tail);
    result = 0.56418958354775628695 / (a + tail);
  }
  return x < 0 ? 2 * exp(x * x) - result : isnan(x) ? x : result;
}
RL_THROUGH_DOUBLE(erfcx)

RL_INLINE double ndtr(double x) { return 0.5 * erfc(-x * sqrt_half); }
RL_THROUGH_DOUBLE(ndtr)
RL_INLINE double log_ndtr(double x) {
  if (x < -1) return log(0.5 * erfcx(-x * sqrt_half)) - 0.5 * x * x;
  return log1p(-0.5 * erfc(x * sqrt_half));
}
RL_THROUGH_DOUBLE(log_ndtr)

// The normal quantile of p = 1/2 + centre, given the smaller tail min(p, 1 - p): Wichura's
// algorithm AS 241 (PPND16), relative error about 1e-16.
RL_INLINE double normal_quantile(double centre, double tail) {
  if (magnitude(centre) <= 0.425) {
    double r = 0.180625 - centre * centre;
    return centre *
           polynomial(r, 3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
                      1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
                      3.3430575583588128105e4, 2.5090809287301226727e3) /
           polynomial(r, 1.0, 4.2313330701600911252e1, 6.8718700749205790830e2,
                      5.3941960214247511077e3, 2.1213794301586595867e4, 3.9307895800092710610e4,
                      2.8729085735721942674e4, 5.2264952788528545610e3);
  }
  if (tail < 0) return quiet_nan<double>;
  if (tail == 0) return copysign(infinity<double>, centre);
  double r = sqrt(-log(tail)), result;
  if (r <= 5) {
    r -= 1.6;
    result =
        polynomial(r, 1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0,
                   3.64784832476320460504e0, 1.27045825245236838258e0, 2.41780725177450611770e-1,
                   2.27238449892691845833e-2, 7.74545014278341407640e-4) /
        polynomial(r, 1.0, 2.05319162663775882187e0, 1.67638483018380384940e0,
                   6.89767334985100004550e-1, 1.48103976427480074590e-1, 1.51986665636164571966e-2,
                   5.47593808499534494600e-4, 1.05075007164441684324e-9);
  } else {
    r -= 5;
    result =
        polynomial(r, 6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0,
                   2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                   2.71155556874348757815e-5, 2.01033439929228813265e-7) /
        polynomial(r, 1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1,
                   1.48753612908506148525e-2, 7.86869131145613259100e-4, 1.84631831751005468180e-5,
                   1.42151175831644588870e-7, 2.04426310338993978564e-15);
  }
  return copysign(result, centre);
}
RL_INLINE double ndtri(double p) { return normal_quantile(p - 0.5, fmin(p, 1 - p)); }
RL_THROUGH_DOUBLE(ndtri)
RL_INLINE double erfinv(double x) {
  return sqrt_half * normal_quantile(0.5 * x, 0.5 * (1 - magnitude(x)));
}
RL_THROUGH_DOUBLE(erfinv)

// ---- gamma functions ----
RL_INLINE float lgamma(float x) {
  int sign;
  return __builtin_lgammaf_r(x, &sign);
}
RL_INLINE double lgamma(double x) {
  int sign;
  return __builtin_lgamma_r(x, &sign);
}

// By recurrence up to 10, then the asymptotic series; by reflection below 0.
RL_INLINE double digamma(double x) {
  if (x == 0) return copysign(infinity<double>, -x);
  double shift = 0;
  if (x < 0) {
    if (x == trunc(x)) return quiet_nan<double>;
    shift = -pi / tan(pi * frac(x));
    x = 1 - x;
  }
  for (; x < 10; x += 1) shift -= 1 / x;
  double z = 1 / (x * x);
  double tail = z * polynomial(z, 1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132,
                               -691.0 / 32760, 1.0 / 12);
  return shift + log(x) - 0.5 / x - tail;
}
RL_THROUGH_DOUBLE(digamma)

RL_INLINE double trigamma(double x) {
  double sign = 1, shift = 0;
  if (x < 0.5) {
    double s = sin(pi * frac(x));
    shift = (pi * pi) / (s * s);
    sign = -1;
    x = 1 - x;
  }
  double sum = 0;
  for (; x < 10; x += 1) sum += 1 / (x * x);
  double z = 1 / (x * x);
  sum +=
      1 / x + 0.5 * z +
      z / x *
          polynomial(z, 1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6);
  return shift + sign * sum;
}
RL_THROUGH_DOUBLE(trigamma)

// The Hurwitz zeta function: sum over k >= 0 of (q + k)^-s, by Euler-Maclaurin from q + 10 on.
RL_INLINE double zeta(double s, double q) {
  if (s == 1) return infinity<double>;
  if (s < 1 || isnan(s) || isnan(q)) return quiet_nan<double>;
  if (q <= 0) {
    if (q == floor(q)) return infinity<double>;
    if (s != floor(s)) return quiet_nan<double>;
  }
  double sum = 0;
  for (int k = 0; k < 10 || q < 10; ++k, q += 1) {
    double term = pow(q, -s);
    sum += term;
    if (magnitude(term) < 1e-17 * magnitude(sum) && q > 0) return sum;
  }
  double power = pow(q, -s);
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
RL_INLINE float zeta(float s, float q) {
  return static_cast<float>(zeta(static_cast<double>(s), static_cast<double>(q)));
}

// The n-th derivative of digamma.
template <class T> RL_INLINE T polygamma(int64_t n, T x) {
  if (n == 0) return digamma(x);
  if (n == 1) return trigamma(x);
  double order = static_cast<double>(n);
  double value = exp(lgamma(order + 1)) * zeta(order + 1, static_cast<double>(x));
  return static_cast<T>(n % 2 ? value : -value);
}

// -x log(x), with 0 at 0 and -inf below.
template <class T> RL_INLINE T entr(T x) {
  return x > T(0) ? -x * log(x) : x == T(0) ? T(0) : isnan(x) ? x : -infinity<T>;
}
#undef RL_THROUGH_DOUBLE

}  // namespace rl::math
