// The regularised incomplete gamma functions P(a, x) and Q(a, x) = 1 - P(a, x), in double.
//
// P by its power series below x = a + 1, Q by its continued fraction above, both times x^a exp(-x)
// / gamma(a); where a is large and x near it, which would take sqrt(a) steps, by Temme's uniform
// expansion (SIAM J. Math. Anal. 10, 1979), coefficients computed exactly.
#pragma once
#include "math/special.h"

namespace rl::math {
namespace gamma {

// u - log(1 + u), exact near 0.
RL_INLINE double minus_log1p(double u) {
  if (magnitude(u) > 0.4) return u - log1p(u);
  // With v = u / (2 + u): log(1 + u) = 2 (v + v^3 / 3 + v^5 / 5 + ...) and u - 2 v = u v.
  double v = u / (2 + u), z = v * v, sum = 0;
  for (int k = 31; k >= 3; k -= 2) sum = mul_add(sum, z, 1.0 / k);
  return u * v - 2 * v * z * sum;
}

// x^a exp(-x) / gamma(a), by Stirling's series for large a, where the powers would lose digits.
RL_OUTLINED double density(double a, double x) {
  if (a < 20) return exp(a * log(x) - x - lgamma_of_positive(a));
  double r = 1 / (a * a);
  double stirling = polynomial(r, 1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188,
                               -691.0 / 360360, 1.0 / 156) /
                    a;
  return sqrt(a * 0.15915494309189533577) * exp(-a * minus_log1p((x - a) / a) - stirling);
}

// P(a, x) / density, to about the relative error `enough`.
RL_INLINE double lower_series(double a, double x, double enough) {
  double term = 1 / a, sum = term;
  for (double k = a + 1; term > enough * sum; k += 1) {
    term *= x / k;
    sum += term;
  }
  return sum;
}

// Q(a, x) / density: 1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / (x + 5 - a - ...))), by
// the recurrence of its convergents: Lentz's method waits for a division at each step, and took 3
// times as long. Where density is not 0, x is small enough for four steps between scalings.
RL_INLINE double upper_fraction(double a, double x, double enough) {
  double b = x + 1 - a, above = 1, above_before = 0, below = b, below_before = 1, result = 1 / b;
  for (int k = 1; k < 10000;) {
    for (int last = k + 4; k < last; ++k) {
      double numerator = k * (a - k);
      b += 2;
      double next_above = mul_add(b, above, numerator * above_before),
             next_below = mul_add(b, below, numerator * below_before);
      above_before = above, above = next_above;
      below_before = below, below = next_below;
    }
    double found = above / below;
    if (magnitude(found - result) <= enough * found) return found;
    result = found;
    if (magnitude(below) > 1e100)
      above *= 1e-100, above_before *= 1e-100, below *= 1e-100, below_before *= 1e-100;
  }
  return result;
}

// What Q(a, x) adds to erfc(eta sqrt(a / 2)) / 2, over exp(-a eta^2 / 2) / sqrt(2 pi a).
RL_INLINE double temme(double a, double eta) {
  double c0 = polynomial(eta, -0.3333333333333333, 0.08333333333333333, -0.014814814814814815,
                         0.0011574074074074073, 0.0003527336860670194, -0.0001787551440329218,
                         3.919263178522438e-05, -2.185448510679992e-06, -1.85406221071516e-06,
                         8.296711340953087e-07, -1.7665952736826078e-07, 6.707853543401498e-09,
                         1.0261809784240309e-08, -4.382036018453353e-09, 9.14769958223679e-10,
                         -2.5514193994946248e-11, -5.830772132550426e-11, 2.4361948020667415e-11);
  double c1 = polynomial(eta, -0.001851851851851852, -0.003472222222222222, 0.0026455026455026454,
                         -0.0009902263374485596, 0.00020576131687242798, -4.018775720164609e-07,
                         -1.8098550334489977e-05, 7.64916091608111e-06, -1.6120900894563446e-06,
                         4.647127802807434e-09, 1.378633446915721e-07, -5.752545603517705e-08,
                         1.1951628599778148e-08);
  double c2 = polynomial(eta, 0.004133597883597883, -0.0026813271604938273, 0.0007716049382716049,
                         2.0093878600823047e-06, -0.0001073665322636516, 5.2923448829120125e-05,
                         -1.2760635188618728e-05, 3.423578734096138e-08, 1.3721957309062934e-06);
  double c3 = polynomial(eta, 0.0006494341563786008, 0.00022947209362139917, -0.0004691894943952557,
                         0.00026772063206283885, -7.561801671883977e-05, -2.396505113867297e-07);
  double c4 = polynomial(eta, -0.0008618882909167117, 0.0007840392217200666, -0.0002990724803031902,
                         -1.4638452578843418e-06);
  return polynomial(1 / a, c0, c1, c2, c3, c4);
}

// P (lower) or Q. `enough` ends the sums: for a float they take two thirds of a double's time.
RL_OUTLINED double incomplete(double a, double x, bool lower, double enough) {
  if (!(a >= 0) || !(x >= 0)) return quiet_nan<double>;
  bool none = a == 0 ? x > 0 : isinf(x) && !isinf(a);  // is Q 0?
  bool all = a > 0 && (x == 0 || (isinf(a) && !isinf(x)));
  if (none || all) return none == lower ? 1 : 0;
  if (a == 0 || isinf(a)) return quiet_nan<double>;
  if (a >= 1000) {
    double u = (x - a) / a, half_square = minus_log1p(u), exponent = a * half_square;
    if (exponent > 800) return (u > 0) == lower ? 1 : 0;
    double eta = copysign(sqrt(2 * half_square), u);
    if (magnitude(eta) < 0.4) {
      double correction = exp(-exponent) * temme(a, eta) * 0.39894228040143267794 / sqrt(a);
      double tail = 0.5 * erfc((lower ? -eta : eta) * sqrt(0.5 * a));
      return lower ? tail - correction : tail + correction;
    }
  }
  if (x < a + 1) {
    double p = density(a, x) * lower_series(a, x, enough);
    return lower ? p : 1 - p;
  }
  double weight = density(a, x), q = weight == 0 ? 0 : weight * upper_fraction(a, x, enough);
  return lower ? 1 - q : q;
}
}  // namespace gamma

RL_INLINE double igamma(double a, double x) { return gamma::incomplete(a, x, true, 1e-17); }
RL_INLINE double igammac(double a, double x) { return gamma::incomplete(a, x, false, 1e-16); }
RL_INLINE float igamma(float a, float x) {
  return static_cast<float>(gamma::incomplete(a, x, true, 1e-10));
}
RL_INLINE float igammac(float a, float x) {
  return static_cast<float>(gamma::incomplete(a, x, false, 1e-10));
}

// The derivative of P by x, x^(a - 1) exp(-x) / gamma(a).
RL_INLINE double igamma_slope(double a, double x) {
  return x > 0   ? gamma::density(a, x) / x
         : x < 0 ? quiet_nan<double>
         : a < 1 ? infinity<double>
         : a > 1 ? 0
                 : 1;
}
RL_INLINE float igamma_slope(float a, float x) {
  return static_cast<float>(igamma_slope(static_cast<double>(a), static_cast<double>(x)));
}

}  // namespace rl::math
