// Scalar arithmetic for kernels: signs, rounding, comparisons, selection, integer division, bits.
// The rule of src/math: these headers are included in files that are compiled once per instruction
// set (kernels/cpu/isa.h), where the linker would merge an out-of-line copy of an inline function
// with one for another CPU. So every function here is RL_INLINE, or RL_OUTLINED: one of the file's
// own, where loops make no vectors of a long body that several of them share. They call only each
// other, compiler builtins and C library functions, never std:: function templates.
// Bodies are branch-free where they are common, so that gcc vectorises the loops around them. What
// is to be a fused multiply-add says mul_add: compilers must not choose (CMakeLists.txt), as a
// loop's vectors, its last elements and other loops would round differently. No body relies on
// mul_add rounding once, and SSE4.2 rounds twice. What gcc 12 needs for vectors: selections on one
// comparison each (it gives up on `a & b ? x : y` between floats), no arithmetic shift of and no
// conversion from 64-bit integers (AVX2 has neither), and tables read through a local pointer.
// Overloads of elementary functions are non-templates for float, double, complex64 and complex128:
// so they win over what argument-dependent lookup finds in std for complex numbers, and a call with
// an integer (which the caller promotes first) does not compile.
//
// Fast paths: some functions cost more for a few arguments than for the rest. fast_f(x) is f(x),
// bit for bit, where f_needs_slow_path(x) is 0, and anything elsewhere: generated loops compute
// strips with such elements again (gen/formula.py names the functions). The flags are as wide as T.
#pragma once
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/number.h"

#ifndef RL_INLINE  // a device has its own
#define RL_INLINE [[gnu::always_inline]] inline
#define RL_OUTLINED [[gnu::noinline, maybe_unused]] static
#endif
// The processor, or the device, multiplies and adds in one instruction.
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define RL_FUSES
#endif
// Before a loop whose iterations do not depend on each other.
#ifdef __clang__
#define RL_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define RL_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace rl::math {

template <class To, class From> RL_INLINE To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof(To));
  return to;
}
template <class T> inline constexpr T infinity = std::numeric_limits<T>::infinity();
template <class T> inline constexpr T quiet_nan = std::numeric_limits<T>::quiet_NaN();
template <class T> inline constexpr bool is_float_v = std::is_floating_point_v<T>;
// The unsigned integer in which arithmetic on the integer T wraps around.
template <class T>
using wrapping_t = std::make_unsigned_t<std::conditional_t<(sizeof(T) < 4), int, T>>;

// x y + z, in one instruction that rounds once, if there is one: the C library's fma, where it has
// to do without, takes 20 times as long as a product and a sum.
template <class T> RL_INLINE T mul_add(T x, T y, T z) {
#ifdef RL_FUSES
  if constexpr (std::is_same_v<T, float>) return __builtin_fmaf(x, y, z);
  if constexpr (std::is_same_v<T, double>) return __builtin_fma(x, y, z);
#endif
  return x * y + z;
}

// c0 + c1 x + c2 x^2 + ..., by Horner's rule.
template <class T> RL_INLINE T horner(T, T last) { return last; }
template <class T, class... Rest> RL_INLINE T horner(T x, T c0, Rest... rest) {
  return mul_add<T>(horner(x, static_cast<T>(rest)...), x, c0);
}
// c0 + c2 z + c4 z^2 + ...
template <class T> RL_INLINE T every_second(T, T last) { return last; }
template <class T> RL_INLINE T every_second(T, T last, T) { return last; }
template <class T, class... Rest> RL_INLINE T every_second(T z, T c0, T, Rest... rest) {
  return mul_add<T>(every_second(z, static_cast<T>(rest)...), z, c0);
}
// The same as horner; a long one in two chains, as each waits for its own last step alone: erf of
// doubles, 19 terms then, took 36 cycles a vector and not 42; gelu, of 11 terms, 14.6 and not 17.5.
template <class T, class... Rest> RL_INLINE T polynomial(T x, T c0, Rest... rest) {
  if constexpr (sizeof...(rest) < 10) {
    return horner(x, c0, static_cast<T>(rest)...);
  } else {
    T z = x * x, odd = every_second(z, static_cast<T>(rest)...);
    return mul_add<T>(odd, x, every_second(z, c0, static_cast<T>(rest)...));
  }
}

