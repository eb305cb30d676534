// EmbeddingBag: sums, means and maxima of rows of a table.
#pragma once
#include "kernels/cuda/device/bag.h"
#include "kernels/cuda/device/prelude.cuh"

namespace rl::cuda {

struct BagRange {
  int64_t begin, end;
};
__device__ inline BagRange bag_range(const BagArgs& a, int64_t bag) {
  auto offset = [&](int64_t b) { return load_index(a.offsets, b * a.offsets.strides[0]); };
  int64_t begin = offset(bag), end = bag + 1 < a.offsets.numel ? offset(bag + 1) : a.index.numel;
  if (begin >= 0 && begin <= end && end <= a.index.numel && (bag || begin == 0))
    return {begin, end};
  report(a.fault, InvalidOffset, begin, a.index.numel, bag);
  return {0, 0};
}
// The row that index i names; -1 for padding and what is outside the table.
__device__ inline int64_t bag_row(const BagArgs& a, int64_t i) {
  int64_t row = load_index(a.index, i * a.index.strides[0]);
  if (row == a.padding) return -1;
  if (row >= 0 && row < a.rows) return row;
  report(a.fault, EmbeddingOutOfRange, row, a.rows, 0);
  return -1;
}
template <class C> __device__ C bag_scale(const BagArgs& a, int64_t i) {
  return a.scales.data ? load_as<C>(a.scales.data, a.scales.dtype, i * a.scales.strides[0]) : C(1);
}

template <class T>
__global__ void bag_forward(Strided weight, Strided out, Strided origin, BagArgs a) {
  using C = compute_t<T>;
  int64_t width = weight.sizes[1];
  for (int64_t at = thread_id(); at < out.numel; at += thread_count()) {
    int64_t bag = at / width, column = at % width, used = 0, best = -1;
    BagRange range = bag_range(a, bag);
    C value = C(0);
    for (int64_t i = range.begin; i < range.end; ++i) {
      int64_t row = bag_row(a, i);
      if (row < 0) continue;
      C x = static_cast<C>(static_cast<const T*>(
          weight.data)[row * weight.strides[0] + column * weight.strides[1]]);
      if (a.mode != BagMax) {
        value = math::plus_product(value, bag_scale<C>(a, i), x);
      } else if (!used || x > value) {
        value = x;
        best = row;
      }
      ++used;
    }
    if (a.mode == BagMean && used) value = value / static_cast<C>(used);
    static_cast<T*>(out.data)[bag * out.strides[0] + column * out.strides[1]] =
        static_cast<T>(value);
    if (a.mode == BagMax)
      static_cast<int64_t*>(origin.data)[bag * origin.strides[0] + column * origin.strides[1]] =
          best;
  }
}

// `result` is of the type that sums are kept in.
template <class T>
__global__ void bag_gradient(Strided grad, Strided origin, Strided result, BagArgs a) {
  using C = compute_t<T>;
  int64_t width = grad.sizes[1];
  C* table = static_cast<C*>(result.data);
  for (int64_t at = thread_id(); at < grad.numel; at += thread_count()) {
    int64_t bag = at / width, column = at % width, used = 0;
    C g = static_cast<C>(
        static_cast<const T*>(grad.data)[bag * grad.strides[0] + column * grad.strides[1]]);
    auto place = [&](int64_t row) {
      return table + row * result.strides[0] + column * result.strides[1];
    };
    if (a.mode == BagMax) {
      int64_t row = static_cast<const int64_t*>(
          origin.data)[bag * origin.strides[0] + column * origin.strides[1]];
      if (row >= a.rows) report(a.fault, EmbeddingOutOfRange, row, a.rows, 0);
      else if (row >= 0) add_at(place(row), g);
      continue;
    }
    BagRange range = bag_range(a, bag);
    for (int64_t i = range.begin; i < range.end; ++i) used += bag_row(a, i) >= 0;
    for (int64_t i = range.begin; i < range.end; ++i) {
      int64_t row = bag_row(a, i);
      if (row < 0) continue;
      C factor = bag_scale<C>(a, i);
      if (a.mode == BagMean) factor = factor / static_cast<C>(used);
      if (a.counts) factor = factor / static_cast<C>(a.counts[row]);
      add_at(place(row), g * factor);
    }
  }
}

// out[i] = dot(grad[bag of i], weight[index[i]]); a block a bag.
template <class T>
__global__ void bag_scale_gradient(Strided grad, Strided weight, Strided out, BagArgs a) {
  using C = compute_t<T>;
  for (int64_t bag = blockIdx.x; bag < a.offsets.numel; bag += gridDim.x) {
    BagRange range = bag_range(a, bag);
    for (int64_t i = range.begin + threadIdx.x; i < range.end; i += blockDim.x) {
      int64_t row = bag_row(a, i);
      C sum = C(0);
      for (int64_t k = 0; row >= 0 && k < weight.sizes[1]; ++k)
        sum += static_cast<C>(static_cast<const T*>(
                   grad.data)[bag * grad.strides[0] + k * grad.strides[1]]) *
               static_cast<C>(static_cast<const T*>(
                   weight.data)[row * weight.strides[0] + k * weight.strides[1]]);
      static_cast<T*>(out.data)[i * out.strides[0]] = static_cast<T>(sum);
    }
  }
}

template <int unused> __global__ void bag_counts(BagArgs a, int64_t* counts) {
  for (int64_t i = thread_id(); i < a.index.numel; i += thread_count()) {
    int64_t row = load_index(a.index, i * a.index.strides[0]);
    if (row >= 0 && row < a.rows) add_at(counts + row, int64_t(1));
  }
}

// Rows that are named and whose norm is above `most` are scaled down to it; a block a row.
template <class T>
__global__ void renorm_rows(Strided weight, const int64_t* counts, double most, double p) {
  using C = compute_t<T>;
  for (int64_t row = blockIdx.x; row < weight.sizes[0]; row += gridDim.x) {
    if (!counts[row]) continue;
    T* x = static_cast<T*>(weight.data) + row * weight.strides[0];
    bool greatest = p == math::infinity<double>;
    double sum = 0;
    for (int64_t k = threadIdx.x; k < weight.sizes[1]; k += blockDim.x) {
      double value = math::abs(static_cast<double>(static_cast<C>(x[k * weight.strides[1]])));
      if (greatest) sum = math::maximum(sum, value);
      else sum += p == 2 ? value * value : p == 1 ? value : math::pow(value, p);
    }
    sum = greatest ? block_reduce(sum, Largest<double>()) : block_sum(sum);
    double size = greatest || p == 1 ? sum : p == 2 ? math::sqrt(sum) : math::pow(sum, 1 / p);
    if (size <= most) continue;
    C factor = static_cast<C>(most / (size + 1e-7));
    for (int64_t k = threadIdx.x; k < weight.sizes[1]; k += blockDim.x)
      x[k * weight.strides[1]] = static_cast<T>(static_cast<C>(x[k * weight.strides[1]]) * factor);
  }
}

}  // namespace rl::cuda
