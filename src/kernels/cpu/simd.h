// GNU vectors of the instruction set that an *.isa.cpp file is compiled for; include from those
// alone. gcc keeps arrays of partial sums in memory, but vectors in registers.
//
// Only this header and tile_registers.h name instructions. Each function here that does has a
// portable form, which the set `generic` (RL_PORTABLE) has of all: it compiles for any processor.
#pragma once
#if defined(__SSE4_2__) && !defined(RL_PORTABLE)
#define RL_X86
#include <immintrin.h>
#elif defined(__aarch64__) && !defined(RL_PORTABLE)
#define RL_NEON
#include <arm_neon.h>
#endif

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/number.h"
#include "math/arithmetic.h"

namespace rl::kernels::RL_ISA {

#if defined(__AVX512F__)
inline constexpr int vector_bytes = 64;
#elif defined(__AVX2__)
inline constexpr int vector_bytes = 32;
#else
inline constexpr int vector_bytes = 16;
#endif
#if defined(__AVX512F__) || defined(RL_NEON)
inline constexpr int vector_registers = 32;
#else
inline constexpr int vector_registers = 16;
#endif
// Whether a vector is multiplied and added to in one instruction, which needs no register for the
// product.
#if defined(RL_FUSES) && (defined(RL_X86) || defined(RL_NEON))
inline constexpr bool fused_vectors = true;
#else
inline constexpr bool fused_vectors = false;
#endif

template <class T, int bytes = vector_bytes> struct Vector {
  typedef T type __attribute__((vector_size(bytes)));
  static constexpr int lanes = bytes / static_cast<int>(sizeof(T));
};
template <class T, int bytes = vector_bytes> using vec = typename Vector<T, bytes>::type;

template <class T, int bytes = vector_bytes> vec<T, bytes> load(const T* p) {
  vec<T, bytes> v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class T, class V> void store(T* p, V v) { std::memcpy(p, &v, sizeof v); }

// a * b + c of vectors and numbers, rounded as math::mul_add does it; at least one is a vector, or
// all are numbers of one type.
template <class A, class B, class C> RL_INLINE auto mul_add(A a, B b, C c) {
  using V = decltype(a * b + c);
  if constexpr (std::is_arithmetic_v<V>) {
    return math::mul_add<V>(a, b, c);
  } else {
#ifdef RL_FUSES
    using T = std::remove_reference_t<decltype(V{}[0])>;
    V x = a - V{}, y = b - V{}, z = c - V{};  // each a vector; + would make 0 of -0
#if defined(RL_NEON)
    if constexpr (std::is_same_v<T, float> && sizeof(V) == 16)
      return (V)vfmaq_f32((float32x4_t)z, (float32x4_t)x, (float32x4_t)y);
    if constexpr (std::is_same_v<T, double> && sizeof(V) == 16)
      return (V)vfmaq_f64((float64x2_t)z, (float64x2_t)x, (float64x2_t)y);
#endif
#ifdef __AVX512F__
    if constexpr (std::is_same_v<T, float> && sizeof(V) == 64)
      return (V)_mm512_fmadd_ps((__m512)x, (__m512)y, (__m512)z);
    if constexpr (std::is_same_v<T, double> && sizeof(V) == 64)
      return (V)_mm512_fmadd_pd((__m512d)x, (__m512d)y, (__m512d)z);
#endif
#ifdef RL_X86
    if constexpr (std::is_same_v<T, float> && sizeof(V) == 32)
      return (V)_mm256_fmadd_ps((__m256)x, (__m256)y, (__m256)z);
    if constexpr (std::is_same_v<T, double> && sizeof(V) == 32)
      return (V)_mm256_fmadd_pd((__m256d)x, (__m256d)y, (__m256d)z);
    if constexpr (std::is_same_v<T, float> && sizeof(V) == 16)
      return (V)_mm_fmadd_ps((__m128)x, (__m128)y, (__m128)z);
    if constexpr (std::is_same_v<T, double> && sizeof(V) == 16)
      return (V)_mm_fmadd_pd((__m128d)x, (__m128d)y, (__m128d)z);
#else
    if constexpr (std::is_floating_point_v<T>) {
      for (size_t i = 0; i < sizeof(V) / sizeof(T); ++i) z[i] = math::mul_add<T>(x[i], y[i], z[i]);
      return z;
    }
#endif
#endif
    return V(a * b + c);
  }
}

// a where it is above b, else b, so that b counts where either is NaN; and where it is below. gcc
// makes two instructions of the comparison, and the first one's result is slow to come.
template <class V> RL_INLINE V larger(V a, V b) {
#ifdef __AVX512F__
  if constexpr (std::is_same_v<V, vec<float, 64>>)
    return (V)_mm512_maskz_max_ps(0xffff, (__m512)a, (__m512)b);
  if constexpr (std::is_same_v<V, vec<double, 64>>)
    return (V)_mm512_maskz_max_pd(0xff, (__m512d)a, (__m512d)b);
#endif
#ifdef __AVX__
  if constexpr (std::is_same_v<V, vec<float, 32>>) return (V)_mm256_max_ps((__m256)a, (__m256)b);
  if constexpr (std::is_same_v<V, vec<double, 32>>) return (V)_mm256_max_pd((__m256d)a, (__m256d)b);
#endif
#ifdef RL_X86
  if constexpr (std::is_same_v<V, vec<float, 16>>) return (V)_mm_max_ps((__m128)a, (__m128)b);
  if constexpr (std::is_same_v<V, vec<double, 16>>) return (V)_mm_max_pd((__m128d)a, (__m128d)b);
#endif
  return a > b ? a : b;
}
template <class V> RL_INLINE V smaller(V a, V b) {
#ifdef __AVX512F__
  if constexpr (std::is_same_v<V, vec<float, 64>>)
    return (V)_mm512_maskz_min_ps(0xffff, (__m512)a, (__m512)b);
  if constexpr (std::is_same_v<V, vec<double, 64>>)
    return (V)_mm512_maskz_min_pd(0xff, (__m512d)a, (__m512d)b);
#endif
#ifdef __AVX__
  if constexpr (std::is_same_v<V, vec<float, 32>>) return (V)_mm256_min_ps((__m256)a, (__m256)b);
  if constexpr (std::is_same_v<V, vec<double, 32>>) return (V)_mm256_min_pd((__m256d)a, (__m256d)b);
#endif
#ifdef RL_X86
  if constexpr (std::is_same_v<V, vec<float, 16>>) return (V)_mm_min_ps((__m128)a, (__m128)b);
  if constexpr (std::is_same_v<V, vec<double, 16>>) return (V)_mm_min_pd((__m128d)a, (__m128d)b);
#endif
  return a < b ? a : b;
}

// The vector of these lanes, counted on from a's to b's.
template <int... lane, class V> V shuffle(V a, V b) {
#ifdef __clang__
  return __builtin_shufflevector(a, b, lane...);
#else  // gcc 11 has no __builtin_shufflevector
  return __builtin_shuffle(a, b, decltype(a < b){lane...});
#endif
}

// The lanes at[i] of a vector, each below their number.
template <class T, class I> RL_INLINE vec<T> permute(vec<T> v, vec<I> at) {
  static_assert(sizeof(T) == 4 && sizeof(I) == 4);
#if defined(__AVX512F__)
  return (vec<T>)_mm512_maskz_permutexvar_ps(0xffff, (__m512i)at, (__m512)v);  // as above
#elif defined(__AVX2__)
  return (vec<T>)_mm256_permutevar8x32_ps((__m256)v, (__m256i)at);
#else
  vec<T> made{};
  for (int i = 0; i < Vector<T>::lanes; ++i) made[i] = v[at[i]];
  return made;
#endif
}

// A vector of equal lanes, whatever the bits of x: an addition would make 0 of -0.
template <class V, class T> RL_INLINE V broadcast(T x) {
#ifdef __AVX512F__
  if constexpr (std::is_same_v<T, float> && sizeof(V) == 64) return (V)_mm512_set1_ps(x);
#endif
#ifdef __AVX__
  if constexpr (std::is_same_v<T, float> && sizeof(V) == 32) return (V)_mm256_set1_ps(x);
#endif
  V all;
  for (size_t i = 0; i < sizeof(V) / sizeof(T); ++i) all[i] = x;
  return all;
}

// Makes the compiler keep v in a register from here on, and not read it from memory again.
template <class V> RL_INLINE void keep_in_register(V& v) {
#if defined(RL_X86)
  __asm__("" : "+v"(v));
#elif defined(RL_NEON)
  __asm__("" : "+w"(v));
#else
  static_cast<void>(v);
#endif
}
// The same of a vector that another thread may change in memory: it is read once.
template <class V> RL_INLINE V read_once(const void* from) {
  V v;
#if defined(RL_X86) || defined(RL_NEON)
  std::memcpy(&v, from, sizeof v);
#if defined(RL_X86)
  __asm__ volatile("" : "+x"(v));
#else
  __asm__ volatile("" : "+w"(v));
#endif
#else
  using T = std::remove_reference_t<decltype(V{}[0])>;
  for (size_t i = 0; i < sizeof(V) / sizeof(T); ++i) v[i] = static_cast<const volatile T*>(from)[i];
#endif
  return v;
}

// Stores past the caches, where there is such an instruction, to an address that is a multiple of
// the vector's size.
template <class V> void stream(void* p, V v) {
#ifdef __AVX512F__
  if constexpr (sizeof(V) == 64) return _mm512_stream_si512(static_cast<__m512i*>(p), (__m512i)v);
#endif
#ifdef __AVX__
  if constexpr (sizeof(V) == 32) return _mm256_stream_si256(static_cast<__m256i*>(p), (__m256i)v);
#endif
#ifdef RL_X86
  if constexpr (sizeof(V) == 16) return _mm_stream_si128(static_cast<__m128i*>(p), (__m128i)v);
#endif
  std::memcpy(p, &v, sizeof v);
}

// p[at[i]] in each lane i, and 0 where at[i] is negative; an index is as wide as an element.
template <class T, class I> vec<T> gather(const T* p, vec<I> at) {
  static_assert(sizeof(T) == sizeof(I));
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) {
    __mmask16 used = _mm512_cmpge_epi32_mask((__m512i)at, _mm512_setzero_si512());
    return (vec<T>)_mm512_mask_i32gather_ps(_mm512_setzero_ps(), used, (__m512i)at, p, 4);
  } else {
    __mmask8 used = _mm512_cmpge_epi64_mask((__m512i)at, _mm512_setzero_si512());
    return (vec<T>)_mm512_mask_i64gather_pd(_mm512_setzero_pd(), used, (__m512i)at, p, 8);
  }
#elif defined(__AVX2__)
  auto used = at >= vec<I>{};
  if constexpr (sizeof(T) == 4)
    return (vec<T>)_mm256_mask_i32gather_ps(_mm256_setzero_ps(), (const float*)p, (__m256i)at,
                                            (__m256)used, 4);
  else
    return (vec<T>)_mm256_mask_i64gather_pd(_mm256_setzero_pd(), (const double*)p, (__m256i)at,
                                            (__m256d)used, 8);
#else
  vec<T> v;
  for (int i = 0; i < Vector<T>::lanes; ++i) v[i] = at[i] < 0 ? T(0) : p[at[i]];
  return v;
#endif
}

// The first n elements of a vector, and zeros; n < its lanes.
template <class T> [[gnu::noinline]] vec<T> copy_part(const T* p, int64_t n) {
  vec<T> v = {};
  __builtin_memcpy(&v, p, static_cast<size_t>(n) * sizeof(T));
  return v;
}
template <class T> RL_INLINE vec<T> load_part(const T* p, int64_t n) {
#ifdef __AVX512F__
  if constexpr (sizeof(T) == 4)
    return (vec<T>)_mm512_maskz_loadu_epi32(static_cast<__mmask16>((1u << n) - 1), p);
  if constexpr (sizeof(T) == 8)
    return (vec<T>)_mm512_maskz_loadu_epi64(static_cast<__mmask8>((1u << n) - 1), p);
#endif
#ifdef __AVX512BW__
  if constexpr (sizeof(T) == 2)
    return (vec<T>)_mm512_maskz_loadu_epi16(static_cast<__mmask32>((1u << n) - 1), p);
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4) {
    const vec<int32_t> used = vec<int32_t>{0, 1, 2, 3, 4, 5, 6, 7} < static_cast<int32_t>(n);
    return (vec<T>)_mm256_maskload_epi32((const int*)p, (__m256i)used);
  }
  if constexpr (sizeof(T) == 8) {
    const vec<int64_t> used = vec<int64_t>{0, 1, 2, 3} < n;
    return (vec<T>)_mm256_maskload_epi64((const long long*)p, (__m256i)used);
  }
#endif
  return copy_part(p, n);
}
template <class T> RL_INLINE void store_part(T* p, vec<T> v, int64_t n) {
#ifdef __AVX512F__
  if constexpr (sizeof(T) == 4)
    return _mm512_mask_storeu_epi32(p, static_cast<__mmask16>((1u << n) - 1), (__m512i)v);
  if constexpr (sizeof(T) == 8)
    return _mm512_mask_storeu_epi64(p, static_cast<__mmask8>((1u << n) - 1), (__m512i)v);
#endif
  __builtin_memcpy(p, &v, static_cast<size_t>(n) * sizeof(T));
}

