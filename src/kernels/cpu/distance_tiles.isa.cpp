#include "kernels/cpu/distance_tiles.h"

#include <limits>
#include <type_traits>

#include "kernels/cpu/lanes.h"

namespace rl::kernels::RL_ISA {
namespace {

// The tile whose sums registers hold: rows, and vectors of columns.
constexpr int tile_rows = 4, tile_width = vector_registers == 32 ? 4 : 2;

template <class T> using Bits = vec<LaneOf<T>>;
template <class T> RL_INLINE Bits<T> magnitude_bits(vec<T> v) {
  return (Bits<T>)v & std::numeric_limits<LaneOf<T>>::max();
}
template <class T> RL_INLINE vec<T> magnitude_of(vec<T> v) { return (vec<T>)magnitude_bits<T>(v); }
template <class T, class F> RL_INLINE vec<T> of_lanes(vec<T> v, F f) {
  T lanes[vector_bytes / sizeof(T)];
  store(lanes, v);
  for (T& lane : lanes) lane = f(lane);
  return load(lanes);
}

// Of each norm: a term added to a sum, and what the sum is turned into. Its slope by a difference
// is weight * slope(difference), the weight being that of the distance; it is added to a sum too.
template <class T> struct Count {
  using V = vec<T>;
  explicit Count(double) {}
  RL_INLINE V add(V sum, V difference) const {
    V one = V{} + T(1), counted = difference != V{} ? one : V{};
    return sum + (difference == difference ? counted : difference);
  }
  RL_INLINE V finish(V sum) const { return sum; }
};
template <class T> struct Absolute {
  using V = vec<T>;
  explicit Absolute(double) {}
  RL_INLINE V add(V sum, V difference) const { return sum + magnitude_of<T>(difference); }
  RL_INLINE V finish(V sum) const { return sum; }
  RL_INLINE V weight(V grad, V) const { return grad; }
  RL_INLINE V add_slope(V sum, V weight, V difference, V) const {  // a NaN stays one
    V other = difference < V{} ? -weight : difference * weight;
    return sum + (difference > V{} ? weight : other);
  }
};
template <class T> struct Euclidean {
  using V = vec<T>;
  explicit Euclidean(double) {}
  RL_INLINE V add(V sum, V difference) const { return mul_add(difference, difference, sum); }
  RL_INLINE V finish(V sum) const {
    return of_lanes<T>(sum, [](T x) { return math::sqrt(x); });
  }
  RL_INLINE V weight(V grad, V distance) const { return distance == V{} ? V{} : grad / distance; }
  RL_INLINE V add_slope(V sum, V weight, V difference, V) const {
    return mul_add(weight, difference, sum);
  }
};
template <class T> struct Greatest {
  using V = vec<T>;
  explicit Greatest(double) {}
  RL_INLINE V add(V sum, V difference) const {
    // Magnitudes are ordered as their bits are, and NaN is above all of them.
    Bits<T> accumulated = (Bits<T>)sum, other = magnitude_bits<T>(difference);
    return (V)(accumulated > other ? accumulated : other);
  }
  RL_INLINE V finish(V sum) const { return sum; }
  RL_INLINE V weight(V grad, V) const { return grad; }
  RL_INLINE V add_slope(V sum, V weight, V difference, V distance) const {
    V signed_weight = difference < V{} ? -weight : difference > V{} ? weight : V{};
    return sum + (magnitude_of<T>(difference) == distance ? signed_weight : V{});
  }
};
template <class T> struct Power {
  using V = vec<T>;
  T p;
  explicit Power(double given) : p(static_cast<T>(given)) {}
  RL_INLINE V add(V sum, V difference) const {
    return sum + of_lanes<T>(difference, [this](T x) { return math::pow(math::magnitude(x), p); });
  }
  RL_INLINE V finish(V sum) const {
    return of_lanes<T>(sum, [this](T x) { return math::pow(x, T(1) / p); });
  }
  RL_INLINE V weight(V grad, V distance) const {
    V power = of_lanes<T>(distance, [this](T x) { return math::pow(x, p - T(1)); });
    return distance == V{} ? V{} : grad / power;
  }
  RL_INLINE V add_slope(V sum, V weight, V difference, V) const {
    V power =
        of_lanes<T>(difference, [this](T x) { return math::pow(math::magnitude(x), p - T(1)); });
    V signed_weight = difference < V{} ? -weight : weight;
    return sum + (difference == V{} ? V{} : power * signed_weight);
  }
};

// f(norm) with the norm of p.
template <class T, class F> void with_norm(double p, F f) {
  if (p == 1) f(Absolute<T>(p));
  else if (p == 2) f(Euclidean<T>(p));
  else if (p == __builtin_inf()) f(Greatest<T>(p));
  else f(Power<T>(p));
}

// The sums of `rows` rows and `width` vectors of columns. Powers are long: of them one at a time.
template <int rows, int width, class T, class Norm>
void distances(const Norm& norm, const T* a, const T* panel, int64_t d, T* to) {
  constexpr int n = Vector<T>::lanes;
  vec<T> totals[rows][width] = {};
  for (int64_t first = 0; first < d; first += depth_together) {
    int64_t last = first + depth_together < d ? first + depth_together : d;
    vec<T> sums[rows][width] = {};
    for (int64_t k = first; k < last; ++k) {
      vec<T> across[width];
#pragma GCC unroll 8
      for (int w = 0; w < width; ++w) across[w] = load(panel + k * panel_columns + w * n);
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r) {
        vec<T> down = vec<T>{} + a[r * d + k];
#pragma GCC unroll 8
        for (int w = 0; w < width; ++w) sums[r][w] = norm.add(sums[r][w], down - across[w]);
      }
    }
    for (int r = 0; r < rows; ++r)
      for (int w = 0; w < width; ++w) {
        if constexpr (std::is_same_v<Norm, Greatest<T>>)
          totals[r][w] = Max::apply(totals[r][w], sums[r][w]);
        else totals[r][w] += sums[r][w];
      }
  }
  for (int r = 0; r < rows; ++r)
    for (int w = 0; w < width; ++w)
      store(to + r * panel_columns + w * n, norm.finish(totals[r][w]));
}

template <int rows, int width, class T, class Norm>
void distance_rows(const Norm& norm, const DistanceTile<T>& t, int64_t column) {
  int64_t r = 0;
  for (; r + rows <= t.rows; r += rows)
    distances<rows, width>(norm, t.a + r * t.d, t.panel + column, t.d,
                           t.sums + r * panel_columns + column);
  for (; r < t.rows; ++r)
    distances<1, width>(norm, t.a + r * t.d, t.panel + column, t.d,
                        t.sums + r * panel_columns + column);
}

template <class T, class Norm> void distance_tile(const Norm& norm, const DistanceTile<T>& t) {
  constexpr int n = Vector<T>::lanes;
  constexpr bool is_long = std::is_same_v<Norm, Power<T>>;
  constexpr int rows = is_long ? 1 : tile_rows, width = is_long ? 1 : tile_width;
  int64_t c = 0;
  for (; c + (width - 1) * n < t.columns; c += width * n) distance_rows<rows, width>(norm, t, c);
  for (; c < t.columns; c += n) distance_rows<rows, 1>(norm, t, c);
}

// Of `depth` elements of the rows and `width` vectors of columns.
template <int depth, int width, class T, class Norm>
void gradients(const Norm& norm, const DistanceGradientTile<T>& t, int64_t k, int64_t column) {
  constexpr int n = Vector<T>::lanes;
  vec<T> sums[depth][width] = {}, own[depth][width];
  for (int i = 0; i < depth; ++i)
    for (int w = 0; w < width; ++w)
      own[i][w] = load(t.panel + (k + i) * panel_columns + column + w * n);
  for (int64_t r = 0; r < t.rows; ++r) {
    const T *weights = t.weights + r * panel_columns + column,
            *distances = t.distances + r * panel_columns + column, *a = t.a + r * t.a_step + k;
#pragma GCC unroll 8
    for (int w = 0; w < width; ++w) {
      vec<T> weight = load(weights + w * n), distance = load(distances + w * n);
#pragma GCC unroll 8
      for (int i = 0; i < depth; ++i)
        sums[i][w] = norm.add_slope(sums[i][w], weight, own[i][w] - a[i], distance);
    }
  }
  for (int i = 0; i < depth; ++i)
    for (int w = 0; w < width; ++w) {
      T* to = t.out + (k + i) * panel_columns + column + w * n;
      store(to, load(to) + sums[i][w]);
    }
}

template <int depth, int width, class T, class Norm>
void gradients_of(const Norm& norm, const DistanceGradientTile<T>& t, int64_t column) {
  int64_t k = 0;
  for (; k + depth <= t.d; k += depth) gradients<depth, width>(norm, t, k, column);
  for (; k < t.d; ++k) gradients<1, width>(norm, t, k, column);
}

template <class T> void gradient_tile(const DistanceGradientTile<T>& t) {
  constexpr int n = Vector<T>::lanes;
  with_norm<T>(t.p, [&](const auto& norm) {
    constexpr bool is_long = std::is_same_v<decltype(norm), const Power<T>&>;
    constexpr int depth = is_long ? 1 : 2, width = is_long ? 1 : tile_width;
    for (int64_t r = 0; r < t.rows; ++r)
      for (int64_t c = r * panel_columns; c < r * panel_columns + t.columns; c += n)
        store(t.weights + c, norm.weight(load(t.weights + c), load(t.distances + c)));
    int64_t c = 0;
    for (; c + (width - 1) * n < t.columns; c += width * n) gradients_of<depth, width>(norm, t, c);
    for (; c < t.columns; c += n) gradients_of<depth, 1>(norm, t, c);
  });
}

template <class T> void tile_of(const DistanceTile<T>& t) {
  if (t.p == 0) return distance_tile(Count<T>(0), t);
  with_norm<T>(t.p, [&](const auto& norm) { distance_tile(norm, t); });
}

}  // namespace

void distance_tile_f32(const DistanceTile<float>& t) { tile_of(t); }
void distance_tile_f64(const DistanceTile<double>& t) { tile_of(t); }
void distance_gradient_tile_f32(const DistanceGradientTile<float>& t) { gradient_tile(t); }
void distance_gradient_tile_f64(const DistanceGradientTile<double>& t) { gradient_tile(t); }

}  // namespace rl::kernels::RL_ISA
