// Normalisation of channels over a batch. Elements lie without gaps, in either order of Channels; a
// thread takes packs of `count` neighbours, which are of one channel, or of `count` where these are
// last.
#pragma once
#include "kernels/cuda/device/batch_norm.h"
#include "kernels/cuda/device/prelude.cuh"

namespace rl::cuda {

template <class C> __device__ C element(const Vector& v, int64_t i) {
  return load_as<C>(v.data, v.dtype, i * v.step);
}
__device__ inline void put(const Vector& v, int64_t i, double value) {
  if (v.data) store_as(v.data, v.dtype, i * v.step, value);
}

// What follows from mean and variance: the running ones, and 1 / sqrt(variance + eps).
template <class T>
__global__ void finish_statistics(int64_t channels, int64_t n, double momentum, double eps,
                                  const void* variance, Vector running_mean, Vector running_var,
                                  Vector save_mean, Vector save_invstd) {
  using C = compute_t<T>;
  for (int64_t c = thread_id(); c < channels; c += thread_count()) {
    C mean = element<C>(save_mean, c), var = static_cast<const C*>(variance)[c];
    C share = static_cast<C>(momentum), count = static_cast<C>(n);
    put(save_invstd, c, C(1) / math::sqrt(var + static_cast<C>(eps)));
    if (running_mean.data)
      put(running_mean, c, element<C>(running_mean, c) * (C(1) - share) + mean * share);
    if (running_var.data)
      put(running_var, c,
          element<C>(running_var, c) * (C(1) - share) + var * (count / (count - C(1))) * share);
  }
}

// ---- y = (x - mean) * scale + shift; rows of `factors`: mean, scale, shift

template <class T>
__global__ void channel_factors(int64_t channels, Vector mean, Vector invstd, Vector weight,
                                Vector bias, void* factors) {
  using C = compute_t<T>;
  auto* to = static_cast<C*>(factors);
  for (int64_t c = thread_id(); c < channels; c += thread_count()) {
    to[c] = element<C>(mean, c);
    to[channels + c] = element<C>(invstd, c) * (weight.data ? element<C>(weight, c) : C(1));
    to[2 * channels + c] = bias.data ? element<C>(bias, c) : C(0);
  }
}

// The channel of the first element of a pack.
__device__ inline int64_t channel_of_pack(const Channels& s, int64_t i) {
  if (s.numel <= 0x7fffffff) {
    unsigned at = static_cast<unsigned>(i), inner = static_cast<unsigned>(s.inner);
    return at / inner % static_cast<unsigned>(s.channels);
  }
  return i / s.inner % s.channels;
}

template <class T, bool last, int count>
__global__ void apply_channel_factors(const T* x, T* out, Channels s, const void* factors) {
  using C = compute_t<T>;
  using P = Pack<T, count>;
  const C* mean = static_cast<const C*>(factors);
  const C *scale = mean + s.channels, *shift = scale + s.channels;
  for (int64_t i = thread_id() * count; i < s.numel; i += thread_count() * count) {
    P values = *reinterpret_cast<const P*>(x + i), result;
    int64_t c = channel_of_pack(s, i);
    C m = mean[c], a = scale[c], b = shift[c];
    for (int j = 0; j < count; ++j) {
      if constexpr (last) m = mean[c + j], a = scale[c + j], b = shift[c + j];
      result.values[j] = static_cast<T>((static_cast<C>(values.values[j]) - m) * a + b);
    }
    *reinterpret_cast<P*>(out + i) = result;
  }
}

// Adds elements of T, one for each channel.
template <class T, bool last, int count>
__global__ void add_to_channels(T* out, Channels s, Vector added) {
  using P = Pack<T, count>;
  const T* from = static_cast<const T*>(added.data);
  for (int64_t i = thread_id() * count; i < s.numel; i += thread_count() * count) {
    P values = *reinterpret_cast<P*>(out + i);
    int64_t c = channel_of_pack(s, i);
    for (int j = 0; j < count; ++j)
      values.values[j] = static_cast<T>(static_cast<compute_t<T>>(values.values[j]) +
                                        static_cast<compute_t<T>>(from[(last ? c + j : c) * added.step]));
    *reinterpret_cast<P*>(out + i) = values;
  }
}

// ---- gradients: the sums of grad and of grad * (x - mean) over each channel, in parts

// Channels in runs: a block takes a part of one channel.
template <class T, int count>
__global__ void sum_channel_runs(const T* grad, const T* x, Channels s, Vector mean, int parts,
                                 void* sums) {
  using C = compute_t<T>;
  using P = Pack<T, count>;
  int64_t packs_of_run = s.inner / count;
  int64_t packs = s.numel / s.channels / count;
  for (int64_t job = blockIdx.x; job < s.channels * parts; job += gridDim.x) {
    int64_t c = job / parts, part = job % parts, end = packs * (part + 1) / parts;
    C average = element<C>(mean, c), sum = C(0), product = C(0);
    for (int64_t p = packs * part / parts + threadIdx.x; p < end; p += blockDim.x) {
      int64_t run = p / packs_of_run, i = (run * s.channels + c) * s.inner + p % packs_of_run * count;
      P g = *reinterpret_cast<const P*>(grad + i), v = *reinterpret_cast<const P*>(x + i);
      for (int j = 0; j < count; ++j) {
        C slope = static_cast<C>(g.values[j]);
        sum += slope;
        product += slope * (static_cast<C>(v.values[j]) - average);
      }
    }
    sum = block_sum(sum);
    product = block_sum(product);
    if (threadIdx.x) continue;
    static_cast<C*>(sums)[2 * job] = sum;
    static_cast<C*>(sums)[2 * job + 1] = product;
  }
}
// Channels last: blocks of 32 packs of channels by 8 places.
template <class T, int count>
__global__ void sum_channel_columns(const T* grad, const T* x, Channels s, Vector mean, int parts,
                                    void* sums) {
  using C = compute_t<T>;
  using P = Pack<T, count>;
  constexpr int lanes = 32, teams = 8;
  __shared__ C shared[teams][2][count][lanes];
  int64_t packs = s.channels / count, groups = (packs + lanes - 1) / lanes;
  int64_t places = s.numel / s.channels;
  for (int64_t job = blockIdx.x; job < groups * parts; job += gridDim.x) {
    int64_t pack = job % groups * lanes + threadIdx.x, part = job / groups;
    int64_t end = places * (part + 1) / parts;
    C sum[count] = {}, product[count] = {}, average[count];
    if (pack < packs) {
      for (int j = 0; j < count; ++j) average[j] = element<C>(mean, pack * count + j);
      for (int64_t i = places * part / parts + threadIdx.y; i < end; i += teams) {
        int64_t at = i * s.channels + pack * count;
        P g = *reinterpret_cast<const P*>(grad + at), v = *reinterpret_cast<const P*>(x + at);
        for (int j = 0; j < count; ++j) {
          C slope = static_cast<C>(g.values[j]);
          sum[j] += slope;
          product[j] += slope * (static_cast<C>(v.values[j]) - average[j]);
        }
      }
    }
    for (int j = 0; j < count; ++j) {
      shared[threadIdx.y][0][j][threadIdx.x] = sum[j];
      shared[threadIdx.y][1][j][threadIdx.x] = product[j];
    }
    __syncthreads();
    for (int j = threadIdx.y; j < 2 * count && pack < packs; j += teams) {
      C total = C(0);
      for (int team = 0; team < teams; ++team)
        total += shared[team][j / count][j % count][threadIdx.x];
      int64_t c = pack * count + j % count;
      static_cast<C*>(sums)[2 * (c * parts + part) + j / count] = total;
    }
    __syncthreads();
  }
}

// Rows of `factors`: mean, and what grad, 1 and x - mean are multiplied with in the input's gradient.
template <class T>
__global__ void finish_channel_gradients(int64_t channels, int64_t n, int parts, int train,
                                         const void* sums, Vector mean, Vector invstd,
                                         Vector weight, Vector of_weight, Vector of_bias,
                                         void* factors) {
  using C = compute_t<T>;
  auto* to = static_cast<C*>(factors);
  int lane = threadIdx.x & 31;
  for (int64_t c = thread_id() >> 5; c < channels; c += thread_count() >> 5) {
    C sum = C(0), product = C(0);
    for (int part = lane; part < parts; part += 32) {
      sum += static_cast<const C*>(sums)[2 * (c * parts + part)];
      product += static_cast<const C*>(sums)[2 * (c * parts + part) + 1];
    }
    for (int step = 16; step > 0; step /= 2) {
      sum += __shfl_xor_sync(0xffffffffu, sum, step);
      product += __shfl_xor_sync(0xffffffffu, product, step);
    }
    if (lane) continue;
    C scale = element<C>(invstd, c), all = static_cast<C>(n);
    put(of_weight, c, product * scale);
    put(of_bias, c, sum);
    C factor = scale * (weight.data ? element<C>(weight, c) : C(1));
    to[c] = element<C>(mean, c);
    to[channels + c] = factor;
    to[2 * channels + c] = train ? -factor * (sum / all) : C(0);
    to[3 * channels + c] = train ? -factor * scale * scale * (product / all) : C(0);
  }
}

template <class T, bool last, int count>
__global__ void apply_channel_gradients(const T* grad, const T* x, T* out, Channels s,
                                        const void* factors) {
  using C = compute_t<T>;
  using P = Pack<T, count>;
  const C* mean = static_cast<const C*>(factors);
  const C *slope = mean + s.channels, *shift = slope + s.channels, *tilt = shift + s.channels;
  for (int64_t i = thread_id() * count; i < s.numel; i += thread_count() * count) {
    P g = *reinterpret_cast<const P*>(grad + i), v = *reinterpret_cast<const P*>(x + i), result;
    int64_t c = channel_of_pack(s, i);
    C m = mean[c], a = slope[c], b = shift[c], t = tilt[c];
    for (int j = 0; j < count; ++j) {
      if constexpr (last) m = mean[c + j], a = slope[c + j], b = shift[c + j], t = tilt[c + j];
      result.values[j] = static_cast<T>(static_cast<C>(g.values[j]) * a + b +
                                        (static_cast<C>(v.values[j]) - m) * t);
    }
    *reinterpret_cast<P*>(out + i) = result;
  }
}

}  // namespace rl::cuda