// f(i) for the elements that fill no vector. A compiler makes vectors of every loop that it can:
// here they would double the code for what they never get to do.
template <class F> RL_INLINE void for_rest(int64_t i, int64_t n, F&& f) {
  for (; i < n; ++i) {
    asm volatile("");
    f(i);
  }
}

// The halves of a vector.
template <class V> RL_INLINE auto lower_half(V v) {
  using Half = vec<std::remove_reference_t<decltype(V{}[0])>, sizeof(V) / 2>;
#ifdef __AVX512F__
  if constexpr (sizeof(V) == 64) return (Half)_mm512_maskz_extracti64x4_epi64(0xff, (__m512i)v, 0);
#endif
#ifdef __AVX__
  if constexpr (sizeof(V) == 32) return (Half)_mm256_extractf128_si256((__m256i)v, 0);
#endif
  Half part;
  std::memcpy(&part, &v, sizeof part);
  return part;
}
template <class V> RL_INLINE auto upper_half(V v) {
  using Half = vec<std::remove_reference_t<decltype(V{}[0])>, sizeof(V) / 2>;
#ifdef __AVX512F__
  if constexpr (sizeof(V) == 64) return (Half)_mm512_maskz_extracti64x4_epi64(0xff, (__m512i)v, 1);
#endif
#ifdef __AVX__
  if constexpr (sizeof(V) == 32) return (Half)_mm256_extractf128_si256((__m256i)v, 1);
#endif
  Half part;
  std::memcpy(&part, reinterpret_cast<const char*>(&v) + sizeof part, sizeof part);
  return part;
}

