// Reductions: a state per output, to which elements are added and which join in a fixed order.
#pragma once
#include "kernels/cuda/device/prelude.cuh"
#include "kernels/cuda/device/reduce.h"

namespace rl::cuda {

// ---- states; `In` is the stored type

template <class In> struct SumState {
  using A = accumulate_t<In>;
  A value = A(0);
  __device__ void add(In x, int64_t, const ReduceArgs&) { value = value + convert<A>(x); }
  static __device__ SumState join(SumState a, SumState b) {
    a.value = a.value + b.value;
    return a;
  }
  __device__ void write(void* out, int64_t at, const ReduceArgs& a) const {
    store_as(out, a.dtype, at, value);
  }
};
template <class In> struct NanSumState : SumState<In> {
  __device__ void add(In x, int64_t i, const ReduceArgs& a) {
    if (!math::isnan(convert<accumulate_t<In>>(x))) SumState<In>::add(x, i, a);
  }
  static __device__ NanSumState join(NanSumState a, NanSumState b) {
    a.value = a.value + b.value;
    return a;
  }
};
template <class In> struct MeanState : SumState<In> {
  static __device__ MeanState join(MeanState a, MeanState b) {
    a.value = a.value + b.value;
    return a;
  }
  __device__ void write(void* out, int64_t at, const ReduceArgs& a) const {
    store_as(out, a.dtype, at, this->value / real_t<accumulate_t<In>>(a.p));
  }
};
template <class In> struct ProdState {
  using A = accumulate_t<In>;
  A value = A(1);
  __device__ void add(In x, int64_t, const ReduceArgs&) { value = math::product(value, convert<A>(x)); }
  static __device__ ProdState join(ProdState a, ProdState b) {
    a.value = math::product(a.value, b.value);
    return a;
  }
  __device__ void write(void* out, int64_t at, const ReduceArgs& a) const {
    store_as(out, a.dtype, at, value);
  }
};
template <class In> struct AllState {
  int value = 1;
  __device__ void add(In x, int64_t, const ReduceArgs&) { value &= convert<bool>(x); }
  static __device__ AllState join(AllState a, AllState b) {
    a.value &= b.value;
    return a;
  }
  __device__ void write(void* out, int64_t at, const ReduceArgs& a) const {
    store_as(out, a.dtype, at, value);
  }
};
template <class In> struct AnyState {
  int value = 0;
  __device__ void add(In x, int64_t, const ReduceArgs&) { value |= convert<bool>(x); }
  static __device__ AnyState join(AnyState a, AnyState b) {
    a.value |= b.value;
    return a;
  }
  __device__ void write(void* out, int64_t at, const ReduceArgs& a) const {
    store_as(out, a.dtype, at, value);
  }
};
template <class In> struct CountState {
  int64_t value = 0;
  __device__ void add(In x, int64_t, const ReduceArgs&) { value += convert<bool>(x); }
  static __device__ CountState join(CountState a, CountState b) {
    a.value += b.value;
    return a;
  }
  __device__ void write(void* out, int64_t at, const ReduceArgs& a) const {
    store_as(out, a.dtype, at, value);
  }
};

// The extreme and its place; a NaN goes before all else, and the first of equals wins.
template <class In, bool largest> struct ExtremeState {
  using C = compute_t<In>;
  C value = C(0);
  int64_t place = -1;
  static __device__ bool before(C x, int64_t i, C y, int64_t j) {
    if (j < 0) return true;
    if (i < 0) return false;
    bool nan_x = math::isnan(x), nan_y = math::isnan(y);
    if (nan_x || nan_y) return nan_x && (!nan_y || i < j);
    if (x == y) return i < j;
    return largest ? x > y : x < y;
  }
  // A thread's places rise: of equals the one that it has wins.
  __device__ void add(In given, int64_t i, const ReduceArgs&) {
    C x = static_cast<C>(given);
    bool beyond = largest ? !(x <= value) : !(x >= value);  // a NaN is
    if (place < 0 || (beyond && value == value)) {
      value = x;
      place = i;
    }
  }
  static __device__ ExtremeState join(ExtremeState a, ExtremeState b) {
    return before(b.value, b.place, a.value, a.place) ? b : a;
  }
  __device__ void write(void* out, int64_t at, const ReduceArgs& a) const {
    if (out) store_as(out, a.dtype, at, value);
  }
  __device__ void write_second(int64_t at, const ReduceArgs& a) const {
    store_as(a.second, a.second_dtype, at, place);
  }
};
template <class In> using LargestState = ExtremeState<In, true>;
template <class In> using SmallestState = ExtremeState<In, false>;

template <class In> struct NormState {
  using R = real_t<accumulate_t<In>>;
  R value = R(0);
  int64_t count = 0;
  __device__ void add(In given, int64_t, const ReduceArgs& a) {
    R x = math::abs(convert<accumulate_t<In>>(given));
    if (a.p == 2) value += x * x;
    else if (a.p == 1) value += x;
    else if (a.p == 0) value += R(x != R(0));
    else if (a.p == math::infinity<double>) value = count ? math::maximum(value, x) : x;
    else if (a.p == -math::infinity<double>) value = count ? math::minimum(value, x) : x;
    else value += math::pow(x, R(a.p));
    ++count;
    kind = a.p == math::infinity<double> ? 1 : a.p == -math::infinity<double> ? 2 : 0;
  }
  int kind = 0;
  static __device__ NormState join(NormState a, NormState b) {
    if (!b.count) return a;
    if (!a.count) return b;
    a.value = a.kind == 1   ? math::maximum(a.value, b.value)
              : a.kind == 2 ? math::minimum(a.value, b.value)
                            : a.value + b.value;
    a.count += b.count;
    return a;
  }
  __device__ void write(void* out, int64_t at, const ReduceArgs& a) const {
    R result = a.p == 2 ? math::sqrt(value) : value;
    if (a.p != 2 && a.p != 1 && a.p != 0 && !kind && count) result = math::pow(value, R(1 / a.p));
    store_as(out, a.dtype, at, result);
  }
};

// Welford's way, of whose two halves Chan's formula makes one.
template <class In> struct VarState {
  using A = accumulate_t<In>;
  using R = real_t<A>;
  A mean = A(0);
  R squares = R(0);
  R count = R(0);
  __device__ void add(In given, int64_t, const ReduceArgs&) {
    A x = convert<A>(given);
    count += R(1);
    A from = x - mean;
    if constexpr (is_complex_v<A>) {
      mean = mean + A(from.real() / count, from.imag() / count);
      A now = x - mean;
      squares += from.real() * now.real() + from.imag() * now.imag();
    } else {
      mean += from / count;
      squares += from * (x - mean);
    }
  }
  // Neighbours at once: one division for all of them.
  template <int count_of> __device__ void add_pack(const Pack<In, count_of>& pack) {
    if constexpr (!is_complex_v<A>) {
      VarState b;
      A x[count_of], sum = A(0);
      for (int j = 0; j < count_of; ++j) sum += x[j] = convert<A>(pack.values[j]);
      b.count = R(count_of);
      b.mean = sum / b.count;
      for (int j = 0; j < count_of; ++j) b.squares += (x[j] - b.mean) * (x[j] - b.mean);
      *this = join(*this, b);
    }
  }
  static __device__ VarState join(VarState a, VarState b) {
    if (b.count == R(0)) return a;
    if (a.count == R(0)) return b;
    VarState c;
    c.count = a.count + b.count;
    A from = b.mean - a.mean;
    R share = b.count / c.count;
    if constexpr (is_complex_v<A>) {
      c.mean = a.mean + A(from.real() * share, from.imag() * share);
      c.squares = a.squares + b.squares +
                  (from.real() * from.real() + from.imag() * from.imag()) * a.count * share;
    } else {
      c.mean = a.mean + from * share;
      c.squares = a.squares + b.squares + from * from * a.count * share;
    }
    return c;
  }
  __device__ void write(void* out, int64_t at, const ReduceArgs& a) const {
    R divisor = count - R(a.p);
    R result = count == R(0) ? math::quiet_nan<R> : squares / (divisor > R(0) ? divisor : R(0));
    store_as(out, a.dtype, at, a.root ? math::sqrt(result) : result);
  }
  __device__ void write_second(int64_t at, const ReduceArgs& a) const {
    store_as(a.second, a.second_dtype, at, count == R(0) ? convert<A>(math::quiet_nan<R>) : mean);
  }
};

template <class In> struct LogSumExpState {
  using A = accumulate_t<In>;
  A largest = -math::infinity<A>, sum = A(0);
  __device__ void add(In given, int64_t, const ReduceArgs&) {
    A x = convert<A>(given);
    LogSumExpState b;
    b.largest = x;
    b.sum = A(1);
    *this = join(*this, b);
  }
  static __device__ LogSumExpState join(LogSumExpState a, LogSumExpState b) {
    if (b.sum == A(0)) return a;
    if (a.sum == A(0)) return b;
    LogSumExpState c;
    c.largest = math::maximum(a.largest, b.largest);
    A shift = math::isinf(c.largest) ? A(0) : c.largest;
    if (math::isinf(c.largest) && c.largest < A(0)) {
      c.sum = a.sum + b.sum;
      return c;
    }
    c.sum = a.sum * math::exp(a.largest - shift) + b.sum * math::exp(b.largest - shift);
    return c;
  }
  __device__ void write(void* out, int64_t at, const ReduceArgs& a) const {
    A result = sum == A(0) ? -math::infinity<A>
               : math::isinf(largest) ? largest
                                      : largest + math::log(sum);
    store_as(out, a.dtype, at, result);
  }
};

template <class State> inline constexpr bool requires_second = false;
template <class In, bool largest>
inline constexpr bool requires_second<ExtremeState<In, largest>> = true;
template <class In> inline constexpr bool requires_second<VarState<In>> = true;

template <class State> inline constexpr bool takes_packs = false;
template <class In>
inline constexpr bool takes_packs<VarState<In>> = !is_complex_v<accumulate_t<In>>;

template <class State> struct Joined {
  static __device__ State join(State a, State b) { return State::join(a, b); }
};
template <class State>
__device__ void write_state(const State& s, const Strided& out, const Strided& second,
                            const ReduceArgs& a, int64_t row) {
  s.write(out.data, out.data ? offset_of(out, row) : 0, a);
  if constexpr (requires_second<State>)
    if (a.second) s.write_second(offset_of(second, row), a);
}

// ---- a row's elements: where `kept` begins, through `reduced`

template <class State, class In>
__global__ void reduce_in_thread(Strided kept, Strided reduced, Strided out, Strided second,
                                 ReduceArgs a) {
  for (int64_t row = thread_id(); row < kept.numel; row += thread_count()) {
    const In* from = static_cast<const In*>(kept.data) + offset_of(kept, row);
    State s;
    for (int64_t i = 0; i < reduced.numel; ++i) s.add(from[offset_of(reduced, i)], i, a);
    write_state(s, out, second, a, row);
  }
}
// A thread takes packs of `count` neighbours; `reduced` and `kept` keep packs whole.
template <class State, class In, int count>
__device__ void add_pack(State& s, const Pack<In, count>& pack, int64_t i, const ReduceArgs& a) {
  if constexpr (takes_packs<State> && count > 1) s.add_pack(pack);
  else
    for (int j = 0; j < count; ++j) s.add(pack.values[j], i + j, a);
}

// One block a row, or `parts` blocks, whose states the last kernel joins. Several packs are read
// before any is added: the memory has many of them under way.
template <class State, class In, int count>
__global__ void reduce_rows(Strided kept, Strided reduced, Strided out, Strided second,
                            ReduceArgs a, int parts, void* states) {
  constexpr int ahead = 4;
  using P = Pack<In, count>;
  for (int64_t job = blockIdx.x; job < kept.numel * parts; job += gridDim.x) {
    int64_t row = job / parts, part = job % parts, packs = (reduced.numel + count - 1) / count;
    const In* from = static_cast<const In*>(kept.data) + offset_of(kept, row);
    int64_t p = packs * part / parts + threadIdx.x, end = packs * (part + 1) / parts;
    if (end * count > reduced.numel) --end;  // the last one is not whole
    State s;
    for (; p + (ahead - 1) * blockDim.x < end; p += ahead * blockDim.x) {
      P pack[ahead];
      for (int k = 0; k < ahead; ++k)
        pack[k] = *reinterpret_cast<const P*>(from + offset_of(reduced, (p + k * blockDim.x) * count));
      for (int k = 0; k < ahead; ++k) add_pack(s, pack[k], (p + k * blockDim.x) * count, a);
    }
    for (; p < end; p += blockDim.x)
      add_pack(s, *reinterpret_cast<const P*>(from + offset_of(reduced, p * count)), p * count, a);
    int64_t rest = reduced.numel / count * count + threadIdx.x;
    if (part == parts - 1 && rest < reduced.numel) s.add(from[offset_of(reduced, rest)], rest, a);
    s = block_reduce(s, Joined<State>());
    if (threadIdx.x) continue;
    if (parts > 1) static_cast<State*>(states)[job] = s;
    else write_state(s, out, second, a, row);
  }
}

// Rows that are neighbours in memory: 32 threads beside each other take a pack of them each, and 8
// such teams every eighth element of the rows.
template <class State, class In, int count>
__global__ void reduce_columns(Strided kept, Strided reduced, Strided out, Strided second,
                               ReduceArgs a, int parts, void* states) {
  constexpr int lanes = 32, teams = 8, ahead = 4;
  using P = Pack<In, count>;
  __shared__ __align__(16) unsigned char memory[lanes * teams * count * sizeof(State)];
  State* shared = reinterpret_cast<State*>(memory);
  int64_t packs = kept.numel / count, groups = (packs + lanes - 1) / lanes;
  for (int64_t job = blockIdx.x; job < groups * parts; job += gridDim.x) {
    int64_t pack = job % groups * lanes + threadIdx.x, part = job / groups;
    State s[count];
    if (pack < packs) {
      const In* from = static_cast<const In*>(kept.data) + offset_of(kept, pack * count);
      int64_t i = reduced.numel * part / parts + threadIdx.y;
      int64_t end = reduced.numel * (part + 1) / parts;
      for (; i + (ahead - 1) * teams < end; i += ahead * teams) {
        P values[ahead];
        for (int k = 0; k < ahead; ++k)
          values[k] = *reinterpret_cast<const P*>(from + offset_of(reduced, i + k * teams));
        for (int k = 0; k < ahead; ++k)
          for (int j = 0; j < count; ++j) s[j].add(values[k].values[j], i + k * teams, a);
      }
      for (; i < end; i += teams) {
        P values = *reinterpret_cast<const P*>(from + offset_of(reduced, i));
        for (int j = 0; j < count; ++j) s[j].add(values.values[j], i, a);
      }
    }
    for (int j = 0; j < count; ++j)
      shared[(threadIdx.y * count + j) * lanes + threadIdx.x] = s[j];
    __syncthreads();
    for (int j = threadIdx.y; j < count && pack < packs; j += teams) {
      State sum = shared[j * lanes + threadIdx.x];
      for (int team = 1; team < teams; ++team)
        sum = State::join(sum, shared[(team * count + j) * lanes + threadIdx.x]);
      int64_t row = pack * count + j;
      if (parts > 1) static_cast<State*>(states)[row * parts + part] = sum;
      else write_state(sum, out, second, a, row);
    }
    __syncthreads();
  }
}

// A warp a row.
template <class State>
__global__ void reduce_parts(int64_t rows, int parts, void* states, Strided out, Strided second,
                             ReduceArgs a) {
  int lane = threadIdx.x & 31;
  for (int64_t row = thread_id() >> 5; row < rows; row += thread_count() >> 5) {
    State s;
    for (int part = lane; part < parts; part += 32)
      s = State::join(s, static_cast<State*>(states)[row * parts + part]);
    for (int step = 16; step > 0; step /= 2) s = State::join(s, shuffle_down(s, step));
    if (lane == 0) write_state(s, out, second, a, row);
  }
}

}  // namespace rl::cuda
