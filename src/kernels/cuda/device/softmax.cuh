// Softmax along one dim, its gradient, and the losses that stand on it.
#pragma once
#include "kernels/cuda/device/prelude.cuh"
#include "kernels/cuda/device/softmax.h"

namespace rl::cuda {

// A line of `input` along the dim, `count` elements `step` apart; lines begins[...] are the others.

// One block a line.
template <class T, bool logarithm>
__global__ void softmax_forward(Strided input, Strided out, Line in_line, Line out_line) {
  using C = compute_t<T>;
  for (int64_t row = blockIdx.x; row < input.numel; row += gridDim.x) {
    const T* x = static_cast<const T*>(input.data) + offset_of(input, row);
    T* y = static_cast<T*>(out.data) + offset_of(out, row);
    C largest = -math::infinity<C>;
    for (int64_t i = threadIdx.x; i < in_line.count; i += blockDim.x)
      largest = math::maximum(largest, static_cast<C>(x[i * in_line.step]));
    largest = block_reduce(largest, Largest<C>());
    C sum = C(0);
    for (int64_t i = threadIdx.x; i < in_line.count; i += blockDim.x)
      sum += math::exp(static_cast<C>(x[i * in_line.step]) - largest);
    sum = block_sum(sum);
    C shift = math::log(sum);
    for (int64_t i = threadIdx.x; i < in_line.count; i += blockDim.x) {
      C v = static_cast<C>(x[i * in_line.step]) - largest;
      y[i * out_line.step] = static_cast<T>(logarithm ? v - shift : math::exp(v) / sum);
    }
  }
}

template <class T, bool logarithm>
__global__ void softmax_backward(Strided grad, Strided output, Strided result, Line grad_line,
                                 Line out_line, Line result_line) {
  using C = compute_t<T>;
  for (int64_t row = blockIdx.x; row < grad.numel; row += gridDim.x) {
    const T* g = static_cast<const T*>(grad.data) + offset_of(grad, row);
    const T* y = static_cast<const T*>(output.data) + offset_of(output, row);
    T* r = static_cast<T*>(result.data) + offset_of(result, row);
    C sum = C(0);
    for (int64_t i = threadIdx.x; i < grad_line.count; i += blockDim.x) {
      C gradient = static_cast<C>(g[i * grad_line.step]);
      sum += logarithm ? gradient : gradient * static_cast<C>(y[i * out_line.step]);
    }
    sum = block_sum(sum);
    for (int64_t i = threadIdx.x; i < grad_line.count; i += blockDim.x) {
      C gradient = static_cast<C>(g[i * grad_line.step]), o = static_cast<C>(y[i * out_line.step]);
      r[i * result_line.step] =
          static_cast<T>(logarithm ? gradient - math::exp(o) * sum : o * (gradient - sum));
    }
  }
}

// ---- lines that lie in registers while they are worked on, `packs` packs of `count` neighbours a
// thread, by warps (blocks of 32 by lines) or by whole blocks

template <class T, bool logarithm, int count, int packs>
__global__ void softmax_packed(Strided input, Strided out, int64_t length) {
  using C = compute_t<T>;
  using P = Pack<T, count>;
  int64_t all = length / count, row = int64_t(blockIdx.x) * blockDim.y + threadIdx.y;
  if (row >= input.numel) return;
  auto* x = reinterpret_cast<const P*>(static_cast<const T*>(input.data) + offset_of(input, row));
  auto* y = reinterpret_cast<P*>(static_cast<T*>(out.data) + offset_of(out, row));
  C own[packs][count], largest = -math::infinity<C>, sum = C(0);
  for (int k = 0; k < packs; ++k) {
    int64_t p = threadIdx.x + k * int64_t(blockDim.x);
    if (p >= all) continue;
    P pack = x[p];
    for (int j = 0; j < count; ++j) {
      own[k][j] = static_cast<C>(pack.values[j]);
      largest = math::maximum(largest, own[k][j]);
    }
  }
  largest = row_reduce(largest, Largest<C>());
  for (int k = 0; k < packs; ++k)
    if (threadIdx.x + k * int64_t(blockDim.x) < all)
      for (int j = 0; j < count; ++j) {
        C e = math::exp(own[k][j] - largest);
        own[k][j] = logarithm ? own[k][j] - largest : e;
        sum += e;
      }
  sum = row_reduce(sum, Sum<C>());
  C shift = math::log(sum);
  for (int k = 0; k < packs; ++k) {
    int64_t p = threadIdx.x + k * int64_t(blockDim.x);
    if (p >= all) continue;
    P pack;
    for (int j = 0; j < count; ++j)
      pack.values[j] = static_cast<T>(logarithm ? own[k][j] - shift : own[k][j] / sum);
    y[p] = pack;
  }
}

template <class T, bool logarithm, int count, int packs>
__global__ void softmax_packed_gradient(Strided grad, Strided output, Strided result,
                                        int64_t length) {
  using C = compute_t<T>;
  using P = Pack<T, count>;
  int64_t all = length / count, row = int64_t(blockIdx.x) * blockDim.y + threadIdx.y;
  if (row >= grad.numel) return;
  auto* g = reinterpret_cast<const P*>(static_cast<const T*>(grad.data) + offset_of(grad, row));
  auto* y = reinterpret_cast<const P*>(static_cast<const T*>(output.data) + offset_of(output, row));
  auto* r = reinterpret_cast<P*>(static_cast<T*>(result.data) + offset_of(result, row));
  P slopes[packs], own[packs];
  C sum = C(0);
  for (int k = 0; k < packs; ++k) {
    int64_t p = threadIdx.x + k * int64_t(blockDim.x);
    if (p >= all) continue;
    slopes[k] = g[p];
    own[k] = y[p];
    for (int j = 0; j < count; ++j) {
      C slope = static_cast<C>(slopes[k].values[j]);
      sum += logarithm ? slope : slope * static_cast<C>(own[k].values[j]);
    }
  }
  sum = row_reduce(sum, Sum<C>());
  for (int k = 0; k < packs; ++k) {
    int64_t p = threadIdx.x + k * int64_t(blockDim.x);
    if (p >= all) continue;
    P pack;
    for (int j = 0; j < count; ++j) {
      C slope = static_cast<C>(slopes[k].values[j]), o = static_cast<C>(own[k].values[j]);
      pack.values[j] = static_cast<T>(logarithm ? slope - math::exp(o) * sum : o * (slope - sum));
    }
    r[p] = pack;
  }
}

// ---- cross entropy; scores (N, C, S): class c of sample n, place s at n, c, s by strides

// exp(x - largest); of two -inf 0, as nothing is in the sum yet.
template <class C> __device__ C relative_exp(C x, C largest) {
  return x == -math::infinity<C> ? C(0) : math::exp(x - largest);
}

// Writes the loss and the weight of each target: their sums, if asked for, come after. A thread reads
// several scores before it looks at any, and the line once: its sum follows the largest so far.
template <class T>
__global__ void cross_entropy_lines(LossArgs a, void* losses, void* weights, void* largest_of,
                                    void* sums_of) {
  using C = compute_t<T>;
  constexpr int ahead = 4;
  int64_t classes = a.input.sizes[1], places = a.input.sizes[2], step = a.input.strides[1];
  int64_t lines = a.input.sizes[0] * places;
  for (int64_t line = blockIdx.x; line < lines; line += gridDim.x) {
    int64_t n = line / places, s = line % places;
    const T* x = static_cast<const T*>(a.input.data) + n * a.input.strides[0] +
                 s * a.input.strides[2];
    C largest = -math::infinity<C>, sum = C(0), weighted = C(0), total_w = C(0);
    for (int64_t c = threadIdx.x; c < classes; c += ahead * blockDim.x) {
      C v[ahead], most = largest;
      for (int k = 0; k < ahead; ++k) {
        int64_t at = c + k * int64_t(blockDim.x);
        v[k] = at < classes ? static_cast<C>(x[at * step]) : -math::infinity<C>;
      }
      for (int k = 0; k < ahead; ++k) most = math::maximum(most, v[k]);
      if (most > largest || math::isnan(most)) {
        sum *= math::exp(largest - most);
        largest = most;
      }
      for (int k = 0; k < ahead; ++k) sum += relative_exp(v[k], largest);
      for (int k = 0; a.smoothing > 0 && k < ahead; ++k) {
        int64_t at = c + k * int64_t(blockDim.x);
        if (at >= classes) break;
        C w = a.weight ? static_cast<C>(static_cast<const T*>(a.weight)[at]) : C(1);
        weighted += w * v[k];
        total_w += w;
      }
    }
    C own = largest;
    largest = block_reduce(largest, Largest<C>());
    sum = block_sum(sum * relative_exp(own, largest));
    C smooth = C(0);
    if (a.smoothing > 0) {
      total_w = block_sum(total_w);
      smooth = block_sum(weighted) - total_w * largest;
    }
    if (threadIdx.x != 0) continue;
    static_cast<C*>(largest_of)[line] = largest;
    static_cast<C*>(sums_of)[line] = sum;
    int64_t t = load_index(a.target, n * a.target.strides[0] + s * a.target.strides[1]);
    C loss = C(0), weight = C(0);
    if (t != a.ignore_index) {
      if (t < 0 || t >= classes) {
        report(a.fault, TargetOutOfRange, t, classes, 0);
      } else {
        weight = a.weight ? static_cast<C>(static_cast<const T*>(a.weight)[t]) : C(1);
        C log_sum = math::log(sum);
        loss = weight * (log_sum - (static_cast<C>(x[t * step]) - largest));
        if (a.smoothing > 0)
          loss = C(1 - a.smoothing) * loss +
                 C(a.smoothing / static_cast<double>(classes)) * (total_w * log_sum - smooth);
      }
    }
    static_cast<C*>(losses)[line] = loss;
    static_cast<C*>(weights)[line] = weight;
  }
}

// out = sum(losses), divided by sum(weights) if `mean`; total = sum(weights) unless null. One block.
template <class T>
__global__ void sum_losses(int64_t count, const void* losses, const void* weights, int mean,
                           void* out, int out_dtype, void* total, int total_dtype) {
  using C = compute_t<T>;
  C loss = C(0), weight = C(0);
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
    loss += static_cast<const C*>(losses)[i];
    weight += static_cast<const C*>(weights)[i];
  }
  loss = block_sum(loss);
  weight = block_sum(weight);
  if (threadIdx.x) return;
  store_as(out, out_dtype, 0, mean ? loss / weight : loss);
  store_as(total, total_dtype, 0, weight);
}

