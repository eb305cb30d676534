// Of the standard library, what our headers use on a device: NVRTC brings none of it.
#pragma once

using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned;
using int64_t = long;
using uint64_t = unsigned long;
using size_t = unsigned long;
using uintptr_t = unsigned long;

#define __FMA__ 1
#define RL_INLINE __forceinline__
#define RL_OUTLINED __forceinline__
#define __builtin_memcpy ::memcpy
#define __builtin_fabsf ::fabsf
#define __builtin_fabs ::fabs
#define __builtin_fmaf ::fmaf
#define __builtin_fma ::fma
#define __builtin_fmodf ::fmodf
#define __builtin_fmod ::fmod
#define __builtin_sqrtf ::sqrtf
#define __builtin_sqrt ::sqrt
#define __builtin_floorf ::floorf
#define __builtin_floor ::floor
#define __builtin_ceilf ::ceilf
#define __builtin_ceil ::ceil
#define __builtin_truncf ::truncf
#define __builtin_trunc ::trunc
#define __builtin_rintf ::rintf
#define __builtin_rint ::rint
#define __builtin_copysignf ::copysignf
#define __builtin_copysign ::copysign
#define __builtin_sin ::sin
#define __builtin_cos ::cos
#define __builtin_tan ::tan
#define __builtin_pow ::pow

inline long long atomicAdd_long(long long* at, long long value) {
  return static_cast<long long>(atomicAdd(reinterpret_cast<unsigned long long*>(at),
                                          static_cast<unsigned long long>(value)));
}

