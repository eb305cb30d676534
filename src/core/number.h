// Element types that C++ lacks: half, bfloat16, Bool, and the complex type of the kernels.
#pragma once
#include <complex>
#include <cstdint>
#include <cstring>

namespace rl {

using complex64 = std::complex<float>;
using complex128 = std::complex<double>;

inline float bits_to_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}
inline uint32_t float_to_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

// IEEE binary16, round to nearest even; arithmetic happens in float.
struct half {
  uint16_t bits;
  half() = default;
  half(float value) : bits(encode(value)) {}
  operator float() const { return decode(bits); }

  static uint16_t encode(float value) {
    uint32_t f = float_to_bits(value), sign = (f >> 16) & 0x8000u, magnitude = f & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
    if (magnitude < 0x38800000u) {  // subnormal half: let the float adder do the rounding
      float shifted = bits_to_float(magnitude) + 0.5f;
      return static_cast<uint16_t>(sign | (float_to_bits(shifted) - 0x3f000000u));
    }
    uint32_t odd = (magnitude >> 13) & 1u;
    return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
  }
  static float decode(uint16_t h) {
    uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16, magnitude = h & 0x7fffu;
    if (magnitude >= 0x7c00u)
      return bits_to_float(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
    if (magnitude < 0x400u) {
      float value = static_cast<float>(magnitude) * 5.9604644775390625e-8f;  // 2^-24
      return bits_to_float(sign | float_to_bits(value));
    }
    return bits_to_float(sign | ((magnitude << 13) + 0x38000000u));
  }
};

// The upper half of a float, round to nearest even; arithmetic happens in float.
struct bfloat16 {
  uint16_t bits;
  bfloat16() = default;
  bfloat16(float value) : bits(encode(value)) {}
  operator float() const { return bits_to_float(static_cast<uint32_t>(bits) << 16); }

  static uint16_t encode(float value) {
    uint32_t f = float_to_bits(value);
    if ((f & 0x7fffffffu) > 0x7f800000u) return 0x7fc0u;
    return static_cast<uint16_t>((f + 0x7fffu + ((f >> 16) & 1u)) >> 16);
  }
};

// An element of dtype bool. Memory that others write to (uint8 viewed as bool, NumPy's, a file's)
// may hold any byte, of which all but 0 are true, while a C++ bool loaded from such a byte is
// undefined behaviour. So kernels never read elements as bool; they compute in it.
struct Bool {
  uint8_t byte;
  Bool() = default;
  constexpr Bool(bool value) : byte(value) {}
  constexpr operator bool() const { return byte != 0; }
};
template <class T> inline constexpr bool is_integral_element_v =
    std::is_integral_v<T> || std::is_same_v<T, Bool>;
// The element type in memory of a T that kernels compute with.
template <class T> using stored_t = std::conditional_t<std::is_same_v<T, bool>, Bool, T>;

template <class T> struct is_std_complex : std::false_type {};
template <class T> struct is_std_complex<std::complex<T>> : std::true_type {};
template <class T> inline constexpr bool is_complex_v = is_std_complex<T>::value;
template <class T>
inline constexpr bool is_reduced_v = std::is_same_v<T, half> || std::is_same_v<T, bfloat16>;

// The type arithmetic on T is done in.
template <class T> using compute_t =
    std::conditional_t<is_reduced_v<T>, float,
                       std::conditional_t<std::is_same_v<T, Bool>, bool, T>>;
template <class T> struct real_of {
  using type = T;
};
template <class T> struct real_of<std::complex<T>> {
  using type = T;
};
template <class T> using real_t = typename real_of<T>::type;

// static_cast between any two element types; complex to real keeps the real part.
template <class To, class From>
inline To convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<From, Bool>) {
    return convert<To>(static_cast<bool>(value));
  } else if constexpr (std::is_same_v<To, Bool>) {
    return Bool(convert<bool>(value));
  } else if constexpr (is_reduced_v<From>) {
    return convert<To>(static_cast<float>(value));
  } else if constexpr (is_complex_v<From> && std::is_same_v<To, bool>) {
    return value.real() != 0 || value.imag() != 0;
  } else if constexpr (is_complex_v<From> && is_complex_v<To>) {
    return To(static_cast<real_t<To>>(value.real()), static_cast<real_t<To>>(value.imag()));
  } else if constexpr (is_complex_v<From>) {
    return convert<To>(value.real());
  } else if constexpr (is_complex_v<To>) {
    return To(static_cast<real_t<To>>(value), 0);
  } else if constexpr (is_reduced_v<To>) {
    return To(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To> && sizeof(To) < 8) {
    return static_cast<To>(static_cast<int64_t>(value));  // wraps as torch does on x86
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace rl
