// Sliding windows over images of 1, 2 or 3 spatial dims: columns and back, and pooling.
#pragma once
#include "kernels/cuda/device/prelude.cuh"
#include "kernels/cuda/device/window.h"

namespace rl::cuda {

__device__ inline void split_place(int64_t i, const int64_t* sizes, int dims, int64_t* at) {
  for (int d = dims - 1; d >= 0; --d) {
    at[d] = i % sizes[d];
    i /= sizes[d];
  }
}
__device__ inline int64_t volume(const int64_t* sizes, int dims) {
  int64_t n = 1;
  for (int d = 0; d < dims; ++d) n *= sizes[d];
  return n;
}
// Where the plane of element `i` of a view begins, whose last `dims` dims are spatial; `place` gets
// the spatial coordinates.
__device__ inline int64_t plane_offset(const Strided& v, int dims, int64_t i, int64_t* place) {
  for (int d = v.ndim - 1; d >= v.ndim - dims; --d) {
    place[d - (v.ndim - dims)] = i % v.sizes[d];
    i /= v.sizes[d];
  }
  int64_t offset = 0;
  for (int d = v.ndim - dims - 1; d >= 0; --d) {
    offset += i % v.sizes[d] * v.strides[d];
    i /= v.sizes[d];
  }
  return offset;
}
// The plane of another view with the same leading sizes.
__device__ inline int64_t same_plane(const Strided& v, const Strided& like, int dims, int64_t i) {
  for (int d = like.ndim - 1; d >= like.ndim - dims; --d) i /= like.sizes[d];
  int64_t offset = 0;
  for (int d = v.ndim - dims - 1; d >= 0; --d) {
    offset += i % v.sizes[d] * v.strides[d];
    i /= v.sizes[d];
  }
  return offset;
}

// images: (N, C, *).
template <class T>
__global__ void unfold_images(Strided images, Columns columns, Window w, int64_t first, int64_t n) {
  int64_t taps = volume(w.kernel, w.dims), positions = volume(w.out, w.dims);
  int64_t channels = images.sizes[1], total = n * channels * taps * positions;
  for (int64_t i = thread_id(); i < total; i += thread_count()) {
    int64_t position = i % positions, tap = i / positions % taps;
    int64_t channel = i / positions / taps % channels, image = i / positions / taps / channels;
    int64_t at[3], k[3];
    split_place(position, w.out, w.dims, at);
    split_place(tap, w.kernel, w.dims, k);
    int64_t offset = (first + image) * images.strides[0] + channel * images.strides[1];
    bool inside = true;
    for (int d = 0; d < w.dims; ++d) {
      int64_t x = at[d] * w.stride[d] - w.padding[d] + k[d] * w.dilation[d];
      inside &= x >= 0 && x < w.in[d];
      offset += x * images.strides[2 + d];
    }
    T value{};
    if (inside) value = static_cast<const T*>(images.data)[offset];
    static_cast<T*>(columns.data)[image * columns.batch + (channel * taps + tap) * columns.row +
                                  position * columns.position] = value;
  }
}

// Each element of the images sums up the windows that it is in.
template <class T>
__global__ void fold_columns(Columns columns, Strided images, Window w, int64_t first, int64_t n) {
  using A = accumulate_t<T>;
  int64_t taps = volume(w.kernel, w.dims), pixels = volume(w.in, w.dims);
  int64_t channels = images.sizes[1], total = n * channels * pixels;
  for (int64_t i = thread_id(); i < total; i += thread_count()) {
    int64_t channel = i / pixels % channels, image = i / pixels / channels;
    int64_t x[3];
    split_place(i % pixels, w.in, w.dims, x);
    A sum = A(0);
    for (int64_t tap = 0; tap < taps; ++tap) {
      int64_t k[3], position = 0;
      split_place(tap, w.kernel, w.dims, k);
      bool inside = true;
      for (int d = 0; d < w.dims; ++d) {
        int64_t from = x[d] + w.padding[d] - k[d] * w.dilation[d], at = from / w.stride[d];
        inside &= from >= 0 && from % w.stride[d] == 0 && at < w.out[d];
        position = position * w.out[d] + at;
      }
      if (inside)
        sum = sum + convert<A>(static_cast<const T*>(
                        columns.data)[image * columns.batch + (channel * taps + tap) * columns.row +
                                      position * columns.position]);
    }
    int64_t offset = (first + image) * images.strides[0] + channel * images.strides[1];
    for (int d = 0; d < w.dims; ++d) offset += x[d] * images.strides[2 + d];
    static_cast<T*>(images.data)[offset] = convert<T>(sum);
  }
}

// ---- pooling

template <class T>
__global__ void max_pool_forward(Strided input, Strided out, Strided indices, Window w) {
  using C = compute_t<T>;
  for (int64_t i = thread_id(); i < out.numel; i += thread_count()) {
    int64_t place[3], taps = volume(w.kernel, w.dims), best = -1;
    plane_offset(out, w.dims, i, place);
    const T* plane = static_cast<const T*>(input.data) + same_plane(input, out, w.dims, i);
    C value = C(0);
    for (int64_t tap = 0; tap < taps; ++tap) {
      int64_t k[3], offset = 0, index = 0;
      split_place(tap, w.kernel, w.dims, k);
      bool inside = true;
      for (int d = 0; d < w.dims; ++d) {
        int64_t x = place[d] * w.stride[d] - w.padding[d] + k[d] * w.dilation[d];
        inside &= x >= 0 && x < w.in[d];
        offset += x * input.strides[input.ndim - w.dims + d];
        index = index * w.in[d] + x;
      }
      if (!inside) continue;
      C x = static_cast<C>(plane[offset]);
      if (best < 0 || x > value || (math::isnan(x) && !math::isnan(value))) {
        value = x;
        best = index;
      }
    }
    static_cast<T*>(out.data)[offset_of(out, i)] = static_cast<T>(value);
    if (indices.data) static_cast<int64_t*>(indices.data)[offset_of(indices, i)] = best;
  }
}

// Adds each element of grad to the place in its plane that the index names. Set: it is stored there.
template <class T, bool set>
__global__ void place_by_index(Strided grad, Strided indices, Strided result, int dims,
                               FaultPlace fault) {
  int64_t pixels = 1;
  for (int d = result.ndim - dims; d < result.ndim; ++d) pixels *= result.sizes[d];
  for (int64_t i = thread_id(); i < grad.numel; i += thread_count()) {
    int64_t index = static_cast<const int64_t*>(indices.data)[offset_of(indices, i)];
    if (index < 0 || index >= pixels) {
      report(fault, IndexOutOfRange, index, pixels, 0);
      continue;
    }
    int64_t offset = same_plane(result, grad, dims, i);
    for (int d = result.ndim - 1; d >= result.ndim - dims; --d) {
      offset += index % result.sizes[d] * result.strides[d];
      index /= result.sizes[d];
    }
    T value = static_cast<const T*>(grad.data)[offset_of(grad, i)];
    if constexpr (set) static_cast<T*>(result.data)[offset] = value;
    else add_at(static_cast<T*>(result.data) + offset, value);
  }
}

// The window of an average along d: [begin, end) of the input, and how many it counts with padding.
__device__ inline int64_t average_window(const Window& w, int d, int64_t at, int64_t& begin,
                                         int64_t& end) {
  begin = at * w.stride[d] - w.padding[d];
  end = begin + w.kernel[d];
  int64_t last = w.in[d] + w.padding[d];
  if (end > last) end = last;
  int64_t counted = end - begin;
  if (begin < 0) begin = 0;
  if (end > w.in[d]) end = w.in[d];
  return counted;
}
__device__ inline double average_divisor(const Window& w, const AverageArgs& a, int64_t padded,
                                         int64_t inside) {
  (void)w;
  return static_cast<double>(a.divisor ? a.divisor : a.include_padding ? padded : inside);
}
template <class T>
__global__ void avg_pool_forward(Strided input, Strided out, Window w, AverageArgs a) {
  using C = compute_t<T>;
  for (int64_t i = thread_id(); i < out.numel; i += thread_count()) {
    int64_t place[3], begin[3] = {0, 0, 0}, end[3] = {1, 1, 1}, stride[3] = {0, 0, 0};
    plane_offset(out, w.dims, i, place);
    const T* plane = static_cast<const T*>(input.data) + same_plane(input, out, w.dims, i);
    int64_t padded = 1, inside = 1;
    for (int d = 0; d < w.dims; ++d) {
      padded *= average_window(w, d, place[d], begin[d], end[d]);
      inside *= end[d] > begin[d] ? end[d] - begin[d] : 0;
      stride[d] = input.strides[input.ndim - w.dims + d];
    }
    C sum = C(0);
    for (int64_t x = begin[0]; x < end[0]; ++x)
      for (int64_t y = begin[1]; y < end[1]; ++y)
        for (int64_t z = begin[2]; z < end[2]; ++z)
          sum += static_cast<C>(plane[x * stride[0] + y * stride[1] + z * stride[2]]);
    static_cast<T*>(out.data)[offset_of(out, i)] =
        inside ? static_cast<T>(sum / static_cast<C>(average_divisor(w, a, padded, inside)))
               : static_cast<T>(C(0));
  }
}
// Each element of the input sums up the windows that it is in.
template <class T>
__global__ void avg_pool_gradient(Strided grad, Strided result, Window w, AverageArgs a) {
  using C = compute_t<T>;
  for (int64_t i = thread_id(); i < result.numel; i += thread_count()) {
    int64_t x[3], first[3] = {0, 0, 0}, last[3] = {0, 0, 0};
    plane_offset(result, w.dims, i, x);
    const T* plane = static_cast<const T*>(grad.data) + same_plane(grad, result, w.dims, i);
    for (int d = 0; d < w.dims; ++d) {
      int64_t from = x[d] + w.padding[d];
      first[d] = from < w.kernel[d] ? 0 : (from - w.kernel[d]) / w.stride[d] + 1;
      last[d] = from / w.stride[d];
      if (last[d] >= w.out[d]) last[d] = w.out[d] - 1;
    }
    C sum = C(0);
    for (int64_t p = first[0]; p <= last[0]; ++p)
      for (int64_t q = first[1]; q <= last[1]; ++q)
        for (int64_t r = first[2]; r <= last[2]; ++r) {
          int64_t at[3] = {p, q, r}, padded = 1, inside = 1, offset = 0;
          for (int d = 0; d < w.dims; ++d) {
            int64_t begin, end;
            padded *= average_window(w, d, at[d], begin, end);
            inside *= end > begin ? end - begin : 0;
            offset += at[d] * grad.strides[grad.ndim - w.dims + d];
          }
          if (inside)
            sum += static_cast<C>(plane[offset]) /
                   static_cast<C>(average_divisor(w, a, padded, inside));
        }
    static_cast<T*>(result.data)[offset_of(result, i)] = static_cast<T>(sum);
  }
}

// Window `at` of `count` over `size` elements.
__device__ inline int64_t adaptive_begin(int64_t at, int64_t count, int64_t size) {
  return at * size / count;
}
__device__ inline int64_t adaptive_end(int64_t at, int64_t count, int64_t size) {
  return ((at + 1) * size + count - 1) / count;
}
template <class T> __global__ void adaptive_avg_forward(Strided input, Strided out, Window w) {
  using C = compute_t<T>;
  for (int64_t i = thread_id(); i < out.numel; i += thread_count()) {
    int64_t place[3], begin[3] = {0, 0, 0}, end[3] = {1, 1, 1}, stride[3] = {0, 0, 0}, count = 1;
    plane_offset(out, w.dims, i, place);
    const T* plane = static_cast<const T*>(input.data) + same_plane(input, out, w.dims, i);
    for (int d = 0; d < w.dims; ++d) {
      begin[d] = adaptive_begin(place[d], w.out[d], w.in[d]);
      end[d] = adaptive_end(place[d], w.out[d], w.in[d]);
      count *= end[d] - begin[d];
      stride[d] = input.strides[input.ndim - w.dims + d];
    }
    C sum = C(0);
    for (int64_t x = begin[0]; x < end[0]; ++x)
      for (int64_t y = begin[1]; y < end[1]; ++y)
        for (int64_t z = begin[2]; z < end[2]; ++z)
          sum += static_cast<C>(plane[x * stride[0] + y * stride[1] + z * stride[2]]);
    static_cast<T*>(out.data)[offset_of(out, i)] = static_cast<T>(sum / static_cast<C>(count));
  }
}
template <class T> __global__ void adaptive_avg_gradient(Strided grad, Strided result, Window w) {
  using C = compute_t<T>;
  for (int64_t i = thread_id(); i < result.numel; i += thread_count()) {
    int64_t x[3], first[3] = {0, 0, 0}, last[3] = {0, 0, 0};
    plane_offset(result, w.dims, i, x);
    const T* plane = static_cast<const T*>(grad.data) + same_plane(grad, result, w.dims, i);
    for (int d = 0; d < w.dims; ++d) {
      first[d] = x[d] * w.out[d] / w.in[d];
      last[d] = ((x[d] + 1) * w.out[d] - 1) / w.in[d];
    }
    C sum = C(0);
    for (int64_t p = first[0]; p <= last[0]; ++p)
      for (int64_t q = first[1]; q <= last[1]; ++q)
        for (int64_t r = first[2]; r <= last[2]; ++r) {
          int64_t at[3] = {p, q, r}, count = 1, offset = 0;
          for (int d = 0; d < w.dims; ++d) {
            count *= adaptive_end(at[d], w.out[d], w.in[d]) -
                     adaptive_begin(at[d], w.out[d], w.in[d]);
            offset += at[d] * grad.strides[grad.ndim - w.dims + d];
          }
          sum += static_cast<C>(plane[offset]) / static_cast<C>(count);
        }
    static_cast<T*>(result.data)[offset_of(result, i)] = static_cast<T>(sum);
  }
}
template <class T>
__global__ void adaptive_max_forward(Strided input, Strided out, Strided indices, Window w) {
  using C = compute_t<T>;
  for (int64_t i = thread_id(); i < out.numel; i += thread_count()) {
    int64_t place[3], begin[3] = {0, 0, 0}, end[3] = {1, 1, 1}, stride[3] = {0, 0, 0}, best = -1;
    plane_offset(out, w.dims, i, place);
    const T* plane = static_cast<const T*>(input.data) + same_plane(input, out, w.dims, i);
    for (int d = 0; d < w.dims; ++d) {
      begin[d] = adaptive_begin(place[d], w.out[d], w.in[d]);
      end[d] = adaptive_end(place[d], w.out[d], w.in[d]);
      stride[d] = input.strides[input.ndim - w.dims + d];
    }
    int64_t wide = w.dims > 1 ? w.in[1] : 1, deep = w.dims > 2 ? w.in[2] : 1;
    C value = C(0);
    for (int64_t x = begin[0]; x < end[0]; ++x)
      for (int64_t y = begin[1]; y < end[1]; ++y)
        for (int64_t z = begin[2]; z < end[2]; ++z) {
          C v = static_cast<C>(plane[x * stride[0] + y * stride[1] + z * stride[2]]);
          if (best >= 0 && !(v > value) && !(math::isnan(v) && !math::isnan(value))) continue;
          value = v;
          best = (x * wide + y) * deep + z;
        }
    static_cast<T*>(out.data)[offset_of(out, i)] = static_cast<T>(value);
    static_cast<int64_t*>(indices.data)[offset_of(indices, i)] = best;
  }
}

}  // namespace rl::cuda
