// Elementwise loops, copies and fills.
#pragma once
#include "kernels/cuda/device/prelude.cuh"

namespace rl::cuda {

// An element by its size alone.
struct __align__(16) Element16 {
  uint64_t parts[2];
};

// The elements [offset, offset + count) of operand k, of stored type S, as the k-th inputs of a
// formula that computes in T.
template <class T, class S, int count, int N>
__device__ void load_pack(const RowOperands<N + 1>& w, int k, int64_t offset, T (&x)[count][N]) {
  if (w.steps[k] == StepRow) {
    Pack<S, count> pack = *reinterpret_cast<const Pack<S, count>*>(
        static_cast<const S*>(w.data[k]) + offset);
    for (int j = 0; j < count; ++j) x[j][k - 1] = convert<T>(pack.values[j]);
    return;
  }
  T value = w.steps[k] == StepNumber ? *reinterpret_cast<const T*>(w.numbers[k])
                                     : convert<T>(static_cast<const S*>(w.data[k])[offset]);
  for (int j = 0; j < count; ++j) x[j][k - 1] = value;
}
template <bool flat, int N>
__device__ void row_offsets(const RowOperands<N>& w, int64_t i, int64_t (&offsets)[N]) {
  if constexpr (!flat) strided_offsets(w, i, offsets);
  else
    for (int k = 0; k < N; ++k) offsets[k] = w.steps[k] == StepRow ? i : 0;
}
template <class Formula, class T, class R, class Out, bool flat, int count, class... S>
__device__ void elementwise_pack(const RowOperands<sizeof...(S) + 1>& w, int64_t i, const T* n) {
  constexpr int N = sizeof...(S);
  int64_t offsets[N + 1];
  row_offsets<flat>(w, i, offsets);
  T x[count][N];
  int k = 0;
  ((++k, load_pack<T, S, count, N>(w, k, offsets[k], x)), ...);
  Pack<Out, count> result;
  for (int j = 0; j < count; ++j)
    result.values[j] = convert<Out>(Formula::template apply<T, R>(x[j], n));
  *reinterpret_cast<Pack<Out, count>*>(static_cast<Out*>(w.data[0]) + offsets[0]) = result;
}

// out[i] = Formula(inputs[i] ...), `count` neighbours in a row at a time; flat: there is one row. T is
// what it computes in, S what inputs are stored as, R the formula's result, Out what that is stored
// as.
template <class Formula, class T, class R, class Out, bool flat, int count, class... S>
__global__ void elementwise_rows(RowOperands<sizeof...(S) + 1> w, Numbers given) {
  T n[8];
  for (int k = 0; k < Formula::numbers; ++k)
    n[k] = *reinterpret_cast<const T*>(given.bytes[k]);
  int64_t packs = w.numel / count;
  for (int64_t p = thread_id(); p < packs; p += thread_count())
    elementwise_pack<Formula, T, R, Out, flat, count, S...>(w, p * count, n);
  if constexpr (flat && count > 1)
    for (int64_t i = packs * count + thread_id(); i < w.numel; i += thread_count())
      elementwise_pack<Formula, T, R, Out, flat, 1, S...>(w, i, n);
}

template <class Formula, class T, class R, int N>
__global__ void elementwise_strided(RowOperands<N + 1> w, Numbers given) {
  T n[8];
  for (int k = 0; k < Formula::numbers; ++k)
    n[k] = *reinterpret_cast<const T*>(given.bytes[k]);
  for (int64_t i = thread_id(); i < w.numel; i += thread_count()) {
    int64_t offsets[N + 1];
    strided_offsets(w, i, offsets);
    T x[N];
    for (int k = 1; k <= N; ++k)
      x[k - 1] = w.steps[k] == StepNumber ? *reinterpret_cast<const T*>(w.numbers[k])
                                          : load_as<T>(w.data[k], w.dtypes[k], offsets[k]);
    store_as<R>(w.data[0], w.dtypes[0], offsets[0], Formula::template apply<T, R>(x, n));
  }
}

// ---- copies

// Between rows.
struct Unchanged {
  static constexpr int numbers = 0;
  template <class T, class R> static __device__ R apply(const T* from, const T*) {
    return static_cast<R>(from[0]);
  }
};

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

// Between rows of the result and columns of the source: dim `column` has stride 1 in the source. A
// block of 32 by 8 threads takes tiles of 32 by 32 elements through shared memory.
template <class To, class From>
__global__ void transpose_elements(StridedOperands<2> w, int column, int64_t tiles) {
  constexpr int side = 32;
  __shared__ __align__(16) unsigned char memory[side * (side + 1) * sizeof(From)];
  From* tile = reinterpret_cast<From*>(memory);
  int row = w.ndim - 1;
  int64_t rows = (w.sizes[column] + side - 1) / side, columns = (w.sizes[row] + side - 1) / side;
  for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    int64_t x = t % columns * side, y = t / columns % rows * side, rest = t / columns / rows;
    int64_t to = 0, from = 0;
    for (int d = row - 1; d >= 0; --d) {
      if (d == column) continue;
      int64_t next = rest / w.sizes[d], place = rest - next * w.sizes[d];
      to += place * w.strides[0][d];
      from += place * w.strides[1][d];
      rest = next;
    }
    for (int j = threadIdx.y; j < side; j += blockDim.y)
      if (y + threadIdx.x < w.sizes[column] && x + j < w.sizes[row])
        tile[j * (side + 1) + threadIdx.x] = static_cast<const From*>(
            w.data[1])[from + (y + threadIdx.x) + (x + j) * w.strides[1][row]];
    __syncthreads();
    for (int j = threadIdx.y; j < side; j += blockDim.y)
      if (x + threadIdx.x < w.sizes[row] && y + j < w.sizes[column])
        static_cast<To*>(w.data[0])[to + (y + j) * w.strides[0][column] + x + threadIdx.x] =
            convert<To>(tile[threadIdx.x * (side + 1) + j]);
    __syncthreads();
  }
}

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
