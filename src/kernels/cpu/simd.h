// GNU vectors of the instruction set that an *.isa.cpp file is compiled for; include from those
// alone. gcc keeps arrays of partial sums in memory, but vectors in registers.
#pragma once
#include <immintrin.h>

#include <cstdint>
#include <cstring>

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

// The vector of these lanes, counted on from a's to b's. gcc 11 lacks __builtin_shufflevector.
template <int... lane, class V> V shuffle(V a, V b) {
  return __builtin_shuffle(a, b, decltype(a < b){lane...});
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

}  // namespace rl::kernels::RL_ISA
