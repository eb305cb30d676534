#include "kernels/cpu/factor_lanes.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "kernels/cpu/lanes.h"

namespace rl::kernels::RL_ISA {
namespace {

// A vector of a group's lanes; of a vector wider than a group's numbers there are several.
template <class T> struct Lanes {
  static constexpr int bytes = std::min<int>(vector_bytes, group_lanes * sizeof(T));
  static constexpr int width = bytes / static_cast<int>(sizeof(T));
  using V = vec<T, bytes>;
  using I = vec<LaneOf<T>, bytes>;  // and comparisons of V
};

// One vector of lanes of the matrices of a group.
template <class T> struct Part {
  using V = typename Lanes<T>::V;
  T* data;
  int64_t row, column;
  Part(const LaneMatrices& m, int64_t g, int lane)
      : data(m.data ? m.at<T>(g, 0, 0) + lane : nullptr), row(m.row), column(m.column) {}
  V operator()(int64_t i, int64_t j) const {
    return load<T, Lanes<T>::bytes>(data + i * row + j * column);
  }
  void set(int64_t i, int64_t j, V v) const { store(data + i * row + j * column, v); }
  Part turned() const {
    Part t = *this;
    std::swap(t.row, t.column);
    return t;
  }
};

template <class V> RL_INLINE bool any(V mask) {
  if constexpr (sizeof(V) > 16) {
    return any(lower_half(mask) | upper_half(mask));
  } else {
    uint64_t words[2];
    std::memcpy(words, &mask, sizeof words);
    return words[0] | words[1];
  }
}
template <class T, class V> RL_INLINE V square_root(V v) {
  T lanes[sizeof(V) / sizeof(T)];
  std::memcpy(lanes, &v, sizeof v);
  for (T& x : lanes) x = math::sqrt(x);
  std::memcpy(&v, lanes, sizeof v);
  return v;
}
template <class T, class V> RL_INLINE V size_of(V v) {
  using I = typename Lanes<T>::I;
  return (V)((I)v & std::numeric_limits<LaneOf<T>>::max());
}
// a's size with b's sign.
template <class T, class V> RL_INLINE V with_sign(V a, V b) {
  using I = typename Lanes<T>::I;
  constexpr LaneOf<T> sign = std::numeric_limits<LaneOf<T>>::min();
  return (V)(((I)a & ~sign) | ((I)b & sign));
}
template <class T> RL_INLINE typename Lanes<T>::V all_lanes(T x) {
  return broadcast<typename Lanes<T>::V>(x);
}
// Whole numbers of lanes, as int32.
template <class T> RL_INLINE void put_whole(int32_t* to, typename Lanes<T>::I v) {
  for (int i = 0; i < Lanes<T>::width; ++i) to[i] = static_cast<int32_t>(v[i]);
}

// f(g, lane) for each vector of lanes.
template <class T, class F> RL_INLINE void for_vectors(int64_t groups, F&& f) {
  for (int64_t g = 0; g < groups; ++g)
    for (int lane = 0; lane < group_lanes; lane += Lanes<T>::width) f(g, lane);
}

// m = factor * source subtracted from row i, from column `first` on.
template <class T>
RL_INLINE void subtract_row(const Part<T>& m, int64_t i, int64_t source, typename Part<T>::V factor,
                            int64_t first, int64_t end) {
  for (int64_t j = first; j < end; ++j) m.set(i, j, mul_add(-factor, m(source, j), m(i, j)));
}

// Exchanges columns p and q of some lanes.
template <class T>
RL_INLINE void exchange_columns(const Part<T>& m, int64_t rows, int64_t p, int64_t q,
                                typename Lanes<T>::I some) {
  for (int64_t i = 0; i < rows; ++i) {
    const auto x = m(i, p), y = m(i, q);
    m.set(i, p, some ? y : x);
    m.set(i, q, some ? x : y);
  }
}

// Exchanges row k with row other[lane], which is k or one of [first, rows), in each lane.
template <class T>
RL_INLINE void exchange_rows(const Part<T>& m, int64_t k, typename Lanes<T>::I other, int64_t first,
                             int64_t rows, int64_t columns) {
  for (int64_t i = first; i < rows; ++i) {
    const auto here = other == static_cast<LaneOf<T>>(i);
    if (i == k || !any(here)) continue;
    exchange_columns(m.turned(), columns, k, i, here);
  }
}

template <class T> void lu(const LaneLu& p) {
  using V = typename Lanes<T>::V;
  using I = typename Lanes<T>::I;
  for_vectors<T>(p.groups, [&](int64_t g, int lane) {
    const Part<T> m(p.a, g, lane);
    I zero_pivot{};
    for (int64_t k = 0; k < std::min(p.rows, p.columns); ++k) {
      I best = I{} + static_cast<LaneOf<T>>(k);
      V most = size_of<T>(m(k, k));
      for (int64_t i = k + 1; p.exchange && i < p.rows; ++i) {
        const V size = size_of<T>(m(i, k));
        const I above = size > most;
        best = above ? I{} + static_cast<LaneOf<T>>(i) : best;
        most = above ? size : most;
      }
      put_whole<T>(p.pivots.at<int32_t>(g, 0, k) + lane, best + 1);
      if (p.exchange) exchange_rows(m, k, best, k + 1, p.rows, p.columns);
      const V top = m(k, k);
      const I none = top == T(0);
      zero_pivot = none & (zero_pivot == 0) ? I{} + static_cast<LaneOf<T>>(k + 1) : zero_pivot;
      const I nothing = p.exchange ? none : I{};  // a column of zeros is left as it is
      for (int64_t i = k + 1; i < p.rows; ++i) {
        const V below = m(i, k), factor = nothing ? V{} : below / top;
        m.set(i, k, nothing ? below : factor);
        subtract_row(m, i, k, factor, k + 1, p.columns);
      }
    }
    put_whole<T>(p.zero_pivot.at<int32_t>(g, 0, 0) + lane, zero_pivot);
  });
}

template <class T> void exchange(const LaneExchange& p) {
  for_vectors<T>(p.groups, [&](int64_t g, int lane) {
    const Part<T> x(p.x, g, lane);
    for (int64_t step = 0; step < p.n; ++step) {
      const int64_t k = p.back ? p.n - 1 - step : step;
      const int32_t* pivots = p.pivots.at<int32_t>(g, 0, k) + lane;
      typename Lanes<T>::I other;
      for (int i = 0; i < Lanes<T>::width; ++i) other[i] = pivots[i] - 1;
      exchange_rows(x, k, other, 0, p.n, p.columns);
    }
  });
}

template <class T> void triangle(const LaneTriangle& p) {
  using V = typename Lanes<T>::V;
  for_vectors<T>(p.groups, [&](int64_t g, int lane) {
    const Part<T> a(p.a, g, lane), x(p.x, g, lane);
    for (int64_t step = 0; step < p.n; ++step) {
      const int64_t i = p.upper ? p.n - 1 - step : step, first = p.upper ? i + 1 : 0;
      for (int64_t c = 0; c < p.columns; ++c) {
        V sum = x(i, c);
        for (int64_t k = first; k < first + step; ++k) sum = mul_add(-a(i, k), x(k, c), sum);
        x.set(i, c, p.unit ? sum : sum / a(i, i));
      }
    }
  });
}

template <class T> void cholesky(const LaneCholesky& p) {
  using V = typename Lanes<T>::V;
  using I = typename Lanes<T>::I;
  for_vectors<T>(p.groups, [&](int64_t g, int lane) {
    const Part<T> m(p.a, g, lane);
    I info{};
    for (int64_t k = 0; k < p.n; ++k) {
      const V square = m(k, k);
      const I good = square > T(0);
      info = (info == 0) & ~good ? I{} + static_cast<LaneOf<T>>(k + 1) : info;
      const V root = square_root<T>(good ? square : all_lanes<T>(1));
      m.set(k, k, root);
      for (int64_t j = k + 1; j < p.n; ++j) m.set(k, j, m(k, j) / root);
      for (int64_t i = k + 1; i < p.n; ++i) {
        m.set(i, k, V{});
        subtract_row(m, i, k, m(k, i), i, p.n);
      }
    }
    put_whole<T>(p.info.at<int32_t>(g, 0, 0) + lane, info);
  });
}

// The power of two next below the size of each lane, and no less than the least normal number.
template <class T> RL_INLINE typename Lanes<T>::V power_below(typename Lanes<T>::V v) {
  using V = typename Lanes<T>::V;
  using I = typename Lanes<T>::I;
  constexpr int digits = std::numeric_limits<T>::digits - 1;
  constexpr LaneOf<T> exponent = ~((LaneOf<T>(1) << digits) - 1);
  return larger((V)((I)size_of<T>(v) & exponent), all_lanes<T>(std::numeric_limits<T>::min()));
}
template <class T> constexpr T most_power = T(1) / std::numeric_limits<T>::min() / 4;

// As make_reflector(): of column k, from row k on. Returns tau. The column is worked on divided by
// a power of two, so that squares are normal numbers.
template <class T>
RL_INLINE typename Lanes<T>::V make_reflector(const Part<T>& m, int64_t k, int64_t rows) {
  using V = typename Lanes<T>::V;
  V below{};
  for (int64_t i = k + 1; i < rows; ++i) below = larger(size_of<T>(m(i, k)), below);
  const V power = power_below<T>(larger(size_of<T>(m(k, k)), below)), inverse = T(1) / power;
  V sum{};
  for (int64_t i = k; i < rows; ++i) {
    const V x = m(i, k) * inverse;
    sum = mul_add(x, x, sum);
  }
  const V alpha = m(k, k) * inverse, beta = -with_sign<T>(square_root<T>(sum), alpha);
  const auto nothing = below == T(0);
  const V divisor = nothing ? all_lanes<T>(1) : alpha - beta;
  for (int64_t i = k + 1; i < rows; ++i) m.set(i, k, m(i, k) * inverse / divisor);
  m.set(k, k, nothing ? m(k, k) : beta * power);
  return nothing ? V{} : (beta - alpha) / beta;
}

// Column j of x, from row k on, less tau v (v^T of it), v the vector below the diagonal of column k
// of `vectors`.
template <class T>
RL_INLINE void reflect(const Part<T>& vectors, int64_t k, typename Lanes<T>::V tau,
                       const Part<T>& x, int64_t j, int64_t rows) {
  typename Lanes<T>::V dot = x(k, j);
  for (int64_t i = k + 1; i < rows; ++i) dot = mul_add(vectors(i, k), x(i, j), dot);
  dot *= tau;
  x.set(k, j, x(k, j) - dot);
  for (int64_t i = k + 1; i < rows; ++i) x.set(i, j, mul_add(-vectors(i, k), dot, x(i, j)));
}

template <class T> void reflectors(const LaneReflectors& p) {
  for_vectors<T>(p.groups, [&](int64_t g, int lane) {
    const Part<T> m(p.a, g, lane), tau(p.tau, g, lane);
    for (int64_t k = 0; k < p.count; ++k) {
      const auto scale = make_reflector(m, k, p.rows);
      tau.set(0, k, scale);
      for (int64_t j = k + 1; j < p.columns; ++j) reflect(m, k, scale, m, j, p.rows);
    }
  });
}

template <class T> void reflected(const LaneReflectors& p) {
  for_vectors<T>(p.groups, [&](int64_t g, int lane) {
    const Part<T> m(p.a, g, lane), tau(p.tau, g, lane);
    for (int64_t j = p.count; j < p.columns; ++j)
      for (int64_t i = 0; i < p.rows; ++i) m.set(i, j, all_lanes<T>(i == j));
    for (int64_t k = p.count - 1; k >= 0; --k) {
      const auto scale = tau(0, k);
      for (int64_t j = k + 1; j < p.columns; ++j) reflect(m, k, scale, m, j, p.rows);
      for (int64_t i = 0; i < k; ++i) m.set(i, k, all_lanes<T>(0));
      m.set(k, k, T(1) - scale);
      for (int64_t i = k + 1; i < p.rows; ++i) m.set(i, k, m(i, k) * -scale);
    }
  });
}

template <class T> void ormqr(const LaneProduct& p) {
  for_vectors<T>(p.by.groups, [&](int64_t g, int lane) {
    const Part<T> m(p.by.a, g, lane), tau(p.by.tau, g, lane), x(p.x, g, lane);
    for (int64_t step = 0; step < p.by.count; ++step) {
      const int64_t k = p.transposed ? step : p.by.count - 1 - step;
      for (int64_t j = 0; j < p.x_columns; ++j) reflect(m, k, tau(0, k), x, j, p.by.rows);
    }
  });
}

template <class T> void condition(const LaneCondition& p) {
  using V = typename Lanes<T>::V;
  for_vectors<T>(p.groups, [&](int64_t g, int lane) {
    const Part<T> a(p.a, g, lane);
    V x[most_conditioned], of_a{}, of_inverse{};
    for (int64_t c = 0; c < p.n; ++c)
      for (int64_t i = c; i >= 0; --i) {
        const V element = a(i, c);
        of_a = mul_add(element, element, of_a);
        V sum = all_lanes<T>(i == c);
        for (int64_t k = i + 1; k <= c; ++k) sum = mul_add(-a(i, k), x[k], sum);
        x[i] = sum / a(i, i);
        of_inverse = mul_add(x[i], x[i], of_inverse);
      }
    const V condition = square_root<T>(of_a) * square_root<T>(of_inverse);
    put_whole<T>(p.info.at<int32_t>(g, 0, 0) + lane, ~(condition <= static_cast<T>(p.most)));
  });
}

constexpr int most_sweeps = 30;

// The rotation p' = x - sine * (y + half x), q' = y + sine * (x - half y) of pairs (x, y), which
// makes an entry `off` zero that stands beside p and q on the diagonal; none where not `turns`.
template <class T> struct Rotation {
  using V = typename Lanes<T>::V;
  V sine, half, change;  // of p by -change, of q by change
  RL_INLINE Rotation(V p, V q, V off, typename Lanes<T>::I turns) {
    const V ratio = (q - p) / (off + off);
    const V root = square_root<T>(mul_add(ratio, ratio, all_lanes<T>(1)));
    V tangent = with_sign<T>(T(1) / (size_of<T>(ratio) + root), ratio);
    tangent = turns ? tangent : V{};
    const V cosine = T(1) / square_root<T>(mul_add(tangent, tangent, all_lanes<T>(1)));
    sine = tangent * cosine;
    half = sine / (T(1) + cosine);
    change = turns ? tangent * off : V{};
  }
  RL_INLINE void turn(V& x, V& y) const {
    const V before = x;
    x = mul_add(-sine, mul_add(half, x, y), x);
    y = mul_add(sine, mul_add(-half, y, before), y);
  }
  RL_INLINE void turn_columns(const Part<T>& m, int64_t rows, int64_t p, int64_t q) const {
    for (int64_t i = 0; i < rows; ++i) {
      V x = m(i, p), y = m(i, q);
      turn(x, y);
      m.set(i, p, x);
      m.set(i, q, y);
    }
  }
};

template <class T> RL_INLINE void set_identity(const Part<T>& m, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) m.set(i, j, all_lanes<T>(i == j));
}

template <class T> void identity(const LaneIdentity& p) {
  for_vectors<T>(p.groups, [&](int64_t g, int lane) { set_identity<T>({p.a, g, lane}, p.n); });
}

// Divides the matrices by powers of two, which it returns: their largest elements are then from 1
// to 2, or zero.
template <class T>
RL_INLINE typename Lanes<T>::V scale_to_one(const Part<T>& m, int64_t rows, int64_t columns) {
  typename Lanes<T>::V largest{}, sum{};
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      largest = larger(size_of<T>(m(i, j)), largest);
      sum += m(i, j) * T(0);  // NaN where one is not finite
    }
  const auto power = power_below<T>(largest) + sum, inverse = T(1) / power;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) m.set(i, j, m(i, j) * inverse);
  return power;
}

