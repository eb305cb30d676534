// Vectors of float from and to 16-bit floats in memory; for *.isa.cpp files.
#pragma once
#include "core/number.h"
#include "kernels/cpu/simd.h"

namespace rl::kernels::RL_ISA {
namespace {

using HalfBits = vec<uint16_t, vector_bytes / 2>;

inline HalfBits load_bits(const void* p) {
  HalfBits bits;
  std::memcpy(&bits, p, sizeof bits);
  return bits;
}

// As bfloat16::encode, in the upper halves; the lower ones are to be dropped.
inline vec<uint32_t> rounded_to_upper_half(vec<float> value) {
  vec<uint32_t> bits = (vec<uint32_t>)value, rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  return value != value ? vec<uint32_t>{} + 0x7fc00000u : rounded;
}

inline vec<float> load_wide(const bfloat16* p) {
  return (vec<float>)(__builtin_convertvector(load_bits(p), vec<uint32_t>) << 16);
}
inline vec<float> load_wide(const half* p) { return widened_halves(load_bits(p)); }

inline void store_narrow(bfloat16* p, vec<float> v) {
  HalfBits bits = __builtin_convertvector(rounded_to_upper_half(v) >> 16, HalfBits);
  std::memcpy(static_cast<void*>(p), &bits, sizeof bits);
}
inline void store_narrow(half* p, vec<float> v) {
  HalfBits bits = narrowed_to_halves(v);
  std::memcpy(static_cast<void*>(p), &bits, sizeof bits);
}

// Where the processor converts them; elsewhere loops over floats, converted before, are quicker.
template <class T>
inline constexpr bool has_reduced_loops = std::is_same_v<T, bfloat16> || least_half_bytes > 0;

// What is computed at once: of bfloat16 the even and the odd elements of a vector, which lie in the
// upper halves of floats after a shift or a mask, and go back as they came.
template <class T> inline constexpr int64_t reduced_lanes = Vector<float>::lanes;
template <> inline constexpr int64_t reduced_lanes<bfloat16> = 2 * Vector<float>::lanes;

template <class T> struct WideElements {
  vec<float> all;
  explicit WideElements(const T* from) : all(load_wide(from)) {}
  explicit WideElements(float same) : all(vec<float>{} + same) {}
};
template <> struct WideElements<bfloat16> {
  vec<float> even, odd;
  explicit WideElements(const bfloat16* from) {
    vec<uint32_t> pairs;
    std::memcpy(&pairs, from, sizeof pairs);
    even = (vec<float>)(pairs << 16);
    odd = (vec<float>)(pairs & 0xffff0000u);
  }
  explicit WideElements(float same) : even(vec<float>{} + same), odd(even) {}
};

}  // namespace
}  // namespace rl::kernels::RL_ISA
