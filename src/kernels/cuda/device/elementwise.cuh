// Elementwise loops, copies and fills.
#pragma once
#include "kernels/cuda/device/prelude.cuh"

namespace rl::cuda {

template <class T, int count> struct __align__(sizeof(T) * count) Pack {
  T values[count];
};

// out[i] = Formula(inputs[i] ...). T is what it computes in, S what inputs are stored as, R the
// formula's result, Out what that is stored as.
template <class Formula, class T, class S, class R, class Out, int N>
__global__ void elementwise_contiguous(StridedOperands<N + 1> w, Numbers given) {
  const T* numbers = reinterpret_cast<const T*>(given.bytes);
  T n[8];
  for (int k = 0; k < Formula::numbers; ++k)
    n[k] = *reinterpret_cast<const T*>(given.bytes[k]);
  (void)numbers;
  auto* out = static_cast<Out*>(w.data[0]);
  constexpr int count = 16 / (sizeof(S) > sizeof(Out) ? sizeof(S) : sizeof(Out));
  bool aligned = true;
  for (int k = 0; k <= N; ++k) aligned &= (reinterpret_cast<uintptr_t>(w.data[k]) & 15) == 0;
  int64_t packs = aligned ? w.numel / count : 0;
  for (int64_t p = thread_id(); p < packs; p += thread_count()) {
    Pack<S, count> in[N];
    Pack<Out, count> result;
    for (int k = 0; k < N; ++k) in[k] = static_cast<const Pack<S, count>*>(w.data[k + 1])[p];
    for (int j = 0; j < count; ++j) {
      T x[N];
      for (int k = 0; k < N; ++k) x[k] = static_cast<T>(in[k].values[j]);
      result.values[j] = convert<Out>(Formula::template apply<T, R>(x, n));
    }
    reinterpret_cast<Pack<Out, count>*>(out)[p] = result;
  }
  for (int64_t i = packs * count + thread_id(); i < w.numel; i += thread_count()) {
    T x[N];
    for (int k = 0; k < N; ++k) x[k] = static_cast<T>(static_cast<const S*>(w.data[k + 1])[i]);
    out[i] = convert<Out>(Formula::template apply<T, R>(x, n));
  }
}

template <class Formula, class T, class R, int N>
__global__ void elementwise_strided(StridedOperands<N + 1> w, Numbers given) {
  T n[8];
  for (int k = 0; k < Formula::numbers; ++k)
    n[k] = *reinterpret_cast<const T*>(given.bytes[k]);
  for (int64_t i = thread_id(); i < w.numel; i += thread_count()) {
    int64_t offsets[N + 1];
    strided_offsets(w, i, offsets);
    T x[N];
    for (int k = 0; k < N; ++k) x[k] = load_as<T>(w.data[k + 1], w.dtypes[k + 1], offsets[k + 1]);
    store_as<R>(w.data[0], w.dtypes[0], offsets[0], Formula::template apply<T, R>(x, n));
  }
}

template <class To, class From> __global__ void convert_elements(StridedOperands<2> w, int conjugate) {
  for (int64_t i = thread_id(); i < w.numel; i += thread_count()) {
    int64_t offsets[2];
    strided_offsets(w, i, offsets);
    From value = static_cast<const From*>(w.data[1])[offsets[1]];
    if constexpr (is_complex_v<From>)
      if (conjugate) value = math::conj(value);
    static_cast<To*>(w.data[0])[offsets[0]] = convert<To>(value);
  }
}

// By size alone.
struct __align__(16) Element16 {
  uint64_t parts[2];
};
template <class T> __global__ void move_elements(StridedOperands<2> w) {
  for (int64_t i = thread_id(); i < w.numel; i += thread_count()) {
    int64_t offsets[2];
    strided_offsets(w, i, offsets);
    static_cast<T*>(w.data[0])[offsets[0]] = static_cast<const T*>(w.data[1])[offsets[1]];
  }
}
template <class T> __global__ void fill_elements(StridedOperands<1> w, Element16 value) {
  T element;
  __builtin_memcpy(&element, &value, sizeof(T));
  for (int64_t i = thread_id(); i < w.numel; i += thread_count()) {
    int64_t offsets[1];
    strided_offsets(w, i, offsets);
    static_cast<T*>(w.data[0])[offsets[0]] = element;
  }
}

}  // namespace rl::cuda
