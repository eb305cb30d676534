// Sorting, and what stands on sorted lines.
#pragma once
#include "kernels/cuda/device/elementwise.cuh"

namespace rl::cuda {

// ---- sorting of short lines: bitonic, of pairs (value, place), which makes it stable

template <class C> __device__ bool sorts_before(C a, int64_t i, C b, int64_t j, bool descending) {
  bool nan_a = math::isnan(a), nan_b = math::isnan(b);
  if (nan_a || nan_b) {
    if (nan_a && nan_b) return i < j;
    return descending ? nan_a : nan_b;
  }
  if (a == b) return i < j;
  return descending ? a > b : a < b;
}

// Lines of `padded` pairs, a power of two; those from `count` on sort behind all others.
template <class T>
__global__ void load_pairs(Strided input, int64_t count, int64_t step, int64_t padded, T* keys,
                           int64_t* places) {
  int64_t total = input.numel * padded;
  for (int64_t i = thread_id(); i < total; i += thread_count()) {
    int64_t row = i / padded, k = i % padded;
    places[i] = k < count ? k : -1;
    T zero{};
    keys[i] = k < count ? static_cast<const T*>(input.data)[offset_of(input, row) + k * step] : zero;
  }
}
template <class T>
__device__ void exchange(T* keys, int64_t* places, int64_t i, int64_t j, bool up, bool descending) {
  using C = compute_t<T>;
  int64_t p = places[i], q = places[j];
  // Padding (-1) is last.
  bool ordered = q < 0 || (p >= 0 && sorts_before(static_cast<C>(keys[i]), p,
                                                  static_cast<C>(keys[j]), q, descending));
  if (p < 0 && q < 0) return;
  if (ordered == up) return;
  T key = keys[i];
  keys[i] = keys[j];
  keys[j] = key;
  places[i] = q;
  places[j] = p;
}
// The whole network for lines that fit into shared memory: a block a line.
template <class T, int most>
__global__ void sort_lines(T* keys, int64_t* places, int64_t lines, int64_t padded, int descending) {
  __shared__ __align__(16) unsigned char memory[most * (sizeof(T) + 8)];
  int64_t* own_places = reinterpret_cast<int64_t*>(memory);
  T* own = reinterpret_cast<T*>(memory + most * 8);
  for (int64_t line = blockIdx.x; line < lines; line += gridDim.x) {
    __syncthreads();
    for (int64_t i = threadIdx.x; i < padded; i += blockDim.x) {
      own[i] = keys[line * padded + i];
      own_places[i] = places[line * padded + i];
    }
    for (int64_t size = 2; size <= padded; size *= 2)
      for (int64_t stride = size / 2; stride > 0; stride /= 2) {
        __syncthreads();
        for (int64_t i = threadIdx.x; i < padded; i += blockDim.x) {
          int64_t other = i ^ stride;
          if (other > i) exchange(own, own_places, i, other, (i & size) == 0, descending);
        }
      }
    __syncthreads();
    for (int64_t i = threadIdx.x; i < padded; i += blockDim.x) {
      keys[line * padded + i] = own[i];
      places[line * padded + i] = own_places[i];
    }
  }
}
// The first `take` of each line, from `first` on.
template <class T>
__global__ void store_pairs(const T* keys, const int64_t* places, int64_t padded, int64_t first,
                            int64_t take, Strided values, int64_t value_step, Strided indices,
                            int64_t index_step) {
  int64_t total = indices.numel * take;
  for (int64_t i = thread_id(); i < total; i += thread_count()) {
    int64_t row = i / take, k = i % take, at = row * padded + first + k;
    if (values.data)
      static_cast<T*>(values.data)[offset_of(values, row) + k * value_step] = keys[at];
    static_cast<int64_t*>(indices.data)[offset_of(indices, row) + k * index_step] = places[at];
  }
}
// The lower median of each sorted line: the first NaN if there is one, or that of the numbers alone.
template <class T>
__global__ void store_medians(const T* keys, const int64_t* places, int64_t count, int64_t padded,
                              int ignore_nan, Strided values, Strided indices) {
  using C = compute_t<T>;
  for (int64_t row = thread_id(); row < indices.numel; row += thread_count()) {
    const T* line = keys + row * padded;
    int64_t numbers = count;  // NaNs stand last
    while (numbers > 0 && math::isnan(static_cast<C>(line[numbers - 1]))) --numbers;
    int64_t k = numbers == count ? (count - 1) / 2
                : ignore_nan     ? (numbers ? (numbers - 1) / 2 : 0)
                                 : numbers;
    if (values.data) static_cast<T*>(values.data)[offset_of(values, row)] = line[k];
    static_cast<int64_t*>(indices.data)[offset_of(indices, row)] = places[row * padded + k];
  }
}

// The longest run of equals in each sorted line, the first of several such, and the place of its
// last element, which is the last in the line. No NaN equals another.
template <class T>
__global__ void store_modes(const T* keys, const int64_t* places, int64_t count, int64_t padded,
                            Strided values, Strided indices) {
  using C = compute_t<T>;
  for (int64_t row = thread_id(); row < indices.numel; row += thread_count()) {
    const T* line = keys + row * padded;
    int64_t best = 0, longest = 0, begin = 0;
    for (int64_t i = 1; i <= count; ++i) {
      if (i < count && static_cast<C>(line[i]) == static_cast<C>(line[begin])) continue;
      if (i - begin > longest) {
        longest = i - begin;
        best = i - 1;
      }
      begin = i;
    }
    if (values.data) static_cast<T*>(values.data)[offset_of(values, row)] = line[best];
    static_cast<int64_t*>(indices.data)[offset_of(indices, row)] = places[row * padded + best];
  }
}

template <class T>
__global__ void search_sorted(const T* sorted, int64_t length, int64_t rows, const int64_t* sorter,
                              const T* values, int64_t each, int64_t total, int right, void* out,
                              int out_dtype) {
  using C = compute_t<T>;
  for (int64_t i = thread_id(); i < total; i += thread_count()) {
    int64_t row = rows > 1 ? i / each : 0, low = 0, high = length;
    C v = static_cast<C>(values[i]);
    while (low < high) {
      int64_t middle = low + (high - low) / 2;
      int64_t at = sorter ? sorter[row * length + middle] : middle;
      C x = static_cast<C>(sorted[row * length + at]);
      bool before;
      if (right) before = !(math::isnan(x) && !math::isnan(v)) && !(x > v);
      else before = (x < v) || (math::isnan(v) && !math::isnan(x));
      if (before) low = middle + 1;
      else high = middle;
    }
    store_as(out, out_dtype, i, low);
  }
}

template <class T, class W>
__global__ void count_values(Strided input, Strided weights, W* out, int64_t bins, FaultPlace fault) {
  for (int64_t i = thread_id(); i < input.numel; i += thread_count()) {
    int64_t value = convert<int64_t>(static_cast<const T*>(input.data)[offset_of(input, i)]);
    if (value < 0 || value >= bins) {
      report(fault, NegativeCount, value, bins, 0);
      continue;
    }
    W one = weights.data ? static_cast<const W*>(weights.data)[offset_of(weights, i)] : W(1);
    add_at(out + value, one);
  }
}

template <class T, class C>
__global__ void count_bins(Strided input, int64_t* counts, int64_t bins, C low, C high) {
  for (int64_t i = thread_id(); i < input.numel; i += thread_count()) {
    C x = static_cast<C>(static_cast<const T*>(input.data)[offset_of(input, i)]);
    if (!(x >= low && x <= high)) continue;
    int64_t bin = static_cast<int64_t>((x - low) * static_cast<C>(bins) / (high - low));
    add_at(counts + (bin < bins ? bin : bins - 1), int64_t(1));
  }
}

// ---- distinct rows of a contiguous (n, width) matrix, one after another by `order` (null: as they
// lie)

// starts[i]: whether row i in that order differs from the one before. No NaN equals another.
template <class T>
__global__ void mark_starts(const T* rows, const int64_t* order, int64_t n, int64_t width,
                            int64_t* starts) {
  using C = compute_t<T>;
  for (int64_t i = thread_id(); i < n; i += thread_count()) {
    bool differs = i == 0;
    const T* row = rows + (order ? order[i] : i) * width;
    const T* before = i ? rows + (order ? order[i - 1] : i - 1) * width : row;
    for (int64_t k = 0; k < width && !differs; ++k)
      differs = !(static_cast<C>(row[k]) == static_cast<C>(before[k]));
    starts[i] = differs;
  }
}
// groups[i]: how many starts there are up to i. begins gets where each group begins in the order.
template <int unused>
__global__ void list_groups(const int64_t* groups, const int64_t* order, int64_t n, int64_t* first,
                            int64_t* begins, int64_t* inverse) {
  for (int64_t i = thread_id(); i < n; i += thread_count()) {
    int64_t place = order ? order[i] : i, group = groups[i] - 1;
    if (inverse) inverse[place] = group;
    if (i && groups[i - 1] == groups[i]) continue;
    first[group] = place;
    begins[group] = i;
  }
}
template <int unused>
__global__ void count_groups(const int64_t* begins, int64_t groups, int64_t n, int64_t* counts) {
  for (int64_t g = thread_id(); g < groups; g += thread_count())
    counts[g] = (g + 1 < groups ? begins[g + 1] : n) - begins[g];
}

}  // namespace rl::cuda