namespace std {

inline void* memcpy(void* to, const void* from, size_t n) { return ::memcpy(to, from, n); }

template <class T, T v> struct integral_constant {
  static constexpr T value = v;
};
using true_type = integral_constant<bool, true>;
using false_type = integral_constant<bool, false>;
template <class A, class B> inline constexpr bool is_same_v = false;
template <class A> inline constexpr bool is_same_v<A, A> = true;
template <bool c, class A, class B> struct conditional {
  using type = A;
};
template <class A, class B> struct conditional<false, A, B> {
  using type = B;
};
template <bool c, class A, class B> using conditional_t = typename conditional<c, A, B>::type;
template <bool c, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> {
  using type = T;
};
template <bool c, class T = void> using enable_if_t = typename enable_if<c, T>::type;
template <class T> struct remove_cv {
  using type = T;
};
template <class T> struct remove_cv<const T> {
  using type = T;
};
template <class T> using remove_cv_t = typename remove_cv<T>::type;

template <class T> inline constexpr bool is_floating_point_v = false;
template <> inline constexpr bool is_floating_point_v<float> = true;
template <> inline constexpr bool is_floating_point_v<double> = true;
template <class T> inline constexpr bool is_integral_v = false;
#define RL_INTEGRAL(type, is_signed, Signed, Unsigned)            \
  template <> inline constexpr bool is_integral_v<type> = true;   \
  template <> struct signs<type> {                                \
    static constexpr bool negative = is_signed;                   \
    using signed_type = Signed;                                   \
    using unsigned_type = Unsigned;                               \
  };
template <class T> struct signs {
  static constexpr bool negative = is_floating_point_v<T>;
};
RL_INTEGRAL(bool, false, bool, bool)
RL_INTEGRAL(char, true, signed char, unsigned char)
RL_INTEGRAL(signed char, true, signed char, unsigned char)
RL_INTEGRAL(unsigned char, false, signed char, unsigned char)
RL_INTEGRAL(short, true, short, unsigned short)
RL_INTEGRAL(unsigned short, false, short, unsigned short)
RL_INTEGRAL(int, true, int, unsigned)
RL_INTEGRAL(unsigned, false, int, unsigned)
RL_INTEGRAL(long, true, long, unsigned long)
RL_INTEGRAL(unsigned long, false, long, unsigned long)
RL_INTEGRAL(long long, true, long long, unsigned long long)
RL_INTEGRAL(unsigned long long, false, long long, unsigned long long)
#undef RL_INTEGRAL
template <class T> inline constexpr bool is_signed_v = signs<T>::negative;
template <class T> inline constexpr bool is_unsigned_v = is_integral_v<T> && !signs<T>::negative;
template <class T> using make_signed_t = typename signs<T>::signed_type;
template <class T> using make_unsigned_t = typename signs<T>::unsigned_type;

template <class T> struct numeric_limits {
  static constexpr bool has_infinity = false;
  static constexpr T max() {
    return is_signed_v<T> ? static_cast<T>((1ull << (8 * sizeof(T) - 1)) - 1)
                          : static_cast<T>(~0ull);
  }
  static constexpr T min() { return static_cast<T>(is_signed_v<T> ? -max() - 1 : 0); }
  static constexpr T lowest() { return min(); }
};
template <> struct numeric_limits<bool> {
  static constexpr bool max() { return true; }
  static constexpr bool min() { return false; }
  static constexpr bool lowest() { return false; }
};
template <> struct numeric_limits<float> {
  static constexpr float infinity() { return __builtin_bit_cast(float, 0x7f800000u); }
  static constexpr float quiet_NaN() { return __builtin_bit_cast(float, 0x7fc00000u); }
  static constexpr float max() { return 3.402823466e38f; }
  static constexpr float min() { return 1.175494351e-38f; }
  static constexpr float lowest() { return -3.402823466e38f; }
  static constexpr float epsilon() { return 1.1920928955e-7f; }
};
template <> struct numeric_limits<double> {
  static constexpr double infinity() { return __builtin_bit_cast(double, 0x7ff0000000000000ul); }
  static constexpr double quiet_NaN() { return __builtin_bit_cast(double, 0x7ff8000000000000ul); }
  static constexpr double max() { return 1.7976931348623157e308; }
  static constexpr double min() { return 2.2250738585072014e-308; }
  static constexpr double lowest() { return -1.7976931348623157e308; }
  static constexpr double epsilon() { return 2.2204460492503131e-16; }
};

template <class T> class complex {
 public:
  complex() = default;
  constexpr complex(T real, T imag = T(0)) : real_(real), imag_(imag) {}
  template <class U> explicit constexpr complex(complex<U> z)
      : real_(static_cast<T>(z.real())), imag_(static_cast<T>(z.imag())) {}
  constexpr T real() const { return real_; }
  constexpr T imag() const { return imag_; }
  complex __rep() const { return *this; }
  complex& operator+=(complex z) { return *this = complex(real_ + z.real_, imag_ + z.imag_); }
  complex& operator-=(complex z) { return *this = complex(real_ - z.real_, imag_ - z.imag_); }
  complex& operator*=(complex z) { return *this = *this * z; }
  friend complex operator+(complex a, complex b) { return {a.real_ + b.real_, a.imag_ + b.imag_}; }
  friend complex operator-(complex a, complex b) { return {a.real_ - b.real_, a.imag_ - b.imag_}; }
  friend complex operator-(complex a) { return {-a.real_, -a.imag_}; }
  friend complex operator*(complex a, complex b) {
    return {a.real_ * b.real_ - a.imag_ * b.imag_, a.real_ * b.imag_ + a.imag_ * b.real_};
  }
  friend complex operator/(complex a, complex b) {  // Smith's way, which does not overflow
    if ((b.real_ < 0 ? -b.real_ : b.real_) >= (b.imag_ < 0 ? -b.imag_ : b.imag_)) {
      T ratio = b.imag_ / b.real_, denominator = b.real_ + b.imag_ * ratio;
      return {(a.real_ + a.imag_ * ratio) / denominator, (a.imag_ - a.real_ * ratio) / denominator};
    }
    T ratio = b.real_ / b.imag_, denominator = b.real_ * ratio + b.imag_;
    return {(a.real_ * ratio + a.imag_) / denominator, (a.imag_ * ratio - a.real_) / denominator};
  }
  friend bool operator==(complex a, complex b) { return a.real_ == b.real_ && a.imag_ == b.imag_; }
  friend bool operator!=(complex a, complex b) { return !(a == b); }

 private:
  T real_, imag_;
};

// C's functions of complex numbers, by their definitions.
template <class T> complex<T> c_exp(complex<T> z) {
  T size = ::exp(z.real());
  return {size * ::cos(z.imag()), size * ::sin(z.imag())};
}
template <class T> complex<T> c_log(complex<T> z) {
  return {::log(::hypot(z.real(), z.imag())), ::atan2(z.imag(), z.real())};
}
template <class T> complex<T> c_sqrt(complex<T> z) {
  T size = ::hypot(z.real(), z.imag());
  if (size == T(0)) return {T(0), z.imag()};
  T root = ::sqrt((size + ::fabs(z.real())) / T(2));
  if (z.real() >= T(0)) return {root, z.imag() / (T(2) * root)};
  return {::fabs(z.imag()) / (T(2) * root), ::copysign(root, z.imag())};
}
template <class T> complex<T> c_sinh(complex<T> z) {
  return {::sinh(z.real()) * ::cos(z.imag()), ::cosh(z.real()) * ::sin(z.imag())};
}
template <class T> complex<T> c_cosh(complex<T> z) {
  return {::cosh(z.real()) * ::cos(z.imag()), ::sinh(z.real()) * ::sin(z.imag())};
}
template <class T> complex<T> c_tanh(complex<T> z) {
  if (::fabs(z.real()) > T(20))
    return {::copysign(T(1), z.real()),
            T(4) * ::exp(T(-2) * ::fabs(z.real())) * ::sin(z.imag()) * ::cos(z.imag())};
  return c_sinh(z) / c_cosh(z);
}
template <class T> complex<T> times_i(complex<T> z) { return {-z.imag(), z.real()}; }
template <class T> complex<T> over_i(complex<T> z) { return {z.imag(), -z.real()}; }
template <class T> complex<T> c_sin(complex<T> z) { return over_i(c_sinh(times_i(z))); }
template <class T> complex<T> c_cos(complex<T> z) { return c_cosh(times_i(z)); }
template <class T> complex<T> c_tan(complex<T> z) { return over_i(c_tanh(times_i(z))); }
// Kahan's formulas, which keep the signs of zeros and the branch cuts.
template <class T> complex<T> conjugate(complex<T> z) { return {z.real(), -z.imag()}; }
template <class T> complex<T> c_asin(complex<T> z) {
  complex<T> less = c_sqrt(complex<T>(T(1) - z.real(), -z.imag()));
  complex<T> more = c_sqrt(complex<T>(T(1) + z.real(), z.imag()));
  return {::atan2(z.real(), (less * more).real()), ::asinh((conjugate(less) * more).imag())};
}
template <class T> complex<T> c_acos(complex<T> z) {
  complex<T> less = c_sqrt(complex<T>(T(1) - z.real(), -z.imag()));
  complex<T> more = c_sqrt(complex<T>(T(1) + z.real(), z.imag()));
  return {T(2) * ::atan2(less.real(), more.real()), ::asinh((conjugate(more) * less).imag())};
}
template <class T> complex<T> c_asinh(complex<T> z) { return over_i(c_asin(times_i(z))); }
template <class T> complex<T> c_acosh(complex<T> z) {
  complex<T> less = c_sqrt(complex<T>(z.real() - T(1), z.imag()));
  complex<T> more = c_sqrt(complex<T>(z.real() + T(1), z.imag()));
  return {::asinh((conjugate(less) * more).real()), T(2) * ::atan2(less.imag(), more.real())};
}
template <class T> complex<T> c_atanh(complex<T> z) {
  T x = z.real(), y = z.imag();
  T real = ::log1p(T(4) * x / ((T(1) - x) * (T(1) - x) + y * y)) / T(4);
  return {real, ::atan2(T(2) * y, (T(1) - x) * (T(1) + x) - y * y) / T(2)};
}
template <class T> complex<T> c_atan(complex<T> z) { return over_i(c_atanh(times_i(z))); }
template <class T> complex<T> c_pow(complex<T> x, complex<T> y) {
  if (x == complex<T>(0)) return y == complex<T>(0) ? complex<T>(1) : complex<T>(0);
  return c_exp(y * c_log(x));
}
template <class T> complex<T> from_c(complex<T> z) { return z; }

}  // namespace std

