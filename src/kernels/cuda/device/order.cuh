// Scans along a dim, sorting, and what stands on sorted lines.
#pragma once
#include "kernels/cuda/device/elementwise.cuh"
#include "kernels/cuda/device/order.h"

namespace rl::cuda {

// What a scan carries: a value, and of cummax and cummin its place.
template <class A> struct Carried {
  A value;
  int64_t place;
};
template <class A, int kind> __device__ Carried<A> carry(Carried<A> a, Carried<A> b) {
  if (a.place < 0) return b;
  if (b.place < 0) return a;
  if constexpr (kind == ScanSum) a.value = a.value + b.value;
  if constexpr (kind == ScanProd) a.value = math::product(a.value, b.value);
  if constexpr (kind == ScanLogSumExp) {
    A high = math::maximum(a.value, b.value), low = a.value < b.value ? a.value : b.value;
    if (math::isnan(high)) a.value = high;
    else if (!math::isinf(high)) a.value = high + math::log1p(math::exp(low - high));
    else a.value = high;
  }
  if constexpr (kind == ScanMax || kind == ScanMin) {
    bool later = kind == ScanMax ? b.value >= a.value : b.value <= a.value;
    if (math::isnan(b.value) || (later && !math::isnan(a.value))) return b;
    return a;
  }
  a.place = b.place;
  return a;
}

// A block a line, a run of elements a thread: totals of the runs, their scan, and the runs again.
template <class In, class Out, class A, int kind>
__global__ void scan_lines(Strided input, Strided out, Strided second, ScanLine line, int reverse) {
  __shared__ __align__(16) unsigned char memory[block_threads * sizeof(Carried<A>)];
  Carried<A>* totals = reinterpret_cast<Carried<A>*>(memory);
  int64_t each = (line.count + blockDim.x - 1) / blockDim.x;
  for (int64_t row = blockIdx.x; row < input.numel; row += gridDim.x) {
    const In* x = static_cast<const In*>(input.data) + offset_of(input, row);
    Out* y = static_cast<Out*>(out.data) + offset_of(out, row);
    int64_t begin = threadIdx.x * each, end = begin + each < line.count ? begin + each : line.count;
    auto at = [&](int64_t i) { return reverse ? line.count - 1 - i : i; };
    auto load = [&](int64_t i) {
      In given = x[at(i) * line.in_step];
      A value;
      if constexpr (kind == ScanSum || kind == ScanProd) value = convert<A>(convert<Out>(given));
      else value = convert<A>(given);
      return Carried<A>{value, at(i)};
    };
    Carried<A> total{A(0), -1};
    for (int64_t i = begin; i < end; ++i) total = carry<A, kind>(total, load(i));
    __syncthreads();  // the totals of the line before were read
    totals[threadIdx.x] = total;
    __syncthreads();
    Carried<A> before{A(0), -1};
    for (int t = 0; t < static_cast<int>(threadIdx.x); ++t) before = carry<A, kind>(before, totals[t]);
    __syncthreads();  // out may be the input: all runs are read before one is written
    for (int64_t i = begin; i < end; ++i) {
      before = carry<A, kind>(before, load(i));
      y[at(i) * line.out_step] = convert<Out>(before.value);
      if constexpr (kind == ScanMax || kind == ScanMin)
        static_cast<int64_t*>(second.data)[offset_of(second, row) + at(i) * line.second_step] =
            before.place;
    }
  }
}

// A thread a line. Up to the first zero, at z, elements' gradients are sums of grad * out over what
// follows, divided by them; that of z itself is made of the products without it; later ones are 0.
template <class T>
__global__ void cumprod_gradient(Strided grad, Strided input, Strided result, ScanLine line) {
  using A = accumulate_t<T>;
  for (int64_t row = thread_id(); row < grad.numel; row += thread_count()) {
    const T* g = static_cast<const T*>(grad.data) + offset_of(grad, row);
    const T* x = static_cast<const T*>(input.data) + offset_of(input, row);
    T* r = static_cast<T*>(result.data) + offset_of(result, row);
    auto value = [&](int64_t i) { return math::conj(convert<A>(x[i * line.in_step])); };
    auto slope = [&](int64_t i) { return convert<A>(g[i * line.out_step]); };
    int64_t z = 0;
    A product = A(1);
    for (; z < line.count && !(value(z) == A(0)); ++z) {
      product = math::product(product, value(z));
      r[z * line.second_step] = convert<T>(math::product(slope(z), product));  // grad * out
    }
    A sum = A(0);
    for (int64_t i = z - 1; i >= 0; --i) {
      sum = sum + convert<A>(r[i * line.second_step]);
      r[i * line.second_step] = convert<T>(sum / value(i));
    }
    if (z == line.count) continue;
    sum = A(0);
    for (int64_t i = z; i < line.count; ++i) {
      if (i > z) product = math::product(product, value(i));
      sum = sum + math::product(slope(i), product);
    }
    r[z * line.second_step] = convert<T>(sum);
    for (int64_t i = z + 1; i < line.count; ++i) r[i * line.second_step] = convert<T>(A(0));
  }
}
template <class T>
__global__ void logcumsumexp_gradient(Strided grad, Strided input, Strided out, Strided result,
                                      ScanLine line, int64_t grad_step) {
  using A = accumulate_t<T>;
  for (int64_t row = thread_id(); row < grad.numel; row += thread_count()) {
    const T* g = static_cast<const T*>(grad.data) + offset_of(grad, row);
    const T* x = static_cast<const T*>(input.data) + offset_of(input, row);
    const T* o = static_cast<const T*>(out.data) + offset_of(out, row);
    T* r = static_cast<T*>(result.data) + offset_of(result, row);
    A sum = A(0), later = A(0);  // of grad[j] * exp(out[i] - out[j]) over j >= i
    for (int64_t i = line.count - 1; i >= 0; --i) {
      A now = convert<A>(o[i * line.out_step]);
      A factor = now == later ? A(1) : math::exp(now - later);
      sum = convert<A>(g[i * grad_step]) + (i == line.count - 1 ? A(0) : sum * factor);
      later = now;
      A from = convert<A>(x[i * line.in_step]);
      A share = from == -math::infinity<A> ? A(0) : math::exp(from - now);
      r[i * line.second_step] = convert<T>(share * sum);
    }
  }
}

// ---- sorting: bitonic, of pairs (value, place), which makes it stable

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
// One step of the network over all lines.
template <class T>
__global__ void bitonic_step(T* keys, int64_t* places, int64_t total, int64_t size, int64_t stride,
                             int64_t padded, int descending) {
  for (int64_t i = thread_id(); i < total; i += thread_count()) {
    int64_t in_line = i % padded, other = in_line ^ stride;
    if (other <= in_line) continue;
    exchange(keys, places, i, i + other - in_line, (in_line & size) == 0, descending);
  }
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
