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
  return (vec<float>)(widened_bits(load_bits(p)) << 16);
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

}  // namespace
}  // namespace rl::kernels::RL_ISA