template <class T>
__global__ void cross_entropy_gradient(LossArgs a, Strided grad, int reduction,
                                       const void* largest_of, const void* sums_of,
                                       const void* total_weight, int total_dtype, Strided result) {
  using C = compute_t<T>;
  int64_t classes = a.input.sizes[1], places = a.input.sizes[2];
  int64_t lines = a.input.sizes[0] * places;
  for (int64_t line = blockIdx.x; line < lines; line += gridDim.x) {
    int64_t n = line / places, s = line % places;
    const T* x = static_cast<const T*>(a.input.data) + n * a.input.strides[0] +
                 s * a.input.strides[2];
    T* r = static_cast<T*>(result.data) + n * result.strides[0] + s * result.strides[2];
    int64_t t = load_index(a.target, n * a.target.strides[0] + s * a.target.strides[1]);
    bool counts = t != a.ignore_index && t >= 0 && t < classes;
    C g = C(0), weight = C(0), total_w = C(0);
    if (a.smoothing > 0) {
      for (int64_t c = threadIdx.x; c < classes; c += blockDim.x)
        total_w += a.weight ? static_cast<C>(static_cast<const T*>(a.weight)[c]) : C(1);
      total_w = block_sum(total_w);
    }
    if (counts) {
      g = load_as<C>(grad.data, grad.dtype,
                     reduction == 0 ? n * grad.strides[0] + s * grad.strides[1] : 0);
      if (reduction == 1) g /= load_as<C>(total_weight, total_dtype, 0);
      weight = a.weight ? static_cast<C>(static_cast<const T*>(a.weight)[t]) : C(1);
    }
    C largest = static_cast<const C*>(largest_of)[line], sum = static_cast<const C*>(sums_of)[line];
    C share = C(a.smoothing / static_cast<double>(classes)), rest = C(1 - a.smoothing);
    for (int64_t c = threadIdx.x; c < classes; c += blockDim.x) {
      C value = C(0);
      if (counts) {
        C p = math::exp(static_cast<C>(x[c * a.input.strides[1]]) - largest) / sum;
        value = rest * weight * (p - C(c == t));
        if (a.smoothing > 0) {
          C w = a.weight ? static_cast<C>(static_cast<const T*>(a.weight)[c]) : C(1);
          value += share * (total_w * p - w);
        }
        value *= g;
      }
      r[c * result.strides[1]] = static_cast<T>(value);
    }
  }
}

