// Distances between rows and their gradients.
#pragma once
#include "kernels/cuda/device/distance.h"
#include "kernels/cuda/device/prelude.cuh"

namespace rl::cuda {

// Where a matrix of a batch begins.
__device__ inline int64_t matrix_offset(const Strided& v, int64_t index) {
  int64_t offset = 0;
  for (int d = v.ndim - 3; d >= 0; --d) {
    offset += index % v.sizes[d] * v.strides[d];
    index /= v.sizes[d];
  }
  return offset;
}
__device__ inline int64_t own_row(int64_t i, int64_t n) { return i * n - i * (i + 1) / 2 - i - 1; }

template <class T> __device__ T row_distance(const T* a, const T* b, int64_t d, double p) {
  T sum = T(0);
  for (int64_t k = 0; k < d; ++k) {
    T difference = math::abs(a[k] - b[k]);
    if (p == 0) sum += math::isnan(difference) ? difference : T(difference != T(0));
    else if (p == 1) sum += difference;
    else if (p == 2) sum = math::plus_product(sum, difference, difference);
    else if (p == double(math::infinity<float>)) sum = math::maximum(sum, difference);
    else sum += math::pow(difference, static_cast<T>(p));
  }
  if (p == 2) return math::sqrt(sum);
  if (p == 0 || p == 1 || p == double(math::infinity<float>)) return sum;
  return math::pow(sum, static_cast<T>(1 / p));
}
// The slope of a distance by a difference, times `grad`. 0 where the distance is.
template <class T> __device__ T distance_slope(T grad, T distance, T difference, double p) {
  T sign = difference > T(0) ? T(1) : difference < T(0) ? T(-1) : difference * T(1);
  if (p == 1) return grad * sign;
  if (p == double(math::infinity<float>)) return math::abs(difference) == distance ? grad * sign : T(0);
  if (distance == T(0)) return T(0);
  if (p == 2) return grad / distance * difference;
  if (difference == T(0)) return T(0);
  T power = static_cast<T>(p - 1);
  return grad / math::pow(distance, power) * math::pow(math::abs(difference), power) * sign;
}

template <class T>
__global__ void distances(Strided a, Strided b, T* out, int64_t batches, DistanceArgs args) {
  int64_t n = args.n, m = args.m, d = args.d;
  for (int64_t at = thread_id(); at < batches * n * m; at += thread_count()) {
    int64_t j = at % m, i = at / m % n, item = at / m / n;
    if (args.own && i >= j) continue;
    const T* x = static_cast<const T*>(a.data) + matrix_offset(a, item) + i * d;
    const T* y = static_cast<const T*>(b.data) + matrix_offset(b, item) + j * d;
    out[args.own ? own_row(i, n) + j : at] = row_distance(x, y, d, args.p);
  }
}
// By row i of a, element k.
template <class T>
__global__ void distance_gradients(const T* grad, const T* found, Strided a, Strided b, T* out,
                                   int64_t batches, DistanceArgs args) {
  int64_t n = args.n, m = args.m, d = args.d;
  for (int64_t at = thread_id(); at < batches * n * d; at += thread_count()) {
    int64_t k = at % d, i = at / d % n, item = at / d / n;
    T x = static_cast<const T*>(a.data)[matrix_offset(a, item) + i * d + k], sum = T(0);
    const T* y = static_cast<const T*>(b.data) + matrix_offset(b, item) + k;
    for (int64_t j = 0; j < m; ++j) {
      if (args.own && i == j) continue;
      int64_t pair = args.own          ? (i < j ? own_row(i, n) + j : own_row(j, n) + i)
                     : args.by_columns ? (item * m + j) * n + i
                                       : (item * n + i) * m + j;
      sum += distance_slope(grad[pair], found[pair], x - y[j * d], args.p);
    }
    out[at] = sum;
  }
}

}  // namespace rl::cuda