template <class T> RL_INLINE T where(bool condition, T a, T b) { return condition ? a : b; }

// ---- classification ----
template <class T> RL_INLINE bool isnan(T x) {
  if constexpr (is_complex_v<T>) return isnan(x.real()) || isnan(x.imag());
  else if constexpr (is_float_v<T>) return x != x;
  else return false;
}
template <class T> RL_INLINE T magnitude(T x) {  // |x| of a float or double, by its bits
  if constexpr (sizeof(T) == 4) return __builtin_fabsf(x);
  else return __builtin_fabs(x);
}
template <class T> RL_INLINE bool isinf(T x) {
  if constexpr (is_complex_v<T>) return isinf(x.real()) || isinf(x.imag());
  else if constexpr (is_float_v<T>) return magnitude(x) == infinity<T>;
  else return false;
}
template <class T> RL_INLINE bool isfinite(T x) {
  if constexpr (is_complex_v<T>) return isfinite(x.real()) && isfinite(x.imag());
  else if constexpr (is_float_v<T>) return magnitude(x) < infinity<T>;
  else return true;
}
template <class T> RL_INLINE bool isposinf(T x) {
  if constexpr (is_float_v<T>) return x == infinity<T>;
  else return false;
}
template <class T> RL_INLINE bool isneginf(T x) {
  if constexpr (is_float_v<T>) return x == -infinity<T>;
  else return false;
}
template <class T> RL_INLINE bool signbit(T x) {
  if constexpr (std::is_same_v<T, float>) return bit_cast<int32_t>(x) < 0;
  else if constexpr (std::is_same_v<T, double>) return bit_cast<int64_t>(x) < 0;
  else return x < T(0);
}

// ---- signs ----
// Of 16-bit elements as they are stored, which either format has in the same bit.
RL_INLINE half operator-(half x) {
  x.bits ^= 0x8000;
  return x;
}
template <class T> RL_INLINE T neg(T x) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(-static_cast<wrapping_t<T>>(x));
  else return -x;
}
template <> RL_INLINE bool neg(bool x) { return x; }
template <class T> RL_INLINE real_t<T> abs(T x) {
  if constexpr (is_float_v<T>) return magnitude(x);
  else if constexpr (std::is_unsigned_v<T>) return x;
  else if constexpr (std::is_same_v<T, half>) return x.bits &= 0x7fff, x;
  else return x < 0 ? neg(x) : x;
}
template <class T> RL_INLINE T sign(T x) {  // 0 for NaN
  if constexpr (std::is_unsigned_v<T>) return static_cast<T>(x != 0);
  else return static_cast<T>((x > T(0)) - (x < T(0)));
}
RL_INLINE float copysign(float x, float y) { return __builtin_copysignf(x, y); }
RL_INLINE double copysign(double x, double y) { return __builtin_copysign(x, y); }
template <class T> RL_INLINE T conj(T x) { return x; }
template <class T> RL_INLINE T real(T x) { return x; }
template <class T> RL_INLINE T imag(T) { return T(0); }
template <class T> RL_INLINE T square(T x) {
  if constexpr (std::is_same_v<T, bool>) return x;
  else if constexpr (std::is_integral_v<T>) {
    auto w = static_cast<wrapping_t<T>>(x);
    return static_cast<T>(w * w);
  } else return x * x;
}
template <class T> RL_INLINE T reciprocal(T x) { return T(1) / x; }

// ---- rounding ----
#define RL_ROUNDING(name, builtin)                                   \
  template <class T> RL_INLINE T name(T x) {                         \
    if constexpr (std::is_same_v<T, float>) return builtin##f(x);    \
    else if constexpr (std::is_same_v<T, double>) return builtin(x); \
    else return x;                                                   \
  }
RL_ROUNDING(floor, __builtin_floor)
RL_ROUNDING(ceil, __builtin_ceil)
RL_ROUNDING(trunc, __builtin_trunc)
RL_ROUNDING(round, __builtin_rint)  // half to even: the rounding mode of a process is the default
#undef RL_ROUNDING
template <class T> RL_INLINE T frac(T x) { return x - trunc(x); }

RL_INLINE float sqrt(float x) { return __builtin_sqrtf(x); }
RL_INLINE double sqrt(double x) { return __builtin_sqrt(x); }
RL_INLINE float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
RL_INLINE double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }

