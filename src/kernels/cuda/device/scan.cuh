// Scans along a dim, and their gradients. The order of all sums depends on sizes alone.
#pragma once
#include "kernels/cuda/device/elementwise.cuh"
#include "kernels/cuda/device/scan.h"

namespace rl::cuda {

// Where an extreme was met; -1: nothing was met yet.
template <bool kept> struct CarriedPlace {
  int64_t place = -1;
};
template <> struct CarriedPlace<false> {};

// What a scan carries on. Complex products keep a place too: 1 times a complex infinity is not it.
template <class A, int kind>
struct Carried : CarriedPlace<kind == ScanMax || kind == ScanMin || is_complex_v<A>> {
  static constexpr bool extreme = kind == ScanMax || kind == ScanMin;
  static constexpr bool placed = extreme || is_complex_v<A>;
  static __device__ A start() {
    if constexpr (kind == ScanLogSumExp && !placed) return -math::infinity<A>;
    else return A(kind == ScanProd ? 1 : 0);
  }
  A value = start();

  static __device__ Carried join(Carried a, Carried b) {
    if constexpr (placed) {
      if (a.place < 0) return b;
      if (b.place < 0) return a;
    }
    if constexpr (kind == ScanSum) a.value = a.value + b.value;
    if constexpr (kind == ScanProd) a.value = math::product(a.value, b.value);
    if constexpr (kind == ScanLogSumExp && is_complex_v<A>) {
      a.value = math::logaddexp(b.value, a.value);
    } else if constexpr (kind == ScanLogSumExp) {
      A high = math::maximum(a.value, b.value), low = a.value < b.value ? a.value : b.value;
      if (math::isnan(high) || math::isinf(high)) a.value = high;
      else a.value = high + math::log1p(math::exp(low - high));
    }
    if constexpr (extreme) {
      bool later = kind == ScanMax ? b.value >= a.value : b.value <= a.value;
      return math::isnan(b.value) || (later && !math::isnan(a.value)) ? b : a;
    } else {
      return a;
    }
  }
};

// A value of any type from another lane, word by word.
template <class T, class Move> __device__ T from_lane(T value, Move move) {
  constexpr int words = (sizeof(T) + 3) / 4;
  unsigned parts[words] = {};
  __builtin_memcpy(parts, &value, sizeof(T));
  for (int i = 0; i < words; ++i) parts[i] = move(parts[i]);
  T result;
  __builtin_memcpy(&result, parts, sizeof(T));
  return result;
}
template <class T> __device__ T from_lane_below(T value, unsigned by) {
  return from_lane(value, [&](unsigned word) { return __shfl_up_sync(0xffffffffu, word, by); });
}
template <class T> __device__ T from_last_lane(T value) {
  return from_lane(value, [&](unsigned word) { return __shfl_sync(0xffffffffu, word, 31); });
}
template <class S> __device__ S scan_warp(S value, int lane) {
  for (int step = 1; step < 32; step *= 2) {
    S before = from_lane_below(value, step);
    if (lane >= step) value = S::join(before, value);
  }
  return value;
}

// The join of the first `parts` totals, in every thread of a block.
template <class S> __device__ S join_totals(const S* totals, int parts) {
  __shared__ __align__(16) unsigned char memory[32 * sizeof(S)];
  S* of_warps = reinterpret_cast<S*>(memory);
  int lane = threadIdx.x & 31, warps = blockDim.x >> 5;
  S value;
  if (static_cast<int>(threadIdx.x) < parts) value = totals[threadIdx.x];
  value = scan_warp(value, lane);
  __syncthreads();  // those of the job before were read
  if (lane == 31) of_warps[threadIdx.x >> 5] = value;
  __syncthreads();
  S result = of_warps[0];
  for (int w = 1; w < warps; ++w) result = S::join(result, of_warps[w]);
  return result;
}

// Element i of a line, in the order of the scan.
template <class Out, class A, int kind, class In>
__device__ Carried<A, kind> carried(In given, int64_t place) {
  Carried<A, kind> result;
  if constexpr (kind == ScanSum || kind == ScanProd) result.value = convert<A>(convert<Out>(given));
  else result.value = convert<A>(given);
  if constexpr (Carried<A, kind>::placed) result.place = place;
  return result;
}
__device__ inline int64_t place_of(const ScanLine& line, int64_t i) {
  return line.reverse ? line.count - 1 - i : i;
}

// `count` elements of a line from i on. Packs need steps of 1; in reverse, a whole number of them.
template <class In, class Out, class A, int kind, int count>
__device__ void load_carried(const In* x, const ScanLine& line, int64_t i,
                             Carried<A, kind> (&to)[count]) {
  if (count > 1 && i + count <= line.count) {
    auto pack = *reinterpret_cast<const Pack<In, count>*>(
        x + (line.reverse ? line.count - count - i : i));
#pragma unroll
    for (int k = 0; k < count; ++k)
      to[k] = carried<Out, A, kind>(line.reverse ? pack.values[count - 1 - k] : pack.values[k],
                                    place_of(line, i + k));
    return;
  }
#pragma unroll
  for (int k = 0; k < count; ++k) {
    to[k] = Carried<A, kind>();
    if (i + k >= line.count) continue;
    int64_t place = place_of(line, i + k);
    to[k] = carried<Out, A, kind>(x[place * line.in_step], place);
  }
}
template <class Out, class A, int kind, int count>
__device__ void store_carried(Out* y, int64_t* places, const ScanLine& line, int64_t i,
                              const Carried<A, kind> (&from)[count]) {
  if (count > 1 && i + count <= line.count) {
    int64_t first = line.reverse ? line.count - count - i : i;
    Pack<Out, count> pack;
#pragma unroll
    for (int k = 0; k < count; ++k)
      pack.values[k] = convert<Out>(line.reverse ? from[count - 1 - k].value : from[k].value);
    *reinterpret_cast<Pack<Out, count>*>(y + first) = pack;
    if constexpr (Carried<A, kind>::extreme && count > 1)  // never in reverse
#pragma unroll
      for (int k = 0; k < count; k += 2)
        *reinterpret_cast<Pack<int64_t, 2>*>(places + first + k) =
            Pack<int64_t, 2>{{from[k].place, from[k + 1].place}};
    return;
  }
#pragma unroll
  for (int k = 0; k < count; ++k) {
    if (i + k >= line.count) continue;
    int64_t place = place_of(line, i + k);
    y[place * line.out_step] = convert<Out>(from[k].value);
    if constexpr (Carried<A, kind>::extreme) places[place * line.second_step] = from[k].place;
  }
}

// Where part `part` of a line begins: a multiple of `tile`.
__device__ inline int64_t part_begin(const ScanLine& line, int64_t tile, int part) {
  int64_t tiles = (line.count + tile - 1) / tile, begin = tiles * part / line.parts * tile;
  return begin < line.count ? begin : line.count;
}

// A block takes a line, or a part of one, in tiles; blocks of rows of 32 threads one in each row.
// A warp's packs lie 32 beside each other, so that it reads and writes them at once.
template <class In, class Out, class A, int kind, int count>
__global__ void scan_tiles(Strided input, Strided out, Strided second, ScanLine line) {
  using S = Carried<A, kind>;
  constexpr int items = S::placed ? 8 : 16, packs = items > count ? items / count : 1;
  __shared__ __align__(16) unsigned char memory[32 * sizeof(S)];
  S* of_warps = reinterpret_cast<S*>(memory);
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  int64_t tile = int64_t(blockDim.x) * packs * count, jobs = input.numel * line.parts;
  for (int64_t job = int64_t(blockIdx.x) * blockDim.y + threadIdx.y; job < jobs;
       job += int64_t(gridDim.x) * blockDim.y) {
    int64_t row = job / line.parts;
    int part = static_cast<int>(job % line.parts);
    const In* x = static_cast<const In*>(input.data) + offset_of(input, row);
    Out* y = static_cast<Out*>(out.data) + offset_of(out, row);
    int64_t* places = nullptr;
    if constexpr (S::extreme) places = static_cast<int64_t*>(second.data) + offset_of(second, row);
    S* totals = static_cast<S*>(line.totals) + row * line.parts;
    S carry;
    if (line.phase == ScanFromTotals) carry = join_totals(totals, part);
    int64_t end = part_begin(line, tile, part + 1);
    for (int64_t begin = part_begin(line, tile, part); begin < end; begin += tile) {
      int64_t first = begin + (int64_t(warp) * packs * 32 + lane) * count;
      S values[packs][count], before[packs], sum;
#pragma unroll
      for (int j = 0; j < packs; ++j)
        load_carried<In, Out, A, kind>(x, line, first + j * 32 * count, values[j]);
#pragma unroll
      for (int j = 0; j < packs; ++j) {
#pragma unroll
        for (int k = 1; k < count; ++k) values[j][k] = S::join(values[j][k - 1], values[j][k]);
        S scanned = scan_warp(values[j][count - 1], lane), below = from_lane_below(scanned, 1);
        before[j] = lane ? S::join(sum, below) : sum;
        sum = S::join(sum, from_last_lane(scanned));
      }
      S start = carry;
      if (warps > 1) {
        __syncthreads();  // the sums of the tile before were read
        if (lane == 0) of_warps[warp] = sum;
        __syncthreads();
        for (int w = 0; w < warps; ++w) {
          if (w == warp) start = carry;
          carry = S::join(carry, of_warps[w]);
        }
      } else {
        carry = S::join(carry, sum);
      }
      if (line.phase == ScanTotals) continue;
#pragma unroll
      for (int j = 0; j < packs; ++j) {
        S from = S::join(start, before[j]);
#pragma unroll
        for (int k = 0; k < count; ++k) values[j][k] = S::join(from, values[j][k]);
        store_carried<Out, A, kind>(y, places, line, first + j * 32 * count, values[j]);
      }
    }
    if (line.phase == ScanTotals && threadIdx.x == 0) totals[part] = carry;
  }
}

// Lines that are neighbours in memory: a row of threads takes one element of each at a time, and
// the rows of a block take runs of elements, one behind the other.
template <class In, class Out, class A, int kind>
__global__ void scan_columns(Strided input, Strided out, Strided second, ScanLine line) {
  using S = Carried<A, kind>;
  constexpr int items = S::placed ? 4 : sizeof(A) > 4 ? 8 : 16;
  __shared__ __align__(16) unsigned char memory[scan_threads * sizeof(S)];
  S* sums = reinterpret_cast<S*>(memory);
  int teams = blockDim.y, team = threadIdx.y;
  int64_t groups = (input.numel + blockDim.x - 1) / blockDim.x, tile = int64_t(teams) * items;
  for (int64_t job = blockIdx.x; job < groups * line.parts; job += gridDim.x) {
    int64_t row = job % groups * blockDim.x + threadIdx.x;
    int part = static_cast<int>(job / groups);
    bool inside = row < input.numel;
    const In* x = static_cast<const In*>(input.data) + (inside ? offset_of(input, row) : 0);
    Out* y = static_cast<Out*>(out.data) + (inside ? offset_of(out, row) : 0);
    int64_t* places = nullptr;
    if constexpr (S::extreme)
      places = static_cast<int64_t*>(second.data) + (inside ? offset_of(second, row) : 0);
    S* totals = static_cast<S*>(line.totals);
    S carry;
    if (line.phase == ScanFromTotals && inside)
      for (int p = 0; p < part; ++p) carry = S::join(carry, totals[p * input.numel + row]);
    int64_t end = part_begin(line, tile, part + 1);
    for (int64_t begin = part_begin(line, tile, part); begin < end; begin += tile) {
      int64_t first = begin + team * items;
      S values[items][1], sum;
#pragma unroll
      for (int k = 0; k < items; ++k)
        if (inside) load_carried<In, Out, A, kind>(x, line, first + k, values[k]);
#pragma unroll
      for (int k = 1; k < items; ++k) values[k][0] = S::join(values[k - 1][0], values[k][0]);
      S start = carry;
      __syncthreads();  // the sums of the tile before were read
      sums[team * blockDim.x + threadIdx.x] = values[items - 1][0];
      __syncthreads();
      for (int t = 0; t < teams; ++t) {
        if (t == team) start = carry;
        carry = S::join(carry, sums[t * blockDim.x + threadIdx.x]);
      }
      if (line.phase == ScanTotals || !inside) continue;
#pragma unroll
      for (int k = 0; k < items; ++k) {
        values[k][0] = S::join(start, values[k][0]);
        store_carried<Out, A, kind>(y, places, line, first + k, values[k]);
      }
    }
    if (line.phase == ScanTotals && team == 0 && inside) totals[part * input.numel + row] = carry;
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
    // A running sum of grad[j] conj(exp(out[i] - out[j])) over j >= i, whose exponents are at most
    // 0 where the numbers are real. Nothing counts beside an infinity above, nor from one below.
    const auto infinity = math::infinity<real_t<A>>;
    A sum = A(0), later = A(0);
    for (int64_t i = line.count - 1; i >= 0; --i) {
      A now = convert<A>(o[i * line.out_step]), from = convert<A>(x[i * line.in_step]);
      bool above = math::real(now) == infinity && math::real(later) == infinity;
      if (i + 1 < line.count && !above)
        sum = math::real(now) == -infinity ? A(0)
                                           : math::product(sum, math::exp(math::conj(now - later)));
      sum = sum + convert<A>(g[i * grad_step]);
      later = now;
      A share = math::real(from) == -infinity ? A(0) : math::exp(math::conj(from - now));
      r[i * line.second_step] = convert<T>(math::product(share, sum));
    }
  }
}

}  // namespace rl::cuda
