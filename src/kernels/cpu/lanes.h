// Folding a contiguous row through many independent lanes: fast, because the additions overlap, and
// accurate, because each lane adds up only a small part. For *.isa.cpp files, in whose namespace
// everything here is defined.
#pragma once
#include <utility>

#include "kernels/cpu/simd.h"
#include "math/exponential.h"

namespace rl::kernels::RL_ISA {
namespace {

// Each works on scalars and on vectors. Extremes may meet an element twice.
struct Add {
  static constexpr bool repeatable = false;
  template <class T> static constexpr T identity = -T(0);  // -0 + 0 is 0, and -0 + -0 is -0
  template <class V> RL_INLINE static V apply(V a, V b) { return a + b; }
};
struct Multiply {
  static constexpr bool repeatable = false;
  template <class T> static constexpr T identity = T(1);
  template <class V> RL_INLINE static V apply(V a, V b) { return a * b; }
};
struct Max {  // or NaN
  static constexpr bool repeatable = true;
  template <class V> RL_INLINE static V apply(V a, V b) {
    V high = larger(b, a);  // a if either is NaN: nothing but this waits for the step before
    return b == b ? high : b;
  }
};
struct Fmax {  // drops NaN, in half the time, for those who meet it anyway
  static constexpr bool repeatable = true;
  template <class V> RL_INLINE static V apply(V a, V b) { return larger(a, b); }
};
struct Min {
  static constexpr bool repeatable = true;
  template <class V> RL_INLINE static V apply(V a, V b) {
    V low = smaller(b, a);
    return b == b ? low : b;
  }
};
struct Same {
  template <class V> RL_INLINE V operator()(V v) const { return v; }
};
struct NanToZero {
  template <class V> RL_INLINE V operator()(V v) const { return v == v ? v : V{}; }
};
struct Magnitude {  // of -0 is 0
  template <class V> RL_INLINE V operator()(V v) const { return v > V{} ? v : V{} - v; }
};
struct Square {
  template <class V> RL_INLINE V operator()(V v) const { return v * v; }
};

// The lanes of 16 bytes folded in place until `period` of them are left, which come first. Of
// vectors narrower than that gcc makes branches, where an extreme is chosen.
template <class Op, int period, int step, class T, int... lane>
RL_INLINE vec<T, 16> fold_register(vec<T, 16> v, std::integer_sequence<int, lane...> all) {
  constexpr int lanes = sizeof...(lane);
  if constexpr (step < period) {
    return v;
  } else {
    vec<T, 16> turned = shuffle<((lane + step) % lanes)...>(v, v);
    return fold_register<Op, period, step / 2, T>(Op::apply(v, turned), all);
  }
}

// The lanes of a vector folded by halves until `period` of them are left: a loop over an array of
// the lanes would go through memory.
template <class Op, class T, int period = 1, int bytes = vector_bytes>
RL_INLINE void fold_lanes(vec<T, bytes> v, T* result) {
  if constexpr (bytes == 16) {
    constexpr int lanes = 16 / sizeof(T);
    v = fold_register<Op, period, lanes / 2, T>(v, std::make_integer_sequence<int, lanes>());
    __builtin_memcpy(result, &v, period * sizeof(T));
  } else {
    vec<T, bytes / 2> halves[2];
    __builtin_memcpy(halves, &v, bytes);
    fold_lanes<Op, T, period, bytes / 2>(Op::apply(halves[0], halves[1]), result);
  }
}

// 0, 1, 2, ..., as wide as T.
template <class T> using LaneOf = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;
template <class T, int... k> RL_INLINE vec<LaneOf<T>> count_up(std::integer_sequence<int, k...>) {
  return vec<LaneOf<T>>{k...};
}
template <class T> RL_INLINE vec<LaneOf<T>> count_lanes() {
  return count_up<T>(std::make_integer_sequence<int, vector_bytes / sizeof(T)>());
}

// v with its first lanes replaced by what changes no fold: they have been folded before.
template <class Op, class T> RL_INLINE vec<T> after_lanes(vec<T> v, int64_t seen) {
  if constexpr (Op::repeatable) {
    return v;
  } else {
    vec<T> none = Op::template identity<T> - vec<T>{};
    return count_lanes<T>() >= static_cast<LaneOf<T>>(seen) ? v : none;
  }
}

// How a vector of elements is read that are folded as what they are.
struct AsStored {
  template <class T> RL_INLINE vec<T> operator()(const T* p) const { return load(p); }
};

// The fold of map(x[0]) ... map(x[n - 1]), n >= 1, which `read` makes vectors of T. With period 2
// it folds elements of even and of odd place apart, into result[0] and result[1] (n is even then):
// a complex sum.
template <class Op, int period = 1, class T, class E, class Map = Same, class Read = AsStored>
RL_INLINE void fold_row(const E* x, int64_t n, T* result, Map map = Map(), Read read = Read()) {
  using V = vec<T>;
  constexpr int width = vector_bytes / sizeof(T), ways = 256 / vector_bytes;
  int64_t i = period;
  if (n < width) {
    for (int k = 0; k < period; ++k) result[k] = map(static_cast<T>(x[k]));
  } else {
    V sum = map(read(x));
    i = width;
    if (n >= ways * width) {
      V part[ways];
      part[0] = sum;
      for (int k = 1; k < ways; ++k) part[k] = map(read(x + k * width));
      for (i = ways * width; i + ways * width <= n; i += ways * width)
        for (int k = 0; k < ways; ++k)
          part[k] = Op::apply(part[k], V(map(read(x + i + k * width))));
      for (int half = ways / 2; half > 0; half /= 2)
        for (int k = 0; k < half; ++k) part[k] = Op::apply(part[k], part[k + half]);
      sum = part[0];
    }
    for (; i + width <= n; i += width) sum = Op::apply(sum, V(map(read(x + i))));
    // The last vector reaches back: element by element the rest took as long as a whole row.
    if (i < n) sum = Op::apply(sum, after_lanes<Op, T>(map(read(x + n - width)), i - (n - width)));
    return fold_lanes<Op, T, period>(sum, result);
  }
  for (; i < n; i += period)
    for (int k = 0; k < period; ++k)
      result[k] = Op::apply(result[k], T(map(static_cast<T>(x[i + k]))));
}

template <class Op, class T, class Map = Same>
RL_INLINE T fold(const T* x, int64_t n, Map map = Map()) {
  T result;
  fold_row<Op>(x, n, &result, map);
  return result;
}

// The places i of a row, a vector wide, and the last ones part of a vector: one by one they took as
// long as hundreds. at(p) is p[i] there, and at.put(p, value) writes it.
template <class T, int number> struct VectorPlace {
  static constexpr int way = number;
  int64_t i;
  RL_INLINE vec<T> operator()(const T* p) const { return load(p + i); }
  RL_INLINE void put(T* p, vec<T> v) const { __builtin_memcpy(p + i, &v, sizeof v); }
  RL_INLINE void prefetch(const T* p) const { __builtin_prefetch(p + i); }
};
template <class T> struct PartPlace {
  int64_t i, lanes;
  RL_INLINE vec<T> operator()(const T* p) const { return load_part(p + i, lanes); }
  RL_INLINE void put(T* p, vec<T> v) const { store_part(p + i, v, lanes); }
  RL_INLINE void prefetch(const T*) const {}
};

// f(at) for all n places. The two ways of a Sum are added to in turn, so that additions overlap.
template <class T, class F> RL_INLINE void for_offsets(int64_t n, F f) {
  constexpr int64_t width = vector_bytes / sizeof(T);
  int64_t i = 0;
  for (; i + 2 * width <= n; i += 2 * width) {
    f(VectorPlace<T, 0>{i});
    f(VectorPlace<T, 1>{i + width});
  }
  if (i + width <= n) {
    f(VectorPlace<T, 0>{i});
    i += width;
  }
  if (i < n) f(PartPlace<T>{i, n - i});
}

template <class T> class Sum {
 public:
  template <int way> RL_INLINE void add(VectorPlace<T, way>, vec<T> v) { ways_[way] += v; }
  RL_INLINE void add(PartPlace<T> at, vec<T> v) {
    ways_[0] += count_lanes<T>() < static_cast<LaneOf<T>>(at.lanes) ? v : vec<T>{};
  }
  RL_INLINE T total() const {
    T sum;
    fold_lanes<Add>(ways_[0] + ways_[1], &sum);
    return sum;
  }

 private:
  vec<T> ways_[2] = {};
};

// The sum of f(at) over n places.
template <class T, class F> RL_INLINE T sum_at(int64_t n, F f) {
  Sum<T> sum;
  for_offsets<T>(n, [&](auto at) { sum.add(at, f(at)); });
  return sum.total();
}

// math::exp_below of a number or of each lane: gcc makes vector instructions of the loop.
RL_INLINE float exp_below(float x) { return math::exp_below(x); }
RL_INLINE double exp_below(double x) { return math::exp_below(x); }
template <class T> RL_INLINE vec<T> exp_of_lanes(vec<T> v) {
  T lanes[vector_bytes / sizeof(T)];
  __builtin_memcpy(lanes, &v, sizeof v);
  for (T& lane : lanes) lane = math::exp_below(lane);
  __builtin_memcpy(&v, lanes, sizeof v);
  return v;
}
RL_INLINE vec<float> exp_below(vec<float> v) { return exp_of_lanes<float>(v); }
RL_INLINE vec<double> exp_below(vec<double> v) { return exp_of_lanes<double>(v); }

constexpr int64_t exponential_piece = 4096;  // stays in L1 between its maximum and its exp

// The sum of exp(x - high) over a piece of a row, put(at, exponential) called with each. Meanwhile
// what lies `ahead` comes near: exp leaves the memory idle.
template <class T, class Put>
RL_INLINE T sum_exponentials(const T* x, T high, int64_t n, int64_t ahead, Put put) {
  Sum<T> sum;
  for_offsets<T>(n, [&](auto at) {
    at.prefetch(x + ahead);
    auto e = exp_below(at(x) - high);
    put(at, e);
    sum.add(at, e);
  });
  return sum.total();
}

// The largest x, and the sum of exp(x - largest), in one pass through memory. Of a row with NaN the
// sum is NaN. A row of nothing but infinite exponents gets the sum 0 or NaN.
template <class T> RL_INLINE T sum_exponentials_of_row(const T* x, int64_t n, T* largest) {
  constexpr T lowest = -__builtin_inf();
  T high = lowest, sum = 0;
  for (int64_t i = 0; i < n; i += exponential_piece) {
    int64_t m = n - i < exponential_piece ? n - i : exponential_piece;
    T top = Fmax::apply(fold<Fmax>(x + i, m), high);
    if (top == lowest) {  // NaN among the infinite ones?
      if (T all = fold<Max>(x + i, m); all != all) sum = all;
      continue;
    }
    if (top != high) sum *= exp_below(high - top);
    high = top;
    sum += sum_exponentials(x + i, high, m, m, [](auto, auto) {});
  }
  *largest = high;
  return sum;
}

}  // namespace
}  // namespace rl::kernels::RL_ISA
