// Folding a contiguous row through many independent lanes: fast, because the additions overlap, and
// accurate, because each lane adds up only a small part. For *.isa.cpp files, in whose namespace
// everything here is defined.
#pragma once
#include "math/arithmetic.h"

namespace rl::kernels::RL_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int vector_bytes = 64;
#elif defined(__AVX__)
constexpr int vector_bytes = 32;
#else
constexpr int vector_bytes = 16;
#endif

template <class T> struct VectorOf {
  typedef T type __attribute__((vector_size(vector_bytes)));
};
template <class T> using Vector = typename VectorOf<T>::type;

template <class T> RL_INLINE Vector<T> load_vector(const T* x) {
  Vector<T> v;
  __builtin_memcpy(&v, x, sizeof v);
  return v;
}

// Each works on scalars and on vectors.
struct Add {
  template <class V> RL_INLINE static V apply(V a, V b) { return a + b; }
};
struct Multiply {
  template <class V> RL_INLINE static V apply(V a, V b) { return a * b; }
};
struct Larger {  // or NaN
  template <class V> RL_INLINE static V apply(V a, V b) {
    V high = a > b ? a : b;  // b if either is NaN
    return a == a ? high : a;
  }
};
struct Smaller {
  template <class V> RL_INLINE static V apply(V a, V b) {
    V low = a < b ? a : b;
    return a == a ? low : a;
  }
};
struct Same {
  template <class V> RL_INLINE V operator()(V v) const { return v; }
};
struct NanToZero {
  template <class V> RL_INLINE V operator()(V v) const { return v == v ? v : V{}; }
};
struct Magnitude {  // of -0 is 0
  template <class V> RL_INLINE V operator()(V v) const { return v > V{} ? v : V{} - v; }
};
struct Square {
  template <class V> RL_INLINE V operator()(V v) const { return v * v; }
};

// The fold of map(x[0]) ... map(x[n - 1]), n >= 1. With period 2 it folds elements of even and of
// odd place apart, into result[0] and result[1] (n is even then): a complex sum.
template <class Op, int period = 1, class T, class Map = Same>
RL_INLINE void fold_row(const T* x, int64_t n, T* result, Map map = Map()) {
  using V = Vector<T>;
  constexpr int width = vector_bytes / sizeof(T), ways = 256 / vector_bytes;
  int64_t i = period;
  if (n < width) {
    for (int k = 0; k < period; ++k) result[k] = map(x[k]);
  } else {
    V sum = map(load_vector(x));
    i = width;
    if (n >= ways * width) {
      V part[ways];
      part[0] = sum;
      for (int k = 1; k < ways; ++k) part[k] = map(load_vector(x + k * width));
      for (i = ways * width; i + ways * width <= n; i += ways * width)
        for (int k = 0; k < ways; ++k)
          part[k] = Op::apply(part[k], V(map(load_vector(x + i + k * width))));
      for (int half = ways / 2; half > 0; half /= 2)
        for (int k = 0; k < half; ++k) part[k] = Op::apply(part[k], part[k + half]);
      sum = part[0];
    }
    for (; i + width <= n; i += width) sum = Op::apply(sum, V(map(load_vector(x + i))));
    T lane[width];
    __builtin_memcpy(lane, &sum, sizeof sum);
    for (int half = width / 2; half >= period; half /= 2)
      for (int k = 0; k < half; ++k) lane[k] = Op::apply(lane[k], lane[k + half]);
    for (int k = 0; k < period; ++k) result[k] = lane[k];
  }
  for (; i < n; i += period)
    for (int k = 0; k < period; ++k) result[k] = Op::apply(result[k], T(map(x[i + k])));
}

template <class Op, class T, class Map = Same>
RL_INLINE T fold(const T* x, int64_t n, Map map = Map()) {
  T result;
  fold_row<Op>(x, n, &result, map);
  return result;
}

// f(0) + ... + f(n - 1), for scalar expressions that gcc vectorises.
template <class T, class F>
RL_INLINE T sum_of(int64_t n, F f) {
  constexpr int64_t piece = 256;
  T values[piece], total = 0;
  for (int64_t i = 0; i < n; i += piece) {
    int64_t m = n - i < piece ? n - i : piece;
    for (int64_t k = 0; k < m; ++k) values[k] = f(i + k);
    total += fold<Add>(values, m);
  }
  return total;
}

}  // namespace
}  // namespace rl::kernels::RL_ISA