// ---- order ----
// maximum and minimum hand a NaN on; fmax and fmin prefer the number.
// Written without branches; one comparison is left where b is a number known to the compiler.
template <class T> RL_INLINE T maximum(T a, T b) { return !(a <= b) && !isnan(b) ? a : b; }
template <class T> RL_INLINE T minimum(T a, T b) { return !(a >= b) && !isnan(b) ? a : b; }
template <class T> RL_INLINE T fmax(T a, T b) {
  T larger = a > b ? a : b;
  return isnan(b) ? a : larger;
}
template <class T> RL_INLINE T fmin(T a, T b) {
  T smaller = a < b ? a : b;
  return isnan(b) ? a : smaller;
}
template <class T> RL_INLINE T clamp(T x, T low, T high) { return minimum(maximum(x, low), high); }
template <class T> RL_INLINE T heaviside(T x, T at_zero) {
  return x == T(0) ? at_zero : static_cast<T>(x > T(0));
}
template <class T> RL_INLINE T nan_to_num(T x, T nan, T posinf, T neginf) {
  if constexpr (!is_float_v<T>) return x;
  else return isnan(x) ? nan : isposinf(x) ? posinf : isneginf(x) ? neginf : x;
}

// ---- neighbours ----
template <class T, class Bits> RL_INLINE T next_toward(T x, T y) {
  if (isnan(x) || isnan(y)) return x + y;
  if (x == y) return y;
  if (x == T(0)) return copysign(bit_cast<T>(Bits(1)), y);
  return bit_cast<T>(bit_cast<Bits>(x) + ((x < y) == (x > T(0)) ? 1 : -1));
}
RL_INLINE float nextafter(float x, float y) { return next_toward<float, int32_t>(x, y); }
RL_INLINE double nextafter(double x, double y) { return next_toward<double, int64_t>(x, y); }

// ---- division ----
RL_INLINE float c_fmod(float a, float b) { return __builtin_fmodf(a, b); }
RL_INLINE double c_fmod(double a, double b) { return __builtin_fmod(a, b); }

// Integer divisions never trap: minimum / -1 wraps around, and x / 0, which callers refuse, is 0.
template <class T> RL_INLINE T trunc_divide(T a, T b) {
  if constexpr (is_float_v<T>) return trunc(a / b);
  else if constexpr (std::is_unsigned_v<T>) return b == 0 ? T(0) : static_cast<T>(a / b);
  else return b == -1 ? neg(a) : b == 0 ? T(0) : static_cast<T>(a / b);
}
// The remainder of truncated division: it has the sign of the dividend.
template <class T> RL_INLINE T fmod(T a, T b) {
  if constexpr (is_float_v<T>) return c_fmod(a, b);
  else if constexpr (std::is_unsigned_v<T>) return b == 0 ? T(0) : static_cast<T>(a % b);
  else return b == -1 || b == 0 ? T(0) : static_cast<T>(a % b);
}