// A vector of 16 bytes each from `p`, p + step and so on.
template <class V> RL_INLINE V load_pieces(const char* p, int64_t step) {
#ifdef __AVX__
  [[maybe_unused]] auto piece = [=](int i) {
    return _mm_loadu_si128((const __m128i*)(p + i * step));
  };
  if constexpr (sizeof(V) == 32)
    return (V)_mm256_inserti128_si256(_mm256_castsi128_si256(piece(0)), piece(1), 1);
#endif
#ifdef __AVX512F__
  if constexpr (sizeof(V) == 64) {
    __m512i v = _mm512_castsi128_si512(piece(0));
    v = _mm512_inserti32x4(v, piece(1), 1);
    v = _mm512_inserti32x4(v, piece(2), 2);
    return (V)_mm512_inserti32x4(v, piece(3), 3);
  }
#endif
  V v;
  for (int64_t i = 0; i < int64_t(sizeof v / 16); ++i)
    std::memcpy(reinterpret_cast<char*>(&v) + 16 * i, p + i * step, 16);
  return v;
}

// As many bytes as a vector has floats, as integers of 32 bits.
RL_INLINE vec<int32_t> widened_bytes(const uint8_t* p) {
#if defined(__AVX512F__)
  return (vec<int32_t>)_mm512_maskz_cvtepu8_epi32(0xffff, _mm_loadu_si128((const __m128i*)p));
#elif defined(__AVX2__)
  return (vec<int32_t>)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)p));
