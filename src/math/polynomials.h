// Orthogonal polynomials of degree n, in double: n is truncated, and negative degrees give 0.
#pragma once
#include "math/hyperbolic.h"
#include "math/trigonometric.h"

namespace rl::math {
namespace orthogonal {

// Beyond it the recurrences, whose time grows with n, give NaN.
inline constexpr double largest_degree = 1 << 24;

// p of degree n by next(k, p_k, p_(k-1)) from p_0 = 1 and p_1. What has overflowed has no sign:
// NaN.
template <class Next> RL_INLINE double recur(double n, double first, Next next) {
  if (n < 0) return 0;
  if (n < 1) return 1;
  if (isnan(n) || n > largest_degree) return quiet_nan<double>;
  double before = 1, p = first;
  int degree = static_cast<int>(n), k = 1;
  for (; k < degree && magnitude(p) < infinity<double>; ++k) {
    double after = next(k, p, before);
    before = p;
    p = after;
  }
  return k == degree ? p : quiet_nan<double>;
}

// No lambdas: those of equal name would be merged among instruction sets.
struct Chebyshev {
  double x;
  RL_INLINE double operator()(int, double p, double before) const {
    return mul_add(2 * x, p, -before);
  }
};
struct HermiteH {
  double x;
  RL_INLINE double operator()(int k, double p, double before) const {
    return 2 * mul_add(x, p, -(k * before));
  }
};
struct HermiteHe {
  double x;
  RL_INLINE double operator()(int k, double p, double before) const {
    return mul_add(x, p, -(k * before));
  }
};
struct Laguerre {
  double x;
  RL_INLINE double operator()(int k, double p, double before) const {
    return mul_add(2 * k + 1 - x, p, -(k * before)) / (k + 1);
  }
};
struct Legendre {
  double x;
  RL_INLINE double operator()(int k, double p, double before) const {
    return mul_add((2 * k + 1) * x, p, -(k * before)) / (k + 1);
  }
};
// The four kinds of Chebyshev polynomials share their recurrence, p_1 tells them apart; beyond this
// degree their closed forms are quicker, and exact enough.
inline constexpr double by_recurrence = 64;

RL_INLINE double sign_of_power(double x, double n) {  // of x^n
  return x < 0 && n - 2 * floor(n / 2) == 1 ? -1 : 1;
}
// cos(n t) with x = cos(t); cosh(n t) with x = cosh(t) outside of [-1, 1].
RL_OUTLINED double closed_t(double x, double n) {
  if (magnitude(x) <= 1) return cos(n * acos(x));
  return sign_of_power(x, n) * cosh(n * acosh(magnitude(x)));
}
// sin((n + 1) t) / sin(t)
RL_OUTLINED double closed_u(double x, double n) {
  if (magnitude(x) == 1) return sign_of_power(x, n) * (n + 1);
  if (magnitude(x) < 1) return sin((n + 1) * acos(x)) / sin(acos(x));
  double t = acosh(magnitude(x));
  return sign_of_power(x, n) * sinh((n + 1) * t) / sinh(t);
}
// cos((n + 1/2) t) / cos(t / 2)
RL_OUTLINED double closed_v(double x, double n) {
  if (magnitude(x) == 1) return x > 0 ? 1 : sign_of_power(x, n) * (2 * n + 1);
  if (magnitude(x) < 1) return cos((n + 0.5) * acos(x)) / cos(0.5 * acos(x));
  double t = acosh(magnitude(x));
  if (x > 0) return cosh((n + 0.5) * t) / cosh(0.5 * t);
  return sign_of_power(x, n) * sinh((n + 0.5) * t) / sinh(0.5 * t);
}
}  // namespace orthogonal

RL_INLINE double chebyshev_polynomial_t(double x, double n) {
  using namespace orthogonal;
  n = trunc(n);
  return n > by_recurrence ? closed_t(x, n) : recur(n, x, Chebyshev{x});
}
RL_INLINE double chebyshev_polynomial_u(double x, double n) {
  using namespace orthogonal;
  n = trunc(n);
  return n > by_recurrence ? closed_u(x, n) : recur(n, 2 * x, Chebyshev{x});
}
RL_INLINE double chebyshev_polynomial_v(double x, double n) {
  using namespace orthogonal;
  n = trunc(n);
  return n > by_recurrence ? closed_v(x, n) : recur(n, 2 * x - 1, Chebyshev{x});
}
// sin((n + 1/2) t) / sin(t / 2), the mirror image of V
RL_INLINE double chebyshev_polynomial_w(double x, double n) {
  return orthogonal::sign_of_power(-1, trunc(n)) * chebyshev_polynomial_v(-x, n);
}
RL_INLINE double shifted_chebyshev_polynomial_t(double x, double n) {
  return chebyshev_polynomial_t(2 * x - 1, n);
}
RL_INLINE double shifted_chebyshev_polynomial_u(double x, double n) {
  return chebyshev_polynomial_u(2 * x - 1, n);
}
RL_INLINE double shifted_chebyshev_polynomial_v(double x, double n) {
  return chebyshev_polynomial_v(2 * x - 1, n);
}
RL_INLINE double shifted_chebyshev_polynomial_w(double x, double n) {
  return chebyshev_polynomial_w(2 * x - 1, n);
}

RL_INLINE double hermite_polynomial_h(double x, double n) {
  return orthogonal::recur(trunc(n), 2 * x, orthogonal::HermiteH{x});
}
RL_INLINE double hermite_polynomial_he(double x, double n) {
  return orthogonal::recur(trunc(n), x, orthogonal::HermiteHe{x});
}
RL_INLINE double laguerre_polynomial_l(double x, double n) {
  return orthogonal::recur(trunc(n), 1 - x, orthogonal::Laguerre{x});
}
RL_INLINE double legendre_polynomial_p(double x, double n) {
  return orthogonal::recur(trunc(n), x, orthogonal::Legendre{x});
}

#define RL_POLYNOMIAL(name)                                                          \
  RL_INLINE float name(float x, float n) {                                           \
    return static_cast<float>(name(static_cast<double>(x), static_cast<double>(n))); \
  }
RL_POLYNOMIAL(chebyshev_polynomial_t)
RL_POLYNOMIAL(chebyshev_polynomial_u)
RL_POLYNOMIAL(chebyshev_polynomial_v)
RL_POLYNOMIAL(chebyshev_polynomial_w)
RL_POLYNOMIAL(shifted_chebyshev_polynomial_t)
RL_POLYNOMIAL(shifted_chebyshev_polynomial_u)
RL_POLYNOMIAL(shifted_chebyshev_polynomial_v)
RL_POLYNOMIAL(shifted_chebyshev_polynomial_w)
RL_POLYNOMIAL(hermite_polynomial_h)
RL_POLYNOMIAL(hermite_polynomial_he)
RL_POLYNOMIAL(laguerre_polynomial_l)
RL_POLYNOMIAL(legendre_polynomial_p)
#undef RL_POLYNOMIAL

}  // namespace rl::math