// Near integers are divided as floating-point numbers. Their quotient is exact enough: it is never
// rounded up to a whole number, having fewer digits than what it is computed in.
template <class T> using quotient_t = std::conditional_t<(sizeof(T) < 4), float, double>;
inline constexpr double whole_shift = 0x1.8p52;  // adding it leaves an integer in the low bits
template <class T> RL_INLINE quotient_t<T> to_quotient(T x) {
  if constexpr (sizeof(T) < 8) return static_cast<quotient_t<T>>(x);
  else
    return bit_cast<double>(static_cast<uint64_t>(x) + bit_cast<uint64_t>(whole_shift)) -
           whole_shift;
}
template <class T> RL_INLINE T from_quotient(quotient_t<T> x) {
  if constexpr (sizeof(T) < 4) return static_cast<T>(static_cast<int32_t>(x));
  else return static_cast<T>(bit_cast<uint64_t>(x + whole_shift) - bit_cast<uint64_t>(whole_shift));
}
template <class T> RL_INLINE T fast_fmod(T a, T b) {
  quotient_t<T> x = to_quotient(a), y = to_quotient(b);
  return from_quotient<T>(mul_add(-trunc(x / y), y, x));
}
// Division by 0, and integers of 51 bits and more, are far.
template <class T> RL_INLINE std::make_signed_t<T> fmod_needs_slow_path(T a, T b) {
  std::make_signed_t<T> far = b == T(0) ? 1 : 0;
  if constexpr (sizeof(T) == 8) {
    constexpr uint64_t half = uint64_t(1) << 50;
    uint64_t outside = (static_cast<uint64_t>(a) + half) | (static_cast<uint64_t>(b) + half);
    far |= static_cast<int64_t>(outside >> 51);
  }
  return far;
}
// In double, exact: the quotient of these floats has 29 bits, and is never rounded up to a whole
// one.
RL_INLINE float fast_fmod(float a, float b) {
  double x = a, y = b;
  return copysign(static_cast<float>(mul_add(-trunc(x / y), y, x)), a);
}
RL_INLINE int32_t fmod_needs_slow_path(float a, float b) {
  int32_t far = magnitude(a) < magnitude(b) * 0x1p28f ? 0 : 1;
  return far | (magnitude(b) < 0x1p99f ? 0 : 1);
}
// Exact: the quotient has 25 bits, so that its products with the halves of b, and their differences
// from a, fit into 53. Where rounding brought a / b up to a whole number, b is added back.
RL_INLINE double fast_fmod(double a, double b) {
  double x = magnitude(a), y = magnitude(b), q = trunc(x / y);
  double high = bit_cast<double>(bit_cast<uint64_t>(y) & (~uint64_t(0) << 27));
  double r = mul_add(-q, y - high, mul_add(-q, high, x));
  r = r < 0.0 ? r + y : r;
  return copysign(r, a);
}
RL_INLINE int64_t fmod_needs_slow_path(double a, double b) {
  int64_t far = magnitude(a) < magnitude(b) * 0x1p25 ? 0 : 1;
  far |= magnitude(b) < 0x1p900 ? 0 : 1;
  return far | (magnitude(b) > 0x1p-900 ? 0 : 1);
}

template <class T> RL_INLINE T fast_trunc_divide(T a, T b) {
  if constexpr (is_float_v<T>) return trunc(a / b);
  else return from_quotient<T>(trunc(to_quotient(a) / to_quotient(b)));
}
RL_INLINE int32_t trunc_divide_needs_slow_path(float, float) { return 0; }
RL_INLINE int64_t trunc_divide_needs_slow_path(double, double) { return 0; }
template <class T> RL_INLINE auto trunc_divide_needs_slow_path(T a, T b) {
  return fmod_needs_slow_path(a, b);
}

template <class T> RL_INLINE bool opposite_signs(T a, T b) { return signbit(a) != signbit(b); }

// The remainder of floored division: it has the sign of the divisor. From r = fmod(a, b).
template <class T> RL_INLINE T remainder_from(T r, T b) {
  T moved = opposite_signs(r, b) ? static_cast<T>(r + b) : r;
  return r == T(0) ? r : moved;
}
template <class T> RL_INLINE T remainder(T a, T b) {
  T r = fmod(a, b);
  if constexpr (std::is_unsigned_v<T>) return r;
  else return remainder_from(r, b);
}
template <class T> RL_INLINE T fast_remainder(T a, T b) {
  return remainder_from(fast_fmod(a, b), b);
}
template <class T> RL_INLINE auto remainder_needs_slow_path(T a, T b) {
  return fmod_needs_slow_path(a, b);
}

// floor(a / b), consistent with remainder: a == b * floor_divide(a, b) + remainder(a, b).
// From r = fmod(a, b), b not 0.
template <class T> RL_INLINE T floor_divide_from(T r, T a, T b) {
  T q = (a - r) / b, less = opposite_signs(r, b) ? q - T(1) : q;
  q = r == T(0) ? q : less;
  T whole = floor(q);  // q is an integer but for rounding
  whole = q - whole > T(0.5) ? whole + T(1) : whole;
  return q == T(0) ? copysign(T(0), a / b) : whole;
}
template <class T> RL_INLINE T floor_divide(T a, T b) {
  if constexpr (std::is_unsigned_v<T>) {
    return trunc_divide(a, b);
  } else if constexpr (std::is_integral_v<T>) {
    T q = trunc_divide(a, b);
    auto wrapped = static_cast<wrapping_t<T>>(q) * static_cast<wrapping_t<T>>(b);
    T r = b == T(0) ? T(0) : static_cast<T>(static_cast<wrapping_t<T>>(a) - wrapped);
    return r != 0 && (r < 0) != (b < 0) ? static_cast<T>(q - 1) : q;
  } else {
    return b == T(0) ? a / b : floor_divide_from(c_fmod(a, b), a, b);
  }
}
template <class T> RL_INLINE T fast_floor_divide(T a, T b) {
  if constexpr (is_float_v<T>) return floor_divide_from(fast_fmod(a, b), a, b);
  else return from_quotient<T>(floor(to_quotient(a) / to_quotient(b)));
}
template <class T> RL_INLINE auto floor_divide_needs_slow_path(T a, T b) {
  return fmod_needs_slow_path(a, b);
}