// turn(p, q) for all pairs, again and again: it returns the lanes that it has turned. Lanes whose
// rotations have not come to an end.
template <class T, class Turn>
RL_INLINE typename Lanes<T>::I sweep_until_done(int64_t n, Turn turn) {
  using I = typename Lanes<T>::I;
  I turned{};
  for (int sweep = 0; sweep < most_sweeps; ++sweep) {
    turned = I{};
    for (int64_t q = 1; q < n; ++q)
      for (int64_t p = 0; p < q; ++p) turned |= turn(p, q);
    if (!any(turned)) break;
  }
  return turned;
}

// Orders values (1, n) so that later(a, b) is nowhere true of one and the next, and columns with
// them: exchange(i, j, lanes).
template <class T, class Later, class Exchange>
RL_INLINE void sort_values(const Part<T>& values, int64_t n, Later later, Exchange exchange) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = i + 1; j < n; ++j) {
      const typename Lanes<T>::I some = later(values(0, i), values(0, j));
      if (!any(some)) continue;
      exchange_columns(values, 1, i, j, some);
      exchange(i, j, some);
    }
}

template <class T> struct Eigh {
  using V = typename Lanes<T>::V;
  using I = typename Lanes<T>::I;
  int64_t n;
  Part<T> m, values, vectors;
  bool wanted;

  // One turn of rows and columns p and q, both of which are kept.
  RL_INLINE I turn(int64_t p, int64_t q, V tolerance) const {
    const V off = m(p, q);
    const I turns = size_of<T>(off) > tolerance;
    if (!any(turns)) return turns;
    const Rotation<T> rotation(m(p, p), m(q, q), off, turns);
    m.set(p, p, m(p, p) - rotation.change);
    m.set(q, q, m(q, q) + rotation.change);
    const V rest = turns ? V{} : off;
    m.set(p, q, rest);
    m.set(q, p, rest);
    for (int64_t i = 0; i < n; ++i) {
      if (i == p || i == q) continue;
      V x = m(i, p), y = m(i, q);
      rotation.turn(x, y);
      m.set(i, p, x), m.set(p, i, x);
      m.set(i, q, y), m.set(q, i, y);
    }
    if (wanted) rotation.turn_columns(vectors, n, p, q);
    return turns;
  }

  RL_INLINE I run() const {
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = i + 1; j < n; ++j) m.set(i, j, m(j, i));
    const V power = scale_to_one(m, n, n);
    if (wanted) set_identity(vectors, n);
    V sum{};
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) sum = mul_add(m(i, j), m(i, j), sum);
    const T precision = std::numeric_limits<T>::epsilon() / static_cast<T>(4 * n + 4);
    const I good = power <= most_power<T>;
    const V tolerance = good ? square_root<T>(sum) * precision : V{} + most_power<T>;
    const I turned =
        sweep_until_done<T>(n, [&](int64_t p, int64_t q) { return turn(p, q, tolerance); });
    for (int64_t i = 0; i < n; ++i) values.set(0, i, m(i, i) * power);
    sort_values(
        values, n, [](V a, V b) { return b < a; },
        [&](int64_t i, int64_t j, I some) {
          if (wanted) exchange_columns(vectors, n, i, j, some);
        });
    return ~good | turned;
  }
};

