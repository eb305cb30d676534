// Reading and writing at computed places.
#pragma once
#include "kernels/cuda/device/elementwise.cuh"
#include "kernels/cuda/device/index.h"

namespace rl::cuda {

template <class T> __device__ T combined(int how, T a, T b) {
  if constexpr (is_complex_v<T>) {
    return how == CombineProd ? math::times(a, b) : b;
  } else {
    using C = compute_t<T>;
    C x = static_cast<C>(a), y = static_cast<C>(b);
    return static_cast<T>(how == CombineProd  ? static_cast<C>(x * y)
                          : how == CombineMax ? math::maximum(x, y)
                                              : math::minimum(x, y));
  }
}
// *at = combined(*at, value), in one step.
template <class T> __device__ void combine_at(T* at, T value, int how) {
  if (how == CombineSet) {
    *at = value;
  } else if (how == CombineSum || how == CombineMean) {
    add_at(at, value);
  } else if constexpr (sizeof(T) <= 8) {
    constexpr bool wide = sizeof(T) == 8;
    using Word = std::conditional_t<wide, unsigned long long, unsigned>;
    auto address = reinterpret_cast<uintptr_t>(at);
    auto* word = reinterpret_cast<Word*>(address & ~uintptr_t(sizeof(Word) - 1));
    unsigned shift = 8 * static_cast<unsigned>(address & (sizeof(Word) - 1));
    Word old = *word, seen;
    do {
      seen = old;
      Word bits = seen >> shift;
      T current;
      __builtin_memcpy(&current, &bits, sizeof(T));
      T result = combined(how, current, value);
      Word fresh = 0;
      __builtin_memcpy(&fresh, &result, sizeof(T));
      Word mask = sizeof(T) == sizeof(Word) ? ~Word(0)
                                            : ((Word(1) << (8 * sizeof(T) % (8 * sizeof(Word)))) - 1)
                                                  << shift;
      old = atomicCAS(word, seen, (seen & ~mask) | (fresh << shift & mask));
    } while (old != seen);
  }
}

// An index, checked; -1 where it is outside.
__device__ inline int64_t checked_index(int64_t index, const PlaceArgs& a) {
  int64_t place = index < 0 && a.negative ? index + a.size : index;
  if (place >= 0 && place < a.size) return place;
  report(a.fault, a.kind, index, a.size, a.dim);
  return -1;
}

// Offsets of element i of `like` in it and in another view, whose place along `dim` is left out.
__device__ inline void paired_offsets(const Strided& like, const Strided& other,
                                      const Strided& third, int dim, int64_t i, int64_t& own,
                                      int64_t& beside, int64_t& last) {
  own = beside = last = 0;
  bool narrow = like.numel <= 0x7fffffff;
  for (int d = like.ndim - 1; d >= 0; --d) {
    int64_t size = like.sizes[d];
    int64_t next = narrow ? static_cast<unsigned>(i) / static_cast<unsigned>(size) : i / size;
    int64_t at = i - next * size;
    i = next;
    own += at * like.strides[d];
    last += at * third.strides[d];
    if (d != dim) beside += at * other.strides[d];
  }
}

template <class T>
__global__ void gather_elements(Strided input, Strided index, Strided out, PlaceArgs a) {
  for (int64_t i = thread_id(); i < index.numel; i += thread_count()) {
    int64_t own, from, to;
    paired_offsets(index, input, out, a.dim, i, own, from, to);
    int64_t place = checked_index(load_index(index, own), a);
    if (place < 0) continue;
    static_cast<T*>(out.data)[to] =
        static_cast<const T*>(input.data)[from + place * input.strides[a.dim]];
  }
}
template <class T>
__global__ void scatter_elements(Strided self, Strided index, Strided src, PlaceArgs a, int how,
                                 void* counts, Strided count_view) {
  for (int64_t i = thread_id(); i < index.numel; i += thread_count()) {
    int64_t own, to, from;
    paired_offsets(index, self, src, a.dim, i, own, to, from);
    int64_t place = checked_index(load_index(index, own), a);
    if (place < 0) continue;
    combine_at(static_cast<T*>(self.data) + to + place * self.strides[a.dim],
               static_cast<const T*>(src.data)[from], how);
    if (counts) {
      int64_t unused, beside, also;
      paired_offsets(index, count_view, src, a.dim, i, unused, beside, also);
      add_at(static_cast<int64_t*>(counts) + beside + place * count_view.strides[a.dim],
             int64_t(1));
    }
  }
}
// Before: places that will be written begin from `value`.
template <class T>
__global__ void begin_scatter(Strided self, Strided index, PlaceArgs a, Element16 given) {
  T value;
  __builtin_memcpy(&value, &given, sizeof(T));
  for (int64_t i = thread_id(); i < index.numel; i += thread_count()) {
    int64_t own, to, unused;
    paired_offsets(index, self, index, a.dim, i, own, to, unused);
    int64_t place = checked_index(load_index(index, own), a);
    if (place >= 0) static_cast<T*>(self.data)[to + place * self.strides[a.dim]] = value;
  }
}
// After: sums become means.
template <class T>
__global__ void divide_by_counts(Strided self, const int64_t* counts, int64_t more) {
  for (int64_t i = thread_id(); i < self.numel; i += thread_count()) {
    int64_t n = counts[i];
    if (!n || n + more <= 1) continue;
    T& value = static_cast<T*>(self.data)[offset_of(self, i)];
    if constexpr (is_complex_v<T>) {
      using R = real_t<T>;
      value = T(value.real() / static_cast<R>(n + more), value.imag() / static_cast<R>(n + more));
    } else {
      using C = compute_t<T>;
      if constexpr (math::is_float_v<C>)
        value = static_cast<T>(static_cast<C>(value) / static_cast<C>(n + more));
      else
        value = static_cast<T>(math::floor_divide(static_cast<C>(value), static_cast<C>(n + more)));
    }
  }
}

// Flat places.
template <class T>
__global__ void take_elements(Strided input, Strided index, Strided out, PlaceArgs a) {
  for (int64_t i = thread_id(); i < index.numel; i += thread_count()) {
    int64_t place = checked_index(load_index(index, offset_of(index, i)), a);
    if (place < 0) continue;
    static_cast<T*>(out.data)[offset_of(out, i)] =
        static_cast<const T*>(input.data)[offset_of(input, place)];
  }
}
template <class T>
__global__ void put_elements(Strided self, Strided index, Strided src, PlaceArgs a, int how) {
  for (int64_t i = thread_id(); i < index.numel; i += thread_count()) {
    int64_t place = checked_index(load_index(index, offset_of(index, i)), a);
    if (place < 0) continue;
    combine_at(static_cast<T*>(self.data) + offset_of(self, place),
               static_cast<const T*>(src.data)[offset_of(src, i)], how);
  }
}

// `whole` is out or values, of sizes B + rest; `rest` are the dims of the tensor that no index names.
template <class T, bool write>
__global__ void index_elements(T* data, Indices indices, Strided whole, Strided rest, int how) {
  int64_t inner = rest.numel;
  for (int64_t i = thread_id(); i < whole.numel; i += thread_count()) {
    int64_t b = i / inner, r = i % inner, offset = offset_of(rest, r);
    bool inside = true;
    for (int k = 0; k < indices.count; ++k) {
      const Strided& v = indices.views[k];
      PlaceArgs a{k, 1, IndexOutOfRange, indices.sizes[k], indices.fault};
      int64_t place = checked_index(load_index(v, offset_of(v, b)), a);
      inside &= place >= 0;
      offset += place * indices.strides[k];
    }
    if (!inside) continue;
    T* at = static_cast<T*>(whole.data) + offset_of(whole, i);
    if constexpr (write) combine_at(data + offset, *at, how);
    else *at = data[offset];
  }
}

// ---- what is true, counted: `chunk` elements a block

template <int unused> __global__ void count_flags(Strided flags, int64_t* counts) {
  int64_t chunks = (flags.numel + chunk - 1) / chunk;
  for (int64_t c = blockIdx.x; c < chunks; c += gridDim.x) {
    int64_t end = (c + 1) * chunk < flags.numel ? (c + 1) * chunk : flags.numel, n = 0;
    for (int64_t i = c * chunk + threadIdx.x; i < end; i += blockDim.x)
      n += load_as<bool>(flags.data, flags.dtype, offset_of(flags, i));
    n = block_sum(n);
    if (threadIdx.x == 0) counts[c] = n;
  }
}
// counts become the sums of those before; counts[n] that of all. One block.
template <int unused> __global__ void add_up(int64_t* counts, int64_t n) {
  __shared__ int64_t sums[block_threads];
  int64_t each = (n + blockDim.x - 1) / blockDim.x, begin = threadIdx.x * each;
  int64_t end = begin + each < n ? begin + each : n, sum = 0;
  for (int64_t i = begin; i < end; ++i) sum += counts[i];
  sums[threadIdx.x] = sum;
  __syncthreads();
  int64_t before = 0, all = 0;
  for (int t = 0; t < static_cast<int>(blockDim.x); ++t) {
    if (t < static_cast<int>(threadIdx.x)) before += sums[t];
    all += sums[t];
  }
  for (int64_t i = begin; i < end; ++i) {
    int64_t own = counts[i];
    counts[i] = before;
    before += own;
  }
  if (threadIdx.x == 0) counts[n] = all;
}
// f(i, k): element i is the k-th that is true. One thread counts a chunk's: they are in order.
template <class F> __device__ void for_each_flag(const Strided& flags, const int64_t* counts, F f) {
  int64_t chunks = (flags.numel + chunk - 1) / chunk;
  for (int64_t c = thread_id(); c < chunks; c += thread_count()) {
    int64_t end = (c + 1) * chunk < flags.numel ? (c + 1) * chunk : flags.numel, k = counts[c];
    for (int64_t i = c * chunk; i < end; ++i)
      if (load_as<bool>(flags.data, flags.dtype, offset_of(flags, i))) f(i, k++);
  }
}
template <class T>
__global__ void select_flagged(Strided flags, const int64_t* counts, Strided input, Strided out) {
  for_each_flag(flags, counts, [&](int64_t i, int64_t k) {
    static_cast<T*>(out.data)[k * out.strides[0]] =
        static_cast<const T*>(input.data)[offset_of(input, i)];
  });
}
template <class T>
__global__ void scatter_flagged(Strided flags, const int64_t* counts, Strided self, Strided src) {
  for_each_flag(flags, counts, [&](int64_t i, int64_t k) {
    if (k < src.numel)
      static_cast<T*>(self.data)[offset_of(self, i)] =
          static_cast<const T*>(src.data)[offset_of(src, k)];
  });
}
template <int unused>
__global__ void write_places(Strided flags, const int64_t* counts, Strided out) {
  for_each_flag(flags, counts, [&](int64_t i, int64_t k) {
    for (int d = flags.ndim - 1; d >= 0; --d) {
      static_cast<int64_t*>(out.data)[k * out.strides[0] + d * out.strides[1]] = i % flags.sizes[d];
      i /= flags.sizes[d];
    }
  });
}

template <class T>
__global__ void keep_triangle(Strided input, Strided out, int64_t diagonal, int upper) {
  for (int64_t i = thread_id(); i < input.numel; i += thread_count()) {
    int64_t column = i % input.sizes[input.ndim - 1];
    int64_t row = i / input.sizes[input.ndim - 1] % input.sizes[input.ndim - 2];
    bool keep = upper ? column - row >= diagonal : column - row <= diagonal;
    T value{};
    if (keep) value = static_cast<const T*>(input.data)[offset_of(input, i)];
    static_cast<T*>(out.data)[offset_of(out, i)] = value;
  }
}

// ---- tables

// Whole rows of `width` elements: row `index` of each of `outer` tables of a.size rows.
template <class T>
__global__ void select_rows(const T* input, T* out, Strided index, int64_t outer, int64_t width,
                            PlaceArgs a) {
  int64_t rows = outer * index.numel, all = rows * width;
  bool narrow = all <= 0x7fffffff;
  for (int64_t i = thread_id(); i < all; i += thread_count()) {
    int64_t row = narrow ? static_cast<unsigned>(i) / static_cast<unsigned>(width) : i / width;
    int64_t table = outer == 1 ? 0 : row / index.numel, n = row - table * index.numel;
    int64_t place = checked_index(load_index(index, offset_of(index, n)), a);
    if (place >= 0) out[i] = input[(table * a.size + place) * width + (i - row * width)];
  }
}
template <int unused> __global__ void count_indices(Strided index, int64_t* counts, PlaceArgs a) {
  for (int64_t i = thread_id(); i < index.numel; i += thread_count()) {
    int64_t place = checked_index(load_index(index, offset_of(index, i)), a);
    if (place >= 0) add_at(counts + place, int64_t(1));
  }
}
template <class T>
__global__ void embed_gradient(Strided grad, Strided index, Strided weight, int64_t padding,
                               const int64_t* counts, PlaceArgs a) {
  using C = compute_t<T>;
  int64_t width = weight.sizes[1];
  for (int64_t i = thread_id(); i < index.numel * width; i += thread_count()) {
    int64_t row = i / width, column = i % width, given = load_index(index, offset_of(index, row));
    if (given == padding) continue;
    int64_t place = checked_index(given, a);
    if (place < 0) continue;
    T value = static_cast<const T*>(grad.data)[offset_of(grad, i)];
    if (counts) value = static_cast<T>(static_cast<C>(value) / static_cast<C>(counts[place]));
    add_at(static_cast<T*>(weight.data) + place * weight.strides[0] + column * weight.strides[1],
           value);
  }
}

}  // namespace rl::cuda
