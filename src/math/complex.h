// The elementary functions on complex64 and complex128.
//
// They call the C library's complex functions directly: the std:: ones are function templates,
// which src/math must not instantiate (see arithmetic.h).
#pragma once
#include "math/arithmetic.h"
#include "math/exponential.h"
#include "math/hyperbolic.h"
#include "math/trigonometric.h"

namespace rl::math {

#ifdef _LIBCPP_VERSION  // whose std::complex holds two numbers
RL_INLINE complex64 from_c(_Complex float z) { return complex64(__real__ z, __imag__ z); }
RL_INLINE complex128 from_c(_Complex double z) { return complex128(__real__ z, __imag__ z); }
#define RL_TO_C(z) __builtin_complex(z.real(), z.imag())
#else
RL_INLINE complex64 from_c(_Complex float z) { return complex64(z); }
RL_INLINE complex128 from_c(_Complex double z) { return complex128(z); }
#define RL_TO_C(z) z.__rep()
#endif

#define RL_COMPLEX(name)                                                                     \
  RL_INLINE complex64 name(complex64 z) { return from_c(__builtin_c##name##f(RL_TO_C(z))); } \
  RL_INLINE complex128 name(complex128 z) { return from_c(__builtin_c##name(RL_TO_C(z))); }
RL_COMPLEX(exp)
RL_COMPLEX(log)
RL_COMPLEX(sqrt)
RL_COMPLEX(sin)
RL_COMPLEX(cos)
RL_COMPLEX(tan)
RL_COMPLEX(asin)
RL_COMPLEX(acos)
RL_COMPLEX(atan)
RL_COMPLEX(sinh)
RL_COMPLEX(cosh)
RL_COMPLEX(tanh)
RL_COMPLEX(asinh)
RL_COMPLEX(acosh)
RL_COMPLEX(atanh)
#undef RL_COMPLEX

// x y. gcc 12 contracts std::complex's products whatever it is told, and examines them for NaNs: so
// they say themselves which of their products round.
template <class T> RL_INLINE std::complex<T> times(std::complex<T> x, std::complex<T> y) {
  return {mul_add(x.real(), y.real(), -(x.imag() * y.imag())),
          mul_add(x.real(), y.imag(), x.imag() * y.real())};
}
template <class T> RL_INLINE std::complex<T> square(std::complex<T> z) { return times(z, z); }

RL_INLINE complex64 conj(complex64 z) { return {z.real(), -z.imag()}; }
RL_INLINE complex128 conj(complex128 z) { return {z.real(), -z.imag()}; }
RL_INLINE float real(complex64 z) { return z.real(); }
RL_INLINE double real(complex128 z) { return z.real(); }
RL_INLINE float imag(complex64 z) { return z.imag(); }
RL_INLINE double imag(complex128 z) { return z.imag(); }
RL_INLINE float abs(complex64 z) { return hypot(z.real(), z.imag()); }
RL_INLINE double abs(complex128 z) { return hypot(z.real(), z.imag()); }
RL_INLINE float angle(complex64 z) { return atan2(z.imag(), z.real()); }
RL_INLINE double angle(complex128 z) { return atan2(z.imag(), z.real()); }

// z / |z|, and 0 for 0.
template <class T> RL_INLINE std::complex<T> complex_sign(std::complex<T> z) {
  T size = abs(z);
  return size == T(0) ? std::complex<T>(0, 0) : std::complex<T>(z.real() / size, z.imag() / size);
}
RL_INLINE complex64 sign(complex64 z) { return complex_sign(z); }
RL_INLINE complex128 sign(complex128 z) { return complex_sign(z); }
template <class T> RL_INLINE T sgn(T x) { return sign(x); }  // torch's name where z is complex

template <class T> RL_INLINE std::complex<T> polar(T size, T angle) {
  return {size * cos(angle), size * sin(angle)};
}

RL_INLINE complex64 pow(complex64 x, complex64 y) {
  return from_c(__builtin_cpowf(RL_TO_C(x), RL_TO_C(y)));
}
RL_INLINE complex128 pow(complex128 x, complex128 y) {
  return from_c(__builtin_cpow(RL_TO_C(x), RL_TO_C(y)));
}
#undef RL_TO_C

template <class T> RL_INLINE std::complex<T> complex_scale(std::complex<T> z, T factor) {
  return {z.real() * factor, z.imag() * factor};
}
RL_INLINE complex64 rsqrt(complex64 z) { return complex64(1) / sqrt(z); }
RL_INLINE complex128 rsqrt(complex128 z) { return complex128(1) / sqrt(z); }
RL_INLINE complex64 exp2(complex64 z) { return exp(complex_scale(z, 0.693147180559945309f)); }
RL_INLINE complex128 exp2(complex128 z) { return exp(complex_scale(z, 0.69314718055994530942)); }
RL_INLINE complex64 log2(complex64 z) { return complex_scale(log(z), 1.44269504088896341f); }
RL_INLINE complex128 log2(complex128 z) { return complex_scale(log(z), 1.44269504088896340736); }
RL_INLINE complex64 log10(complex64 z) { return complex_scale(log(z), 0.43429448190325182765f); }
RL_INLINE complex128 log10(complex128 z) { return complex_scale(log(z), 0.43429448190325182765); }

// expm1(a + bi) = expm1(a) cos b - 2 sin(b/2)^2 + i exp(a) sin b: no cancellation near 0.
template <class T> RL_INLINE std::complex<T> complex_expm1(std::complex<T> z) {
  T half_sine = sin(T(0.5) * z.imag());
  return {expm1(z.real()) * cos(z.imag()) - T(2) * half_sine * half_sine,
          exp(z.real()) * sin(z.imag())};
}
RL_INLINE complex64 expm1(complex64 z) { return complex_expm1(z); }
RL_INLINE complex128 expm1(complex128 z) { return complex_expm1(z); }

// log |1 + z| = log1p(a (2 + a) + b^2) / 2 near 0, where log(1 + z) would lose what 1 absorbs.
template <class T> RL_INLINE std::complex<T> complex_log1p(std::complex<T> z) {
  T a = z.real(), b = z.imag(), size = hypot(T(1) + a, b);
  T real = size < T(2) && size > T(0.5) ? T(0.5) * log1p(a * (T(2) + a) + b * b) : log(size);
  return {real, atan2(b, T(1) + a)};
}
RL_INLINE complex64 log1p(complex64 z) { return complex_log1p(z); }
RL_INLINE complex128 log1p(complex128 z) { return complex_log1p(z); }

template <class T> RL_INLINE std::complex<T> complex_sigmoid(std::complex<T> z) {
  return std::complex<T>(1) / (std::complex<T>(1) + exp(-z));
}
RL_INLINE complex64 sigmoid(complex64 z) { return complex_sigmoid(z); }
RL_INLINE complex128 sigmoid(complex128 z) { return complex_sigmoid(z); }

template <class T> RL_INLINE std::complex<T> complex_sinc(std::complex<T> z) {
  std::complex<T> y = complex_scale(z, T(3.14159265358979323846));
  return z == std::complex<T>(0) ? std::complex<T>(1) : sin(y) / y;
}
RL_INLINE complex64 sinc(complex64 z) { return complex_sinc(z); }
RL_INLINE complex128 sinc(complex128 z) { return complex_sinc(z); }

RL_INLINE complex64 xlogy(complex64 x, complex64 y) {
  return isnan(y) ? y : x == complex64(0) ? complex64(0) : times(x, log(y));
}
RL_INLINE complex128 xlogy(complex128 x, complex128 y) {
  return isnan(y) ? y : x == complex128(0) ? complex128(0) : times(x, log(y));
}

// log(exp(a) + exp(b)), shifted by the operand of larger real part.
template <class T>
RL_INLINE std::complex<T> complex_logaddexp(std::complex<T> a, std::complex<T> b) {
  if (isnan(a) || isnan(b)) return {quiet_nan<T>, quiet_nan<T>};
  bool swap = a.real() < b.real();
  std::complex<T> high = swap ? b : a, low = swap ? a : b;
  if (isinf(high.real()) && high.real() == low.real())
    return high.real() < T(0) ? low : log(exp(low) + exp(high));
  return high + log1p(exp(low - high));
}
RL_INLINE complex64 logaddexp(complex64 a, complex64 b) { return complex_logaddexp(a, b); }
RL_INLINE complex128 logaddexp(complex128 a, complex128 b) { return complex_logaddexp(a, b); }

template <class T>
RL_INLINE std::complex<T> nan_to_num(std::complex<T> z, std::complex<T> nan, std::complex<T> posinf,
                                     std::complex<T> neginf) {
  return {nan_to_num(z.real(), nan.real(), posinf.real(), neginf.real()),
          nan_to_num(z.imag(), nan.real(), posinf.real(), neginf.real())};
}

}  // namespace rl::math
