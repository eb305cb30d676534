// Vectors of float from and to 16-bit floats in memory; for *.isa.cpp files.
#pragma once
#include "core/number.h"
#include "kernels/cpu/simd.h"

namespace rl::kernels::RL_ISA {
namespace {

#ifdef __AVX512F__
constexpr __mmask16 every = 0xffff;  // gcc warns of its own header where there is no mask
#endif

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
inline vec<float> load_wide(const half* p) {
#if defined(__AVX512F__)
  return (vec<float>)_mm512_maskz_cvtph_ps(every, (__m256i)load_bits(p));
#elif defined(__F16C__)
  return (vec<float>)_mm256_cvtph_ps((__m128i)load_bits(p));
#else
  vec<float> v{};
  for (int i = 0; i < Vector<float>::lanes; ++i) v[i] = half::decode(p[i].bits);
  return v;
#endif
}

inline void store_narrow(bfloat16* p, vec<float> v) {
  HalfBits bits = __builtin_convertvector(rounded_to_upper_half(v) >> 16, HalfBits);
  std::memcpy(static_cast<void*>(p), &bits, sizeof bits);
}
inline void store_narrow(half* p, vec<float> v) {
#if defined(__AVX512F__)
  _mm256_storeu_si256((__m256i*)p,
                      _mm512_maskz_cvtps_ph(every, (__m512)v, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
  _mm_storeu_si128((__m128i*)p, _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT));
#else
  for (int i = 0; i < Vector<float>::lanes; ++i) p[i].bits = half::encode(v[i]);
#endif
}

}  // namespace
}  // namespace rl::kernels::RL_ISA