#else
  vec<int32_t> v;
  for (int i = 0; i < Vector<int32_t>::lanes; ++i) v[i] = p[i];
  return v;
#endif
}
RL_INLINE vec<int32_t> widened_bytes(const int8_t* p) {
#if defined(__AVX512F__)
  return (vec<int32_t>)_mm512_maskz_cvtepi8_epi32(0xffff, _mm_loadu_si128((const __m128i*)p));
#elif defined(__AVX2__)
  return (vec<int32_t>)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)p));
#else
  vec<int32_t> v;
  for (int i = 0; i < Vector<int32_t>::lanes; ++i) v[i] = p[i];
  return v;
#endif
}

// Floats as doubles, in vectors of `bytes`: gcc 12 converts half of them at a time.
template <int bytes> RL_INLINE vec<double, bytes> widened_floats(vec<float, bytes / 2> v) {
#ifdef __AVX512F__
  if constexpr (bytes == 64) return (vec<double, 64>)_mm512_maskz_cvtps_pd(0xff, (__m256)v);
#endif
#ifdef __AVX__
  if constexpr (bytes == 32) return (vec<double, 32>)_mm256_cvtps_pd((__m128)v);
#endif
  return __builtin_convertvector(v, vec<double, bytes>);
}

// Numbers of 16 bits as such of 32: gcc 12 converts half of them at a time.
RL_INLINE vec<uint32_t> widened_bits(vec<uint16_t, vector_bytes / 2> bits) {
#if defined(__AVX512F__)
  return (vec<uint32_t>)_mm512_maskz_cvtepu16_epi32(0xffff, (__m256i)bits);
#elif defined(__AVX2__)
  return (vec<uint32_t>)_mm256_cvtepu16_epi32((__m128i)bits);
#else
  return __builtin_convertvector(bits, vec<uint32_t>);
#endif
}

