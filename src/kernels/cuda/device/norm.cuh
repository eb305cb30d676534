// Normalisation of rows, of groups of channels, and of channels over a batch.
#pragma once
#include "kernels/cuda/device/prelude.cuh"
#include "kernels/cuda/device/norm.h"

namespace rl::cuda {

// Row r of `length` elements; element i of it belongs to channel (r % groups) * per_group + i /
// places (groups: layer_norm has 1 and a channel an element).
__device__ inline int64_t channel_of(const Rows& r, int64_t row, int64_t i) {
  return row % r.groups * r.per_group + i / r.places;
}
template <class C> __device__ C weight_at(const Rows& r, int64_t channel) {
  return r.weight ? load_as<C>(r.weight, r.weight_dtype, channel) : C(1);
}

template <class T>
__global__ void normalise_rows(const T* input, T* out, void* mean, void* rstd, Rows r) {
  using C = compute_t<T>;
  C n = static_cast<C>(r.length);
  for (int64_t row = blockIdx.x; row < r.rows; row += gridDim.x) {
    const T* x = input + row * r.length;
    C average = C(0);
    if (r.centered) {
      for (int64_t i = threadIdx.x; i < r.length; i += blockDim.x) average += static_cast<C>(x[i]);
      average = block_sum(average) / n;
    }
    C squares = C(0);
    for (int64_t i = threadIdx.x; i < r.length; i += blockDim.x) {
      C from = static_cast<C>(x[i]) - average;
      squares += from * from;
    }
    squares = block_sum(squares);
    C scale = C(1) / math::sqrt(squares / n + static_cast<C>(r.eps));
    if (threadIdx.x == 0) {
      if (mean) static_cast<C*>(mean)[row] = average;
      static_cast<C*>(rstd)[row] = scale;
    }
    for (int64_t i = threadIdx.x; i < r.length; i += blockDim.x) {
      int64_t channel = channel_of(r, row, i);
      C y = (static_cast<C>(x[i]) - average) * scale * weight_at<C>(r, channel);
      if (r.bias) y += load_as<C>(r.bias, r.bias_dtype, channel);
      out[row * r.length + i] = static_cast<T>(y);
    }
  }
}

template <class T>
__global__ void normalise_rows_gradient(const T* grad, const T* input, const void* mean,
                                        const void* rstd, T* result, Rows r) {
  using C = compute_t<T>;
  C n = static_cast<C>(r.length);
  for (int64_t row = blockIdx.x; row < r.rows; row += gridDim.x) {
    const T *g = grad + row * r.length, *x = input + row * r.length;
    C average = mean ? static_cast<const C*>(mean)[row] : C(0);
    C scale = static_cast<const C*>(rstd)[row], sum = C(0), product = C(0);
    for (int64_t i = threadIdx.x; i < r.length; i += blockDim.x) {
      C v = static_cast<C>(g[i]) * weight_at<C>(r, channel_of(r, row, i));
      sum += v;
      product += v * (static_cast<C>(x[i]) - average) * scale;
    }
    sum = r.centered ? block_sum(sum) / n : C(0);
    product = block_sum(product) / n;
    for (int64_t i = threadIdx.x; i < r.length; i += blockDim.x) {
      C v = static_cast<C>(g[i]) * weight_at<C>(r, channel_of(r, row, i));
      C normal = (static_cast<C>(x[i]) - average) * scale;
      result[row * r.length + i] = static_cast<T>((v - sum - normal * product) * scale);
    }
  }
}

// A block a channel: the sums of grad * normalised and of grad over all that it is in.
template <class T>
__global__ void row_parameter_gradients(const T* grad, const T* input, const void* mean,
                                        const void* rstd, void* of_weight, int weight_dtype,
                                        void* of_bias, int bias_dtype, Rows r) {
  using C = compute_t<T>;
  int64_t channels = r.groups * r.per_group, samples = r.rows / r.groups;
  for (int64_t channel = blockIdx.x; channel < channels; channel += gridDim.x) {
    C weight = C(0), bias = C(0);
    for (int64_t j = threadIdx.x; j < samples * r.places; j += blockDim.x) {
      int64_t row = j / r.places * r.groups + channel / r.per_group;
      int64_t at = row * r.length + channel % r.per_group * r.places + j % r.places;
      C g = static_cast<C>(grad[at]), average = mean ? static_cast<const C*>(mean)[row] : C(0);
      weight += g * (static_cast<C>(input[at]) - average) * static_cast<const C*>(rstd)[row];
      bias += g;
    }
    weight = block_sum(weight);
    bias = block_sum(bias);
    if (threadIdx.x) continue;
    if (of_weight) store_as(of_weight, weight_dtype, channel, weight);
    if (of_bias) store_as(of_bias, bias_dtype, channel, bias);
  }
}

// ---- rows that lie in registers while they are worked on: `packs` packs of `count` neighbours a
// thread, by warps (blocks of 32 by rows) or by whole blocks

template <class T, int count> struct RowPacks {
  using P = Pack<T, count>;
  static __device__ P load(const T* row, int64_t pack) {
    return reinterpret_cast<const P*>(row)[pack];
  }
};

template <class T, class W, int count, int packs>
__global__ void normalise_packed_rows(const T* input, T* out, void* mean, void* rstd, Rows r) {
  using C = compute_t<T>;
  C n = static_cast<C>(r.length);
  int64_t all = r.length / count, row = int64_t(blockIdx.x) * blockDim.y + threadIdx.y;
  if (row >= r.rows) return;
  Pack<T, count> own[packs];
  C average = C(0), squares = C(0);
  for (int k = 0; k < packs; ++k) {
    int64_t p = threadIdx.x + k * int64_t(blockDim.x);
    if (p >= all) continue;
    own[k] = RowPacks<T, count>::load(input + row * r.length, p);
    if (r.centered)
      for (int j = 0; j < count; ++j) average += static_cast<C>(own[k].values[j]);
  }
  if (r.centered) average = row_reduce(average, Sum<C>()) / n;
  for (int k = 0; k < packs; ++k)
    if (threadIdx.x + k * int64_t(blockDim.x) < all)
      for (int j = 0; j < count; ++j) {
        C from = static_cast<C>(own[k].values[j]) - average;
        squares += from * from;
      }
  squares = row_reduce(squares, Sum<C>());
  C scale = C(1) / math::sqrt(squares / n + static_cast<C>(r.eps));
  if (threadIdx.x == 0) {
    if (mean) static_cast<C*>(mean)[row] = average;
    static_cast<C*>(rstd)[row] = scale;
  }
  const W *weight = static_cast<const W*>(r.weight), *bias = static_cast<const W*>(r.bias);
  for (int k = 0; k < packs; ++k) {
    int64_t p = threadIdx.x + k * int64_t(blockDim.x);
    if (p >= all) continue;
    Pack<W, count> w, b;
    if (weight) w = RowPacks<W, count>::load(weight, p);
    if (bias) b = RowPacks<W, count>::load(bias, p);
    Pack<T, count> result;
    for (int j = 0; j < count; ++j) {
      C y = (static_cast<C>(own[k].values[j]) - average) * scale;
      if (weight) y *= static_cast<C>(w.values[j]);
      if (bias) y += static_cast<C>(b.values[j]);
      result.values[j] = static_cast<T>(y);
    }
    reinterpret_cast<Pack<T, count>*>(out + row * r.length)[p] = result;
  }
}

template <class T, class W, int count, int packs>
__global__ void normalise_packed_rows_gradient(const T* grad, const T* input, const void* mean,
                                               const void* rstd, T* result, Rows r) {
  using C = compute_t<T>;
  C n = static_cast<C>(r.length);
  int64_t all = r.length / count, row = int64_t(blockIdx.x) * blockDim.y + threadIdx.y;
  if (row >= r.rows) return;
  C average = mean ? static_cast<const C*>(mean)[row] : C(0);
  C scale = static_cast<const C*>(rstd)[row], sum = C(0), product = C(0);
  const W* weight = static_cast<const W*>(r.weight);
  Pack<T, count> own[packs], slopes[packs];
  for (int k = 0; k < packs; ++k) {
    int64_t p = threadIdx.x + k * int64_t(blockDim.x);
    if (p >= all) continue;
    own[k] = RowPacks<T, count>::load(input + row * r.length, p);
    slopes[k] = RowPacks<T, count>::load(grad + row * r.length, p);
    Pack<W, count> w;
    if (weight) w = RowPacks<W, count>::load(weight, p);
    for (int j = 0; j < count; ++j) {
      C v = static_cast<C>(slopes[k].values[j]);
      if (weight) v *= static_cast<C>(w.values[j]);
      sum += v;
      product += v * (static_cast<C>(own[k].values[j]) - average) * scale;
    }
  }
  sum = r.centered ? row_reduce(sum, Sum<C>()) / n : C(0);
  product = row_reduce(product, Sum<C>()) / n;
  for (int k = 0; k < packs; ++k) {
    int64_t p = threadIdx.x + k * int64_t(blockDim.x);
    if (p >= all) continue;
    Pack<W, count> w;
    if (weight) w = RowPacks<W, count>::load(weight, p);
    Pack<T, count> slope;
    for (int j = 0; j < count; ++j) {
      C v = static_cast<C>(slopes[k].values[j]);
      if (weight) v *= static_cast<C>(w.values[j]);
      C normal = (static_cast<C>(own[k].values[j]) - average) * scale;
      slope.values[j] = static_cast<T>((v - sum - normal * product) * scale);
    }
    reinterpret_cast<Pack<T, count>*>(result + row * r.length)[p] = slope;
  }
}

// Sums over parts of the rows, in blocks of 32 packs by 8 rows: of grad * normalised in
// sums[part][0], of grad in sums[part][1].
template <class T, int count>
__global__ void packed_parameter_gradients(const T* grad, const T* input, const void* mean,
                                           const void* rstd, void* sums, int64_t parts, Rows r) {
  using C = compute_t<T>;
  constexpr int lanes = 32, teams = 8;
  __shared__ C shared[teams][2][count][lanes];
  int64_t all = r.length / count, groups = (all + lanes - 1) / lanes;
  for (int64_t job = blockIdx.x; job < groups * parts; job += gridDim.x) {
    int64_t pack = job % groups * lanes + threadIdx.x, part = job / groups;
    int64_t end = r.rows * (part + 1) / parts;
    C weight[count] = {}, bias[count] = {};
    if (pack < all)
      for (int64_t row = r.rows * part / parts + threadIdx.y; row < end; row += teams) {
        auto g = RowPacks<T, count>::load(grad + row * r.length, pack);
        auto x = RowPacks<T, count>::load(input + row * r.length, pack);
        C average = mean ? static_cast<const C*>(mean)[row] : C(0);
        C scale = static_cast<const C*>(rstd)[row];
        for (int j = 0; j < count; ++j) {
          C v = static_cast<C>(g.values[j]);
          weight[j] += v * (static_cast<C>(x.values[j]) - average) * scale;
          bias[j] += v;
        }
      }
    for (int j = 0; j < count; ++j) {
      shared[threadIdx.y][0][j][threadIdx.x] = weight[j];
      shared[threadIdx.y][1][j][threadIdx.x] = bias[j];
    }
    __syncthreads();
    for (int j = threadIdx.y; j < 2 * count && pack < all; j += teams) {
      C sum = C(0);
      for (int team = 0; team < teams; ++team) sum += shared[team][j / count][j % count][threadIdx.x];
      static_cast<C*>(sums)[(part * 2 + j / count) * r.length + pack * count + j % count] = sum;
    }
    __syncthreads();
  }
}
template <class T>
__global__ void join_parameter_gradients(const void* sums, int64_t parts, int64_t length,
                                         void* of_weight, int weight_dtype, void* of_bias,
                                         int bias_dtype) {
  using C = compute_t<T>;
  for (int64_t i = thread_id(); i < length; i += thread_count()) {
    C weight = C(0), bias = C(0);
    for (int64_t part = 0; part < parts; ++part) {
      weight += static_cast<const C*>(sums)[2 * part * length + i];
      bias += static_cast<const C*>(sums)[(2 * part + 1) * length + i];
    }
    if (of_weight) store_as(of_weight, weight_dtype, i, weight);
    if (of_bias) store_as(of_bias, bias_dtype, i, bias);
  }
}

}  // namespace rl::cuda
