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

// ---- batch norm: `input` without its channels, which are `step` apart

template <class C> __device__ C element(const Vector& v, int64_t i) {
  return load_as<C>(v.data, v.dtype, i * v.step);
}
template <class T>
__global__ void channel_statistics(Strided input, int64_t step, int64_t channels, double momentum,
                                   double eps, Vector running_mean, Vector running_var,
                                   Vector save_mean, Vector save_invstd) {
  using C = compute_t<T>;
  C n = static_cast<C>(input.numel);
  for (int64_t c = blockIdx.x; c < channels; c += gridDim.x) {
    const T* x = static_cast<const T*>(input.data) + c * step;
    C mean = C(0), squares = C(0);
    for (int64_t i = threadIdx.x; i < input.numel; i += blockDim.x)
      mean += static_cast<C>(x[offset_of(input, i)]);
    mean = block_sum(mean) / n;
    for (int64_t i = threadIdx.x; i < input.numel; i += blockDim.x) {
      C from = static_cast<C>(x[offset_of(input, i)]) - mean;
      squares += from * from;
    }
    squares = block_sum(squares);
    if (threadIdx.x) continue;
    store_as(save_mean.data, save_mean.dtype, c * save_mean.step, mean);
    store_as(save_invstd.data, save_invstd.dtype, c * save_invstd.step,
             C(1) / math::sqrt(squares / n + static_cast<C>(eps)));
    C share = static_cast<C>(momentum);
    if (running_mean.data)
      store_as(running_mean.data, running_mean.dtype, c * running_mean.step,
               element<C>(running_mean, c) * (C(1) - share) + mean * share);
    if (running_var.data)
      store_as(running_var.data, running_var.dtype, c * running_var.step,
               element<C>(running_var, c) * (C(1) - share) + squares / (n - C(1)) * share);
  }
}

template <class T>
__global__ void batch_norm_gradient(Strided grad, int64_t grad_step, Strided input,
                                    int64_t input_step, Strided result, int64_t result_step,
                                    int64_t channels, int train, Vector weight, Vector mean,
                                    Vector invstd, Vector of_weight, Vector of_bias) {
  using C = compute_t<T>;
  C n = static_cast<C>(input.numel);
  for (int64_t c = blockIdx.x; c < channels; c += gridDim.x) {
    const T* g = static_cast<const T*>(grad.data) + c * grad_step;
    const T* x = static_cast<const T*>(input.data) + c * input_step;
    C average = element<C>(mean, c), scale = element<C>(invstd, c), sum = C(0), product = C(0);
    for (int64_t i = threadIdx.x; i < input.numel; i += blockDim.x) {
      C v = static_cast<C>(g[offset_of(grad, i)]);
      sum += v;
      product += v * (static_cast<C>(x[offset_of(input, i)]) - average) * scale;
    }
    sum = block_sum(sum);
    product = block_sum(product);
    if (threadIdx.x == 0) {
      if (of_weight.data) store_as(of_weight.data, of_weight.dtype, c * of_weight.step, product);
      if (of_bias.data) store_as(of_bias.data, of_bias.dtype, c * of_bias.step, sum);
    }
    if (!result.data) continue;
    C factor = scale * (weight.data ? element<C>(weight, c) : C(1));
    T* r = static_cast<T*>(result.data) + c * result_step;
    for (int64_t i = threadIdx.x; i < input.numel; i += blockDim.x) {
      C v = static_cast<C>(g[offset_of(grad, i)]);
      if (train) {
        C normal = (static_cast<C>(x[offset_of(input, i)]) - average) * scale;
        v -= sum / n + normal * (product / n);
      }
      r[offset_of(result, i)] = static_cast<T>(v * factor);
    }
  }
}

}  // namespace rl::cuda