template <class T> void eigh(const LaneEigh& p) {
  for_vectors<T>(p.groups, [&](int64_t g, int lane) {
    const Eigh<T> problem{
        p.n, {p.a, g, lane}, {p.values, g, lane}, {p.vectors, g, lane}, p.vectors.data != nullptr};
    put_whole<T>(p.info.at<int32_t>(g, 0, 0) + lane, problem.run());
  });
}

template <class T> struct Svd {
  using V = typename Lanes<T>::V;
  using I = typename Lanes<T>::I;
  int64_t rows, n;
  Part<T> m, values, v;
  bool wanted;

  RL_INLINE V dot(int64_t p, int64_t q) const {
    V sum{};
    for (int64_t i = 0; i < rows; ++i) sum = mul_add(m(i, p), m(i, q), sum);
    return sum;
  }

  // Turns columns p and q until they are orthogonal; lanes whose columns were not.
  RL_INLINE I turn(int64_t p, int64_t q, I good) const {
    constexpr T precision = 2 * std::numeric_limits<T>::epsilon();
    const V of_p = dot(p, p), of_q = dot(q, q), both = dot(p, q), size = size_of<T>(both);
    const V limit = square_root<T>(of_p) * square_root<T>(of_q) * precision;
    const I turns = (size > limit) & (size > std::numeric_limits<T>::min()) & good;
    if (!any(turns)) return turns;
    const Rotation<T> rotation(of_p, of_q, both, turns);
    rotation.turn_columns(m, rows, p, q);
    if (wanted) rotation.turn_columns(v, n, p, q);
    return turns;
  }

  RL_INLINE I run() const {
    const V power = scale_to_one(m, rows, n);
    if (wanted) set_identity(v, n);
    I good = power <= most_power<T>;
    good &= ~sweep_until_done<T>(n, [&](int64_t p, int64_t q) { return turn(p, q, good); });
    for (int64_t j = 0; j < n; ++j) values.set(0, j, square_root<T>(dot(j, j)));
    sort_values(
        values, n, [](V a, V b) { return b > a; },
        [&](int64_t i, int64_t j, I some) {
          if (!wanted) return;
          exchange_columns(m, rows, i, j, some);
          exchange_columns(v, n, i, j, some);
        });
    for (int64_t j = 0; j < n; ++j) {
      const V size = values(0, j);
      values.set(0, j, size * power);
      if (!wanted) continue;
      good &= size > all_lanes<T>(math::sqrt(std::numeric_limits<T>::min()));
      for (int64_t i = 0; i < rows; ++i) m.set(i, j, m(i, j) / size);
    }
    return ~good;
  }
};

