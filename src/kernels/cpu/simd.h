// GNU vectors of the instruction set that an *.isa.cpp file is compiled for; include from those
// alone. gcc keeps arrays of partial sums in memory, but vectors in registers.
#pragma once
#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "math/arithmetic.h"

namespace rl::kernels::RL_ISA {

#if defined(__AVX512F__)
inline constexpr int vector_bytes = 64;
#elif defined(__AVX2__)
inline constexpr int vector_bytes = 32;
#else
inline constexpr int vector_bytes = 16;
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
#ifdef __FMA__
    using T = std::remove_reference_t<decltype(V{}[0])>;
    V x = a - V{}, y = b - V{}, z = c - V{};  // each a vector; + would make 0 of -0
#ifdef __AVX512F__
    if constexpr (std::is_same_v<T, float> && sizeof(V) == 64)
      return (V)_mm512_fmadd_ps((__m512)x, (__m512)y, (__m512)z);
    if constexpr (std::is_same_v<T, double> && sizeof(V) == 64)
      return (V)_mm512_fmadd_pd((__m512d)x, (__m512d)y, (__m512d)z);
#endif
    if constexpr (std::is_same_v<T, float> && sizeof(V) == 32)
      return (V)_mm256_fmadd_ps((__m256)x, (__m256)y, (__m256)z);
    if constexpr (std::is_same_v<T, double> && sizeof(V) == 32)
      return (V)_mm256_fmadd_pd((__m256d)x, (__m256d)y, (__m256d)z);
    if constexpr (std::is_same_v<T, float> && sizeof(V) == 16)
      return (V)_mm_fmadd_ps((__m128)x, (__m128)y, (__m128)z);
    if constexpr (std::is_same_v<T, double> && sizeof(V) == 16)
      return (V)_mm_fmadd_pd((__m128d)x, (__m128d)y, (__m128d)z);
#endif
    return V(a * b + c);
  }
}

// The vector of these lanes, counted on from a's to b's.
template <int... lane, class V> V shuffle(V a, V b) {
#ifdef __clang__
  return __builtin_shufflevector(a, b, lane...);
#else  // gcc 11 has no __builtin_shufflevector
  return __builtin_shuffle(a, b, decltype(a < b){lane...});
#endif
}

// Stores past the caches, to an address that is a multiple of the vector's size.
template <class V> void stream(void* p, V v) {
#ifdef __AVX512F__
  if constexpr (sizeof(V) == 64) return _mm512_stream_si512(static_cast<__m512i*>(p), (__m512i)v);
#endif
#ifdef __AVX__
  if constexpr (sizeof(V) == 32) return _mm256_stream_si256(static_cast<__m256i*>(p), (__m256i)v);
#endif
  if constexpr (sizeof(V) == 16) return _mm_stream_si128(static_cast<__m128i*>(p), (__m128i)v);
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

}  // namespace rl::kernels::RL_ISA