// Floats from and to binary16, `bytes` of floats at a time. Vectors narrower than least_half_bytes,
// or all where that is 0, are converted lane by lane.
#if defined(RL_X86) && defined(__F16C__)
inline constexpr int least_half_bytes = 32;
#elif defined(RL_NEON)
inline constexpr int least_half_bytes = 16;
#else
inline constexpr int least_half_bytes = 0;
#endif
template <int bytes = vector_bytes>
RL_INLINE vec<float, bytes> widened_halves(vec<uint16_t, bytes / 2> bits) {
  // gcc warns of its own header where there is no mask.
#ifdef __AVX512F__
  if constexpr (bytes == 64) return (vec<float, bytes>)_mm512_maskz_cvtph_ps(0xffff, (__m256i)bits);
#endif
#if defined(RL_X86) && defined(__F16C__)
  if constexpr (bytes == 32) return (vec<float, bytes>)_mm256_cvtph_ps((__m128i)bits);
#endif
#ifdef RL_NEON
  if constexpr (bytes == 16) return (vec<float, bytes>)vcvt_f32_f16((float16x4_t)bits);
#endif
  vec<float, bytes> v{};
  for (int i = 0; i < Vector<float, bytes>::lanes; ++i) v[i] = half::decode(bits[i]);
  return v;
}
template <int bytes = vector_bytes>
RL_INLINE vec<uint16_t, bytes / 2> narrowed_to_halves(vec<float, bytes> v) {
  using Bits = vec<uint16_t, bytes / 2>;
#ifdef __AVX512F__
  if constexpr (bytes == 64)
    return (Bits)_mm512_maskz_cvtps_ph(0xffff, (__m512)v, _MM_FROUND_TO_NEAREST_INT);
#endif
#if defined(RL_X86) && defined(__F16C__)
  if constexpr (bytes == 32) return (Bits)_mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT);