template <class T> void svd(const LaneSvd& p) {
  for_vectors<T>(p.groups, [&](int64_t g, int lane) {
    const Svd<T> problem{p.rows,         p.columns,          {p.a, g, lane}, {p.values, g, lane},
                         {p.v, g, lane}, p.v.data != nullptr};
    put_whole<T>(p.info.at<int32_t>(g, 0, 0) + lane, problem.run());
  });
}

}  // namespace

void lane_lu(const LaneLu& p) { p.dtype == DType::Float32 ? lu<float>(p) : lu<double>(p); }
void lane_exchange(const LaneExchange& p) {
  p.dtype == DType::Float32 ? exchange<float>(p) : exchange<double>(p);
}
void lane_triangle(const LaneTriangle& p) {
  p.dtype == DType::Float32 ? triangle<float>(p) : triangle<double>(p);
}
void lane_cholesky(const LaneCholesky& p) {
  p.dtype == DType::Float32 ? cholesky<float>(p) : cholesky<double>(p);
}
void lane_reflectors(const LaneReflectors& p) {
  p.dtype == DType::Float32 ? reflectors<float>(p) : reflectors<double>(p);
}
void lane_reflected(const LaneReflectors& p) {
  p.dtype == DType::Float32 ? reflected<float>(p) : reflected<double>(p);
}
void lane_ormqr(const LaneProduct& p) {
  p.by.dtype == DType::Float32 ? ormqr<float>(p) : ormqr<double>(p);
}
void lane_condition(const LaneCondition& p) {
  p.dtype == DType::Float32 ? condition<float>(p) : condition<double>(p);
}
void lane_identity(const LaneIdentity& p) {
  p.dtype == DType::Float32 ? identity<float>(p) : identity<double>(p);
}
void lane_eigh(const LaneEigh& p) { p.dtype == DType::Float32 ? eigh<float>(p) : eigh<double>(p); }
void lane_svd(const LaneSvd& p) { p.dtype == DType::Float32 ? svd<float>(p) : svd<double>(p); }

}  // namespace rl::kernels::RL_ISA
