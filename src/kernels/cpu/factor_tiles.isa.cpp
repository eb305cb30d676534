#include "kernels/cpu/factor_tiles.h"

#include <limits>

#include "kernels/cpu/lanes.h"

namespace rl::kernels::RL_ISA {
namespace {

// The vectors of a packed row.
template <class T> constexpr int row_vectors = static_cast<int>(panel_width) / Vector<T>::lanes;

// Written and read as whole vectors: after a narrower store, a load of one waits for the cache.
template <class T> struct PackedRow {
  static constexpr int n = Vector<T>::lanes, count = row_vectors<T>;
  vec<T> part[count];

  PackedRow() {  // zeros
    for (vec<T>& v : part) v = vec<T>{};
  }
  explicit PackedRow(const T* from) {
    for (int v = 0; v < count; ++v) part[v] = load(from + v * n);
  }
  PackedRow(const T* from, int64_t columns) {  // zeros beyond
    for (int v = 0; v < count; ++v) {
      int64_t left = columns - v * n;
      part[v] = left >= n  ? load(from + v * n)
                : left > 0 ? load_part(from + v * n, left)
                           : vec<T>{};
    }
  }
  void put(T* to) const {
    for (int v = 0; v < count; ++v) store(to + v * n, part[v]);
  }
  void put(T* to, int64_t columns) const {
    for (int v = 0; v < count; ++v) {
      int64_t left = columns - v * n;
      if (left >= n) store(to + v * n, part[v]);
      else if (left > 0) store_part(to + v * n, part[v], left);
    }
  }
  void set(int64_t k, T value) {
    for (int v = 0; v < count; ++v)
      part[v] = count_lanes<T>() == static_cast<LaneOf<T>>(k - v * n) ? vec<T>{} + value : part[v];
  }
  T operator[](int64_t k) const {
    T lanes[panel_width];
    put(lanes);
    return lanes[k];
  }
  void add_product(const PackedRow& row, T factor) {
    for (int v = 0; v < count; ++v) part[v] = mul_add(row.part[v], vec<T>{} + factor, part[v]);
  }
  void multiply(T factor) {
    for (vec<T>& v : part) v *= factor;
  }
  // Keeps the lanes after k; the others become zeros.
  void keep_after(int64_t k) {
    for (int v = 0; v < count; ++v)
      part[v] = count_lanes<T>() > static_cast<LaneOf<T>>(k - v * n) ? part[v] : vec<T>{};
  }
  // Less factor * pivot in the lanes after k.
  void eliminate(const PackedRow& pivot, T factor, int64_t k) {
    for (int v = 0; v < count; ++v) {
      vec<T> changed = mul_add(pivot.part[v], -factor, part[v]);
      part[v] = count_lanes<T>() > static_cast<LaneOf<T>>(k - v * n) ? changed : part[v];
    }
  }
};

template <class T> void swap_rows(T* a, T* b) {
  PackedRow<T> first(a), second(b);
  second.put(a);
  first.put(b);
}

template <class T> void lu_panel(const LuPanel<T>& p) {
  T* packed = p.packed;
  auto row = [&](int64_t i) { return packed + i * panel_width; };
  for (int64_t i = 0; i < p.rows; ++i) PackedRow<T>(p.a + i * p.step, p.columns).put(row(i));
  int64_t best = 0;
  T most = math::magnitude(row(0)[0]);
  for (int64_t i = 1; i < p.rows; ++i)
    if (T size = math::magnitude(row(i)[0]); size > most) best = i, most = size;
  for (int64_t k = 0; k < p.rows && k < p.columns; ++k) {
    if (!p.exchange) best = k;
    p.pivots[k] = static_cast<int>(best) + 1;
    T top = row(best)[k];
    if (top == T(0) && *p.zero_pivot == 0) *p.zero_pivot = static_cast<int>(k) + 1;
    if (best != k) swap_rows(row(best), row(k));
    bool nothing = top == T(0) && p.exchange;  // a column of zeros is left as it is
    PackedRow<T> pivot(row(k));
    best = k + 1, most = T(-1);
    for (int64_t i = k + 1; i < p.rows; ++i) {
      if (!nothing) {
        T factor = row(i)[k] / top;
        PackedRow<T> changed(row(i));
        changed.eliminate(pivot, factor, k);
        changed.set(k, factor);
        changed.put(row(i));
      }
      if (k + 1 == panel_width) continue;
      if (T size = math::magnitude(row(i)[k + 1]); size > most) best = i, most = size;
    }
  }
  for (int64_t i = 0; i < p.rows; ++i) PackedRow<T>(row(i)).put(p.a + i * p.step, p.columns);
}

// The columns of a panel by turns, with one pass over its rows for each: it applies the reflector
// of column k, and sums up what that of column k + 1 needs, the products of its elements with their
// rows. Lanes before k hold V, so that the sums are also what T needs.
template <class T> class Reflectors {
 public:
  explicit Reflectors(const QrPanel<T>& p) : p_(p) {}

  bool run() {
    for (int64_t i = 0; i < p_.rows; ++i) PackedRow<T>(p_.a + i * p_.step, p_.columns).put(row(i));
    PackedRow<T> sums = pass(-1, T(0), PackedRow<T>());
    for (int64_t k = 0; k < p_.columns; ++k) {
      T alpha = row(k)[k], below = sums[k], square = alpha * alpha + below;
      // Elements whose squares vanish beside one of this size do not count.
      constexpr T epsilon = std::numeric_limits<T>::epsilon();
      constexpr T least = std::numeric_limits<T>::min() / (epsilon * epsilon);
      bool in_range = square >= least && square <= std::numeric_limits<T>::max();
      if (!in_range && k + 1 < p_.rows) return false;
      bool reflects = below > T(0);
      T beta = reflects ? __builtin_copysign(math::sqrt(square), -alpha) : alpha;
      T inverse = reflects ? 1 / (alpha - beta) : T(0);
      p_.tau[k] = reflects ? (beta - alpha) / beta : T(0);
      sums = next(k, beta, inverse, sums);
    }
    for (int64_t i = 0; i < p_.rows; ++i) put_row(i);
    return true;
  }

 private:
  T* row(int64_t i) const { return p_.packed + i * panel_width; }

  // The reflector of column k, and the sums of the one after it.
  PackedRow<T> next(int64_t k, T beta, T inverse, const PackedRow<T>& sums) {
    PackedRow<T> top(row(k)), products = top, t;
    products.add_product(sums, inverse);  // v^T times the columns, and V^T v before k
    T before[panel_width];
    products.put(before);
    for (int64_t j = 0; j < k; ++j) t.add_product(PackedRow<T>(t_[j]), -p_.tau[k] * before[j]);
    t.set(k, p_.tau[k]);
    t.put(t_[k]);
    t.put(p_.t + k * p_.t_step, p_.columns);
    products.keep_after(k);
    products.multiply(p_.tau[k]);
    top.add_product(products, T(-1));
    top.set(k, beta);
    top.put(row(k));
    return pass(k, inverse, products);
  }

  // Rows after k become those less v times `products`, with v in lane k.
  RL_INLINE PackedRow<T> pass(int64_t k, T inverse, const PackedRow<T>& products) {
    constexpr int together = 4;
    PackedRow<T> sums[together], unused;
    const int64_t key = k + 1 < p_.columns ? k + 1 : k;
    const T of_key = products[key];
    auto one = [&](int64_t i, PackedRow<T>& sum) {
      T* r = row(i);
      PackedRow<T> changed(r);
      T element = r[key];
      if (k >= 0) {
        T v = r[k] * inverse;
        changed.add_product(products, -v);
        changed.set(k, v);
        element = mul_add(of_key, -v, element);
        changed.put(r);
      }
      sum.add_product(changed, element);
    };
    if (k + 1 < p_.rows) one(k + 1, unused);
    int64_t i = k + 2;
    for (; i + together <= p_.rows; i += together)
#pragma GCC unroll 4
      for (int u = 0; u < together; ++u) one(i + u, sums[u]);
    for (; i < p_.rows; ++i) one(i, sums[0]);
    for (int u = 1; u < together; ++u) sums[0].add_product(sums[u], T(1));
    return sums[0];
  }

  // Row i of R and the vectors, and of V.
  void put_row(int64_t i) const {
    PackedRow<T> all(row(i)), v = all;
    all.put(p_.a + i * p_.step, p_.columns);
    for (int64_t j = i; j < p_.columns; ++j) v.set(j, T(j == i));
    v.put(p_.v + i * p_.v_step, p_.columns);
  }

  const QrPanel<T>& p_;
  T t_[panel_width][panel_width];
};

template <class T> void cholesky_tile(const CholeskyTile<T>& t) {
  T packed[panel_width * panel_width];
  auto row = [&](int64_t i) { return packed + i * panel_width; };
  for (int64_t i = 0; i < t.n; ++i) PackedRow<T>(t.a + i * t.step, t.n).put(row(i));
  for (int64_t k = 0; k < t.n; ++k) {
    T square = row(k)[k];
    if (!(square > T(0))) {
      *t.zero_pivot = static_cast<int>(k) + 1;
      break;
    }
    T root = math::sqrt(square);
    PackedRow<T> pivot(row(k));
    for (vec<T>& part : pivot.part) part /= root;
    pivot.set(k, root);
    pivot.put(row(k));
    for (int64_t i = k + 1; i < t.n; ++i) {
      PackedRow<T> changed(row(i));
      changed.eliminate(pivot, row(k)[i], i - 1);
      changed.put(row(i));
    }
  }
  for (int64_t i = 0; i < t.n; ++i) PackedRow<T>(row(i)).put(t.a + i * t.step, t.n);
}

// The columns of a strip: each row less those solved before, divided by the diagonal. Two sums at a
// time, so that additions overlap.
template <int width, class T> RL_INLINE void solve_strip(const TriangleTile<T>& t, T* x) {
  constexpr int n = Vector<T>::lanes;
  auto get = [](const T* from, vec<T>* to) {
    for (int v = 0; v < width; ++v) to[v] = load(from + v * n);
  };
  for (int64_t step = 0; step < t.n; ++step) {
    int64_t i = t.upper ? t.n - 1 - step : step, first = t.upper ? i + 1 : 0;
    const T* a = t.a + i * t.row + first * t.column;
    const T* solved = x + first * t.x_step;
    vec<T> sum[width], second[width] = {}, other[width];
    get(x + i * t.x_step, sum);
    int64_t j = 0;
    for (; j + 2 <= step; j += 2, a += 2 * t.column, solved += 2 * t.x_step) {
      get(solved, other);
      for (int v = 0; v < width; ++v) sum[v] = mul_add(other[v], -a[0], sum[v]);
      get(solved + t.x_step, other);
      for (int v = 0; v < width; ++v) second[v] = mul_add(other[v], -a[t.column], second[v]);
    }
    if (j < step) {
      get(solved, other);
      for (int v = 0; v < width; ++v) sum[v] = mul_add(other[v], -a[0], sum[v]);
    }
    T diagonal = t.unit ? T(1) : t.a[i * (t.row + t.column)];
    for (int v = 0; v < width; ++v) {
      sum[v] += second[v];
      if (!t.unit) sum[v] /= diagonal;
    }
    for (int v = 0; v < width; ++v) store(x + i * t.x_step + v * n, sum[v]);
  }
}

// Elements [i, i + rows) of a vector, `known` others of which are solved, from `first` on. Rows of
// `a` lie in one piece. Of several rows at a time the additions overlap, and those of what was
// written last wait once for all.
template <int rows, class T>
RL_INLINE void solve_rows(const TriangleTile<T>& t, int64_t i, int64_t first, int64_t known) {
  constexpr int n = Vector<T>::lanes;
  T sums[rows] = {};
  const T *a = t.a + i * t.row + first, *x = t.x + first;
  int64_t k = known;
  if (known >= n) {
    vec<T> parts[rows] = {};
    for (k = 0; k + n <= known; k += n) {
      vec<T> solved = load(x + k);
      for (int r = 0; r < rows; ++r) parts[r] = mul_add(load(a + r * t.row + k), solved, parts[r]);
    }
    for (int r = 0; r < rows; ++r) fold_lanes<Add, T>(parts[r], sums + r);
  } else {
    k = 0;
  }
  for (; k < known; ++k)
    for (int r = 0; r < rows; ++r) sums[r] = mul_add(a[r * t.row + k], x[k], sums[r]);
  for (int step = 0; step < rows; ++step) {
    int r = t.upper ? rows - 1 - step : step;
    const T* own = t.a + (i + r) * t.row + i;
    T value = t.x[i + r] - sums[r];
    if (!t.unit) value /= own[r];
    t.x[i + r] = value;
    for (int other = t.upper ? 0 : r + 1; other < (t.upper ? r : rows); ++other)
      sums[other] = mul_add(t.a[(i + other) * t.row + i + r], value, sums[other]);
  }
}

// A vector that lies in one piece: by rows or by columns of `a`, whichever do so too.
template <class T> void solve_vector(const TriangleTile<T>& t) {
  constexpr int together = 4;
  if (t.column == 1) {
    int64_t known = 0;
    for (; known + together <= t.n; known += together)
      solve_rows<together>(t, t.upper ? t.n - known - together : known, t.upper ? t.n - known : 0,
                           known);
    for (; known < t.n; ++known)
      solve_rows<1>(t, t.upper ? t.n - known - 1 : known, t.upper ? t.n - known : 0, known);
    return;
  }
  for (int64_t step = 0; step < t.n; ++step) {
    int64_t i = t.upper ? t.n - 1 - step : step, next = t.upper ? 0 : i + 1;
    if (!t.unit) t.x[i] /= t.a[i * (t.row + t.column)];
    const T* a = t.a + next * t.row + i * t.column;
    T *x = t.x + next, value = t.x[i];
    for_offsets<T>(t.n - 1 - step, [&](auto at) { at.put(x, mul_add(at(a), -value, at(x))); });
  }
}

template <class T> void triangle_tile(const TriangleTile<T>& t) {
  constexpr int n = Vector<T>::lanes, width = 4;
  if (t.columns == 1 && t.x_step == 1 && (t.row == 1 || t.column == 1)) return solve_vector(t);
  int64_t c = 0, left = t.columns % n;
  for (; c + width * n <= t.columns; c += width * n) solve_strip<width>(t, t.x + c);
  for (; c + n <= t.columns; c += n) solve_strip<1>(t, t.x + c);
  if (left == 0) return;
  T rest[triangle_rows * n];  // part of a vector, once stored, is not soon to be read again
  for (int64_t i = 0; i < t.n; ++i) store(rest + i * n, load_part(t.x + i * t.x_step + c, left));
  TriangleTile<T> last = t;
  last.x_step = n;
  solve_strip<1>(last, rest);
  for (int64_t i = 0; i < t.n; ++i) store_part(t.x + i * t.x_step + c, load(rest + i * n), left);
}

}  // namespace

void lu_panel_f32(const LuPanel<float>& p) { lu_panel(p); }
void lu_panel_f64(const LuPanel<double>& p) { lu_panel(p); }
void qr_panel_f32(const QrPanel<float>& p) { *p.in_range &= Reflectors<float>(p).run(); }
void qr_panel_f64(const QrPanel<double>& p) { *p.in_range &= Reflectors<double>(p).run(); }
void cholesky_tile_f32(const CholeskyTile<float>& t) { cholesky_tile(t); }
void cholesky_tile_f64(const CholeskyTile<double>& t) { cholesky_tile(t); }
void triangle_tile_f32(const TriangleTile<float>& t) { triangle_tile(t); }
void triangle_tile_f64(const TriangleTile<double>& t) { triangle_tile(t); }

}  // namespace rl::kernels::RL_ISA