#endif
#ifdef RL_NEON
  if constexpr (bytes == 16) return (Bits)vcvt_f16_f32((float32x4_t)v);
#endif
  Bits bits{};
  for (int i = 0; i < Vector<float, bytes>::lanes; ++i) bits[i] = half::encode(v[i]);
  return bits;
}

// sum + x * y, the elements being pairs of int16, or of bfloat16 in floats: products of pairs are
// added up. Those of bfloat16 only where kernels::has_bfloat16_products() (units.h).
template <class V> RL_INLINE V add_int16_pairs(V sum, V x, V y) {
#if defined(__AVX512BW__)
  if constexpr (sizeof(V) == 64) return sum + (V)_mm512_madd_epi16((__m512i)x, (__m512i)y);
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(V) == 32) return sum + (V)_mm256_madd_epi16((__m256i)x, (__m256i)y);
#endif
#ifdef RL_X86
  if constexpr (sizeof(V) == 16) return sum + (V)_mm_madd_epi16((__m128i)x, (__m128i)y);
#endif
  using Signed = vec<int32_t, sizeof(V)>;
  auto low = [](V v) { return (V)((Signed)(v << 16) >> 16); };
  auto high = [](V v) { return (V)((Signed)v >> 16); };
  return sum + low(x) * low(y) + high(x) * high(y);
}
template <class V> RL_INLINE V add_bfloat16_pairs(V sum, V x, V y) {
#if defined(__AVX512F__)
  __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y));
#elif defined(RL_NEON)
  __asm__(".arch armv8.6-a\n\tbfdot %0.4s, %1.8h, %2.8h" : "+w"(sum) : "w"(x), "w"(y));
#else
  static_cast<void>(x), static_cast<void>(y);
#endif
  return sum;
}
// The bits of the nearest bfloat16, and 0 for what is below the least normal number; only where
// those are.
template <class V> RL_INLINE vec<uint16_t, sizeof(V) / 2> narrowed_to_bfloat16(V v) {
  vec<uint16_t, sizeof(V) / 2> bits{};
#if defined(__AVX512F__)
  __asm__("vcvtneps2bf16 %1, %0" : "=v"(bits) : "v"(v));
#elif defined(RL_NEON)
  __asm__(".arch armv8.6-a\n\tbfcvtn %0.4h, %1.4s" : "=w"(bits) : "w"(v));
#else
  static_cast<void>(v);
#endif
  return bits;
}
// The same of two vectors, a's first, exactly: false, and nothing written, where one is no number
// or below the least normal one. Only where kernels::has_bfloat16_conversions().
template <class V> RL_INLINE bool narrow_to_bfloat16(V a, V b, uint16_t* to) {
#if defined(__AVX512DQ__)
  constexpr int not_a_number = 0x81, below_normal = 0x20;
  if (_mm512_fpclass_ps_mask((__m512)a, not_a_number | below_normal) |
      _mm512_fpclass_ps_mask((__m512)b, not_a_number | below_normal))
    return false;
  vec<uint16_t> bits;
  __asm__("vcvtne2ps2bf16 %1, %2, %0" : "=v"(bits) : "v"(a), "v"(b));
  store(to, bits);
  return true;
#else
  static_cast<void>(a), static_cast<void>(b), static_cast<void>(to);
  return false;
#endif
}
// The same of four unsigned bytes in x and four signed ones in y, only where
// kernels::has_byte_products().
template <class V> RL_INLINE V add_byte_groups(V sum, V x, V y) {
#if defined(__AVX512F__)
  __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y));
#elif defined(RL_NEON)
  __asm__(".arch armv8.6-a\n\tusdot %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(x), "w"(y));
#else
  static_cast<void>(x), static_cast<void>(y);
#endif
  return sum;
}

}  // namespace rl::kernels::RL_ISA
