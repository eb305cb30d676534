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
  __device__ void add(In given, int64_t i, const ReduceArgs&) {
    C x = static_cast<C>(given);
    if (before(x, i, value, place)) {
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
template <class State, class In>
__global__ void reduce_in_block(Strided kept, Strided reduced, Strided out, Strided second,
                                ReduceArgs a) {
  for (int64_t row = blockIdx.x; row < kept.numel; row += gridDim.x) {
    const In* from = static_cast<const In*>(kept.data) + offset_of(kept, row);
    State s;
    for (int64_t i = threadIdx.x; i < reduced.numel; i += blockDim.x)
      s.add(from[offset_of(reduced, i)], i, a);
    s = block_reduce(s, Joined<State>());
    if (threadIdx.x == 0) write_state(s, out, second, a, row);
  }
}
// Few rows of many elements: `parts` blocks a row, whose states the second kernel joins.
template <class State, class In>
__global__ void reduce_part(Strided kept, Strided reduced, ReduceArgs a, int parts, void* states) {
  for (int64_t job = blockIdx.x; job < kept.numel * parts; job += gridDim.x) {
    int64_t row = job / parts, part = job % parts;
    const In* from = static_cast<const In*>(kept.data) + offset_of(kept, row);
    int64_t begin = reduced.numel * part / parts, end = reduced.numel * (part + 1) / parts;
    State s;
    for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x)
      s.add(from[offset_of(reduced, i)], i, a);
    s = block_reduce(s, Joined<State>());
    if (threadIdx.x == 0) static_cast<State*>(states)[job] = s;
  }
}
template <class State>
__global__ void reduce_parts(int64_t rows, int parts, void* states, Strided out, Strided second,
                             ReduceArgs a) {
  for (int64_t row = thread_id(); row < rows; row += thread_count()) {
    State s = static_cast<State*>(states)[row * parts];
    for (int part = 1; part < parts; ++part)
      s = State::join(s, static_cast<State*>(states)[row * parts + part]);
    write_state(s, out, second, a, row);
  }
}

}  // namespace rl::cuda