// math/complex.h calls the C library's.
#define _Complex
#define __builtin_cexpf std::c_exp
#define __builtin_cexp std::c_exp
#define __builtin_clogf std::c_log
#define __builtin_clog std::c_log
#define __builtin_csqrtf std::c_sqrt
#define __builtin_csqrt std::c_sqrt
#define __builtin_csinf std::c_sin
#define __builtin_csin std::c_sin
#define __builtin_ccosf std::c_cos
#define __builtin_ccos std::c_cos
#define __builtin_ctanf std::c_tan
#define __builtin_ctan std::c_tan
#define __builtin_casinf std::c_asin
#define __builtin_casin std::c_asin
#define __builtin_cacosf std::c_acos
#define __builtin_cacos std::c_acos
#define __builtin_catanf std::c_atan
#define __builtin_catan std::c_atan
#define __builtin_csinhf std::c_sinh
#define __builtin_csinh std::c_sinh
#define __builtin_ccoshf std::c_cosh
#define __builtin_ccosh std::c_cosh
#define __builtin_ctanhf std::c_tanh
#define __builtin_ctanh std::c_tanh
#define __builtin_casinhf std::c_asinh
#define __builtin_casinh std::c_asinh
#define __builtin_cacoshf std::c_acosh
#define __builtin_cacosh std::c_acosh
#define __builtin_catanhf std::c_atanh
#define __builtin_catanh std::c_atanh
#define __builtin_cpowf std::c_pow
#define __builtin_cpow std::c_pow
