#include "kernels/cpu/scan_rows.h"

#include <limits>
#include <utility>

#include "kernels/cpu/lanes.h"

namespace rl::kernels::RL_ISA {
namespace {

template <class A> constexpr int lanes_of = vector_bytes / static_cast<int>(sizeof(A));

template <class A, class T> RL_INLINE vec<A> load_as(const T* x) {
  typedef T V __attribute__((vector_size(sizeof(T) * lanes_of<A>)));
  V v;
  __builtin_memcpy(&v, x, sizeof v);
  return __builtin_convertvector(v, vec<A>);
}
template <class T, class A> RL_INLINE void store_as(T* y, vec<A> a) {
  typedef T V __attribute__((vector_size(sizeof(T) * lanes_of<A>)));
  V v = __builtin_convertvector(a, V);
  __builtin_memcpy(y, &v, sizeof v);
}

// Lane k becomes lane k - step of v, the first lanes those of `start`.
template <int step, class A, int... k>
RL_INLINE vec<A> shifted(vec<A> v, vec<A> start, std::integer_sequence<int, k...>) {
  constexpr int lanes = sizeof...(k);
  return shuffle<(k < step ? k : lanes + k - step)...>(start, v);
}

// Lane k becomes the fold of lanes 0 to k, in as many steps as the number of lanes has bits.
template <class Op, class A, int step = 1>
RL_INLINE vec<A> prefix(vec<A> v, vec<A> identity) {
  if constexpr (step < lanes_of<A>) {
    auto all = std::make_integer_sequence<int, lanes_of<A>>();
    return prefix<Op, A, 2 * step>(Op::apply(shifted<step, A>(v, identity, all), v), identity);
  } else {
    return v;
  }
}

template <class Op, class A, class T>
void scan(const T* x, T* y, int64_t n, A identity, A* carry) {
  constexpr int lanes = lanes_of<A>;
  vec<A> start = identity - vec<A>{}, total = *carry - vec<A>{};
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    vec<A> folded = prefix<Op, A>(load_as<A>(x + i), start);
    store_as<T, A>(y + i, Op::apply(total, folded));
    // The one step that waits for the step before it.
    total = Op::apply(total, vec<A>(folded[lanes - 1] - vec<A>{}));
  }
  A last = total[0];
  for (; i < n; ++i) y[i] = static_cast<T>(last = Op::apply(last, static_cast<A>(x[i])));
  *carry = last;
}

template <class Op>
void scan_typed(DType element, const void* x, void* y, int64_t n, int identity, void* carry) {
  double* sum = static_cast<double*>(carry);
  double start = identity;
  if (element == DType::Float32)
    return scan<Op>(static_cast<const float*>(x), static_cast<float*>(y), n, start, sum);
  if (element == DType::Float64)
    return scan<Op>(static_cast<const double*>(x), static_cast<double*>(y), n, start, sum);
  scan<Op>(static_cast<const uint64_t*>(x), static_cast<uint64_t*>(y), n,
           static_cast<uint64_t>(identity), static_cast<uint64_t*>(carry));
}

// `together` rows side by side: their steps do not wait for each other.
template <class Op, int together, class T, class A>
void scan_beside(const char* x, char* y, const ShortRows r, A identity) {
  A total[together];
  for (A& t : total) t = identity;
  for (int64_t k = 0; k < r.n; ++k, x += r.x_step, y += r.y_step) {
#pragma GCC unroll 4
    for (int j = 0; j < together; ++j) {
      total[j] = Op::apply(total[j], static_cast<A>(*reinterpret_cast<const T*>(x + j * r.x_row)));
      *reinterpret_cast<T*>(y + j * r.y_row) = static_cast<T>(total[j]);
    }
  }
}

template <class Op, class T, class A>
void scan_each(const ShortRows& r, A identity) {
  constexpr int64_t together = 4;
  const char* x = static_cast<const char*>(r.x);
  char* y = static_cast<char*>(r.y);
  int64_t i = 0;
  for (; i + together <= r.rows; i += together)
    scan_beside<Op, together, T>(x + i * r.x_row, y + i * r.y_row, r, identity);
  for (; i < r.rows; ++i) scan_beside<Op, 1, T>(x + i * r.x_row, y + i * r.y_row, r, identity);
}
template <class Op>
void scan_each_typed(DType element, const ShortRows& r, int identity) {
  if (element == DType::Float32) return scan_each<Op, float, double>(r, identity);
  if (element == DType::Float64) return scan_each<Op, double, double>(r, identity);
  scan_each<Op, uint64_t>(r, static_cast<uint64_t>(identity));
}

// Of numbers; the later of equals.
struct LastMax {
  template <class T> static constexpr T identity() {
    using L = std::numeric_limits<T>;
    return L::has_infinity ? -L::infinity() : L::lowest();
  }
  template <class V> RL_INLINE static V apply(V a, V b) { return a > b ? a : b; }
};
struct LastMin {
  template <class T> static constexpr T identity() {
    using L = std::numeric_limits<T>;
    return L::has_infinity ? L::infinity() : L::max();
  }
  template <class V> RL_INLINE static V apply(V a, V b) { return a < b ? a : b; }
};

// The places are a running maximum too: of the numbers of those elements that equal the extreme.
template <class Op, class T>
void extremes(T* x, int64_t* places, int64_t n, int64_t first, T* best, int64_t* place) {
  using Number = LaneOf<T>;
  constexpr int lanes = lanes_of<T>;
  constexpr int64_t strip = 512;
  Number numbers[strip];
  int64_t before = *place;
  T last = *best;
  for (int64_t start = 0; start < n; start += strip, x += strip, places += strip) {
    int64_t m = n - start < strip ? n - start : strip, i = 0;
    Number number = -1;
    for (; i + lanes <= m; i += lanes) {
      vec<T> v = load(x + i), none = Op::template identity<T>() - vec<T>{};
      vec<T> extreme = Op::apply(vec<T>(last - vec<T>{}), prefix<Op, T>(v, none));
      vec<Number> here = count_lanes<T>() + static_cast<Number>(i),
                  earlier = number - vec<Number>{};
      here = v == extreme ? here : vec<Number>{} - 1;
      here = prefix<LastMax, Number>(here, vec<Number>{} - 1);
      here = LastMax::apply(earlier, here);
      store(x + i, extreme);
      store(numbers + i, here);
      last = extreme[lanes - 1];
      number = here[lanes - 1];
    }
    for (; i < m; ++i) {
      T extreme = Op::apply(last, x[i]);
      number = x[i] == extreme ? static_cast<Number>(i) : number;
      x[i] = last = extreme;
      numbers[i] = number;
    }
    for (int64_t k = 0; k < m; ++k)
      places[k] = numbers[k] < 0 ? before : first + start + numbers[k];
    before = places[m - 1];
  }
  *best = last;
  *place = before;
}

template <class T> bool has_nan(const T* x, int64_t n) {
  vec<LaneOf<T>> found = {};
  for_offsets<T>(n, [&](auto at) {
    vec<T> v = at(x);
    found |= v != v;
  });
  bool any = false;
  for (int k = 0; k < lanes_of<T>; ++k) any |= found[k] != 0;
  return any;
}

template <class Op>
void extremes_typed(DType element, void* values, int64_t* places, int64_t n, int64_t first,
                    void* best, int64_t* place) {
  auto run = [&](auto of) {
    using T = decltype(of);
    extremes<Op>(static_cast<T*>(values), places, n, first, static_cast<T*>(best), place);
  };
  if (element == DType::Float32) run(float());
  else if (element == DType::Float64) run(double());
  else run(int64_t());
}

}  // namespace

void scan_row(bool product, DType element, const void* x, void* y, int64_t n, void* carry) {
  if (product) scan_typed<Multiply>(element, x, y, n, 1, carry);
  else scan_typed<Add>(element, x, y, n, 0, carry);
}

void scan_short_rows(bool product, DType element, const ShortRows& rows) {
  if (product) scan_each_typed<Multiply>(element, rows, 1);
  else scan_each_typed<Add>(element, rows, 0);
}

void find_nan(DType element, const void* x, int64_t n, bool* found) {
  *found = element == DType::Float32 ? has_nan(static_cast<const float*>(x), n)
                                     : has_nan(static_cast<const double*>(x), n);
}

void extreme_row(bool largest, DType element, void* values, int64_t* places, int64_t n,
                 int64_t first, void* best, int64_t* place) {
  auto typed = largest ? extremes_typed<LastMax> : extremes_typed<LastMin>;
  typed(element, values, places, n, first, best, place);
}

}  // namespace rl::kernels::RL_ISA