template <class T>
__global__ void nll_lines(LossArgs a, void* losses, void* weights) {
  using C = compute_t<T>;
  int64_t classes = a.input.sizes[1], places = a.input.sizes[2];
  int64_t lines = a.input.sizes[0] * places;
  for (int64_t line = thread_id(); line < lines; line += thread_count()) {
    int64_t n = line / places, s = line % places;
    int64_t t = load_index(a.target, n * a.target.strides[0] + s * a.target.strides[1]);
    C loss = C(0), weight = C(0);
    if (t != a.ignore_index) {
      if (t < 0 || t >= classes) {
        report(a.fault, TargetOutOfRange, t, classes, 0);
      } else {
        weight = a.weight ? static_cast<C>(static_cast<const T*>(a.weight)[t]) : C(1);
        loss = -weight * static_cast<C>(static_cast<const T*>(
                             a.input.data)[n * a.input.strides[0] + t * a.input.strides[1] +
                                           s * a.input.strides[2]]);
      }
    }
    static_cast<C*>(losses)[line] = loss;
    static_cast<C*>(weights)[line] = weight;
  }
}
template <class T>
__global__ void nll_gradient(LossArgs a, Strided grad, int reduction, const void* total_weight,
                             int total_dtype, Strided result) {
  using C = compute_t<T>;
  int64_t classes = result.sizes[1], places = result.sizes[2];
  for (int64_t i = thread_id(); i < result.numel; i += thread_count()) {
    int64_t s = i % places, c = i / places % classes, n = i / places / classes;
    int64_t t = load_index(a.target, n * a.target.strides[0] + s * a.target.strides[1]);
    C value = C(0);
    if (t == c && t != a.ignore_index) {
      C g = load_as<C>(grad.data, grad.dtype,
                       reduction == 0 ? n * grad.strides[0] + s * grad.strides[1] : 0);
      if (reduction == 1) g /= load_as<C>(total_weight, total_dtype, 0);
      value = -g * (a.weight ? static_cast<C>(static_cast<const T*>(a.weight)[t]) : C(1));
    }
    static_cast<T*>(result.data)[n * result.strides[0] + c * result.strides[1] +
                                 s * result.strides[2]] = static_cast<T>(value);
  }
}

}  // namespace rl::cuda