// ---- integers ----
template <class T> RL_INLINE T gcd(T a, T b) {
  if constexpr (std::is_same_v<T, bool>) return a || b;
  else {
    using U = wrapping_t<T>;
    U x = a < T(0) ? U(0) - static_cast<U>(a) : static_cast<U>(a);
    U y = b < T(0) ? U(0) - static_cast<U>(b) : static_cast<U>(b);
    while (y != 0) {
      U r = x % y;
      x = y;
      y = r;
    }
    return static_cast<T>(x);
  }
}
template <class T> RL_INLINE T lcm(T a, T b) {
  T g = gcd(a, b);
  if (g == T(0)) return T(0);
  using U = wrapping_t<T>;
  auto product = static_cast<U>(trunc_divide(a, g)) * static_cast<U>(b);
  return static_cast<T>(abs(static_cast<std::make_signed_t<U>>(product)));
}
// base to an integer power; a negative exponent leaves an integer only for bases 1 and -1, else 0.
template <class T> RL_INLINE T integer_pow(T base, T exponent) {
  if constexpr (std::is_same_v<T, bool>) {
    return base || !exponent;
  } else {
    using U = wrapping_t<T>;
    if (exponent < T(0)) {
      if (base == T(1)) return T(1);
      if (base == T(-1)) return (exponent & 1) ? T(-1) : T(1);
      return T(0);
    }
    U result = 1, factor = static_cast<U>(base);
    for (U left = static_cast<U>(exponent); left != 0; left >>= 1, factor *= factor)
      if (left & 1) result *= factor;
    return static_cast<T>(result);
  }
}
// Bytes are shifted by one bit of the count after the other, each by a constant that stands in its
// place, which gcc needs to see: processors shift no vectors of bytes by counts of their own, and
// wider ones take 2.5 to 8 times as long. Up to 7 steps.
RL_INLINE uint8_t shift_byte_left(uint8_t a, uint8_t count) {
  a = count & 1 ? static_cast<uint8_t>(a << 1) : a;
  a = count & 2 ? static_cast<uint8_t>(a << 2) : a;
  return count & 4 ? static_cast<uint8_t>(a << 4) : a;
}
template <class T> RL_INLINE T shift_byte_right(T a, uint8_t count) {
  a = count & 1 ? static_cast<T>(a >> 1) : a;
  a = count & 2 ? static_cast<T>(a >> 2) : a;
  return count & 4 ? static_cast<T>(a >> 4) : a;
}

// Shifts by a negative count or by the width and more leave what infinitely many steps would.
template <class T> RL_INLINE T shift_left(T a, T count) {
  using U = wrapping_t<T>;
  constexpr U width = 8 * sizeof(T);
  if constexpr (sizeof(T) == 1) {
    uint8_t steps = static_cast<uint8_t>(count);
    uint8_t shifted = shift_byte_left(static_cast<uint8_t>(a), steps);
    return static_cast<T>(steps < width ? shifted : 0);
  } else {
    U steps = static_cast<U>(count);
    return static_cast<T>(steps < width ? static_cast<U>(a) << (steps & (width - 1)) : U(0));
  }
}
template <class T> RL_INLINE T shift_right(T a, T count) {
  using U = wrapping_t<T>;
  constexpr U last = 8 * sizeof(T) - 1;
  using Steps = std::conditional_t<sizeof(T) == 1, uint8_t, U>;
  Steps steps = static_cast<Steps>(count), most = steps < last ? steps : Steps(last);
  T shifted = a;
  if constexpr (sizeof(T) == 1) shifted = shift_byte_right(a, most);
  else shifted = static_cast<T>(a >> most);
  return std::is_signed_v<T> || steps <= last ? shifted : T(0);
}

}  // namespace rl::math
