// Resampling, padding by an image's own elements, and sampling at the places of a grid.
#pragma once
#include "kernels/cuda/device/elementwise.cuh"
#include "kernels/cuda/device/resample.h"

namespace rl::cuda {

template <class C> __global__ void resample_lines(ResamplePass p) {
  int64_t total = p.outer * p.after * p.inner;
  const C* weights = static_cast<const C*>(p.weights);
  for (int64_t i = thread_id(); i < total; i += thread_count()) {
    int64_t o = i / p.inner % p.after, inner = i % p.inner, outer = i / p.inner / p.after;
    int64_t line = outer * p.before * p.inner + inner;
    C sum = C(0);
    for (int64_t k = p.begins[o]; k < p.begins[o + 1]; ++k)
      sum = math::plus_product(sum, weights[k],
                               load_as<C>(p.from, p.from_dtype, line + p.places[k] * p.inner));
    if (p.bytes) {
      sum = sum + C(0.5);
      sum = sum < C(0) ? C(0) : sum > C(255) ? C(255) : sum;
      sum = static_cast<C>(static_cast<int>(sum));
    }
    store_as<C>(p.to, p.to_dtype, i, sum);
  }
}

template <class T> __global__ void pad_elements(Strided input, Strided out, PaddedDims dims) {
  int first = out.ndim - dims.count;
  for (int64_t i = thread_id(); i < out.numel; i += thread_count()) {
    int64_t rest = i, from = 0, to = 0;
    for (int d = out.ndim - 1; d >= 0; --d) {
      int64_t at = rest % out.sizes[d];
      rest /= out.sizes[d];
      to += at * out.strides[d];
      from += (d < first ? at : dims.table[dims.begins[d - first] + at]) * input.strides[d];
    }
    static_cast<T*>(out.data)[to] = static_cast<const T*>(input.data)[from];
  }
}
// The table lists, for each element of each dim of the input, where the list of its places begins,
// and behind those `size + 1` numbers the lists.
template <class T> __global__ void pad_gradient(Strided grad, Strided result, PaddedDims dims) {
  using A = accumulate_t<T>;
  int first = grad.ndim - dims.count;
  for (int64_t i = thread_id(); i < result.numel; i += thread_count()) {
    int64_t rest = i, base = 0, to = 0, places = 1;
    int64_t begin[most_padded_dims], count[most_padded_dims];
    for (int d = grad.ndim - 1; d >= 0; --d) {
      int64_t at = rest % result.sizes[d];
      rest /= result.sizes[d];
      to += at * result.strides[d];
      if (d < first) {
        base += at * grad.strides[d];
        continue;
      }
      const int64_t* begins = dims.table + dims.begins[d - first];
      begin[d - first] = dims.begins[d - first] + result.sizes[d] + 1 + begins[at];
      count[d - first] = begins[at + 1] - begins[at];
      places *= count[d - first];
    }
    A sum = A(0);
    for (int64_t place = 0; place < places; ++place) {
      int64_t left = place, from = base;
      for (int k = dims.count - 1; k >= 0; --k) {
        from += dims.table[begin[k] + left % count[k]] * grad.strides[first + k];
        left /= count[k];
      }
      sum = sum + convert<A>(static_cast<const T*>(grad.data)[from]);
    }
    static_cast<T*>(result.data)[to] = convert<T>(sum);
  }
}

// ---- grid_sample: the neighbours of a place along one dim, which is a product of them in all

template <class C> struct GridLine {
  int width;
  C at[4], weight[4];
};
// A coordinate moved into the image, and how it then moves with the original one: 1, -1 or 0.
template <class C> __device__ C grid_clip(C at, C last, C& slope) {
  if (!(at > C(0))) {  // NaN too
    slope = C(0);
    return C(0);
  }
  if (at < last) return at;
  slope = C(0);
  return last;
}
template <class C> __device__ C grid_move(const GridArgs& a, C at, int64_t size, C& slope) {
  slope = C(1);
  C last = static_cast<C>(size - 1);
  if (a.padding == GridZeros) return at;
  if (a.padding == GridBorder) return grid_clip(at, last, slope);
  C low = a.align_corners ? C(0) : C(-0.5), span = a.align_corners ? last : static_cast<C>(size);
  if (span == C(0)) {
    slope = C(0);
    return C(0);
  }
  C distance = at - low;
  if (distance < C(0)) {
    distance = -distance;
    slope = C(-1);
  }
  C turns = math::floor(distance / span), rest = distance - turns * span;
  bool back = turns - C(2) * math::floor(turns * C(0.5)) != C(0);
  if (back) slope = -slope;
  return grid_clip(back ? span - rest + low : rest + low, last, slope);
}
// The k-th derivative of Keys' (1981) cubic weight, sharpness -0.75, at distance t >= 0.
template <class C> __device__ C grid_cubic(C t, int k) {
  constexpr C a = C(-0.75), p = a + 2, q = a + 3;
  bool near = t <= C(1);
  switch (k) {
    case 0: return near ? (p * t - q) * t * t + 1 : ((a * t - 5 * a) * t + 8 * a) * t - 4 * a;
    case 1: return near ? (3 * p * t - 2 * q) * t : (3 * a * t - 10 * a) * t + 8 * a;
    case 2: return near ? 6 * p * t - 2 * q : 6 * a * t - 10 * a;
    case 3: return near ? 6 * p : 6 * a;
    default: return C(0);
  }
}
template <class C>
__device__ GridLine<C> grid_line(const GridArgs& a, C coordinate, int64_t size, int order) {
  GridLine<C> line;
  C scale = static_cast<C>(a.align_corners ? size - 1 : size) / 2, chain = C(1), slope;
  for (int i = 0; i < order; ++i) chain *= scale;
  C pixel = a.align_corners ? (coordinate + 1) * scale
                            : ((coordinate + 1) * static_cast<C>(size) - 1) / 2;
  if (a.mode == GridBicubic) {
    line.width = 4;
    C low = math::floor(pixel);
    for (int k = 0; k < 4; ++k) {
      C at = low + static_cast<C>(k - 1), distance = pixel - at;
      C weight = grid_cubic(distance < C(0) ? -distance : distance, order);
      line.at[k] = grid_move(a, at, size, slope);
      line.weight[k] = (order % 2 && distance < C(0) ? -weight : weight) * chain;
    }
  } else if (a.mode == GridNearest) {
    line.width = 1;
    line.at[0] = math::round(grid_move(a, pixel, size, slope));
    line.weight[0] = order ? C(0) : C(1);
  } else {
    line.width = 2;
    C inside = grid_move(a, pixel, size, slope);
    C low = math::floor(inside), past = inside - low;
    slope *= order == 1 ? chain : C(0);
    line.at[0] = low;
    line.at[1] = low + C(1);
    line.weight[0] = order ? -slope : C(1) - past;
    line.weight[1] = order ? slope : past;
  }
  return line;
}
// f(offset in a plane, weight) for the neighbours of a place. One that lies outside is left out,
// unless its weight is NaN, of which the sum then is.
template <class C, class F>
__device__ void grid_neighbours(const GridArgs& a, const C* place, const int* orders, F f) {
  GridLine<C> lines[3];
  int all = 1;
  for (int d = 0; d < a.dims; ++d) {  // the grid's first column belongs to the last dim
    int column = a.dims - 1 - d;
    lines[d] = grid_line(a, place[column], a.size[d], orders[column]);
    all *= lines[d].width;
  }
  for (int k = 0; k < all; ++k) {
    int rest = k;
    int64_t offset = 0, step = 1;
    C weight = C(1);
    bool inside = true;
    for (int d = a.dims - 1; d >= 0; --d) {
      int at = rest % lines[d].width;
      rest /= lines[d].width;
      C pixel = lines[d].at[at];
      bool within = pixel >= C(0) && pixel < static_cast<C>(a.size[d]);
      if (within) offset += static_cast<int64_t>(pixel) * step;
      inside &= within;
      step *= a.size[d];
      weight *= lines[d].weight[at];
    }
    if (inside) f(offset, weight);
    else if (weight != weight) f(int64_t(-1), weight);
  }
}

template <class T> __global__ void sample_grid(const T* image, const T* grid, T* out, GridArgs a) {
  int64_t total = a.batch * a.channels * a.places;
  for (int64_t i = thread_id(); i < total; i += thread_count()) {
    int64_t place = i % a.places, plane = i / a.places, n = plane / a.channels;
    T sum = T(0);
    grid_neighbours(a, grid + (n * a.places + place) * a.dims, a.orders, [&](int64_t at, T weight) {
      sum = at < 0 ? weight : math::plus_product(sum, weight, image[plane * a.plane + at]);
    });
    out[i] = sum;
  }
}
template <class T>
__global__ void grid_slope(const T* values, const T* image, const T* grid, T* out, GridArgs a) {
  int64_t total = a.batch * a.places * a.dims;
  for (int64_t i = thread_id(); i < total; i += thread_count()) {
    int64_t column = i % a.dims, place = i / a.dims % a.places, n = i / a.dims / a.places;
    int orders[3] = {a.orders[0], a.orders[1], a.orders[2]};
    ++orders[column];
    T sum = T(0);
    for (int64_t c = 0; c < a.channels; ++c) {
      const T* plane = image + (n * a.channels + c) * a.plane;
      T value = values[(n * a.channels + c) * a.places + place], slope = T(0);
      grid_neighbours(a, grid + (n * a.places + place) * a.dims, orders, [&](int64_t at, T weight) {
        slope = at < 0 ? weight : math::plus_product(slope, weight, plane[at]);
      });
      sum = math::plus_product(sum, value, slope);
    }
    out[i] = sum;
  }
}
template <class T>
__global__ void grid_spread(const T* values, const T* grid, T* out, GridArgs a) {
  int64_t total = a.batch * a.channels * a.places;
  for (int64_t i = thread_id(); i < total; i += thread_count()) {
    int64_t place = i % a.places, plane = i / a.places, n = plane / a.channels;
    grid_neighbours(a, grid + (n * a.places + place) * a.dims, a.orders, [&](int64_t at, T weight) {
      if (at >= 0) add_at(out + plane * a.plane + at, weight * values[i]);
    });
  }
}

}  // namespace rl::cuda
