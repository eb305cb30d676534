#include "kernels/cpu/scan_rows.h"

#include "kernels/cpu/scan_lanes.h"

namespace rl::kernels::RL_ISA {
namespace {

template <class T, int lanes, class A> RL_INLINE Lanes<A, lanes> load_as(const void* x) {
  Lanes<T, lanes> v;
  __builtin_memcpy(&v, x, sizeof v);
  if constexpr (lanes == 1) return static_cast<A>(v);
  else if constexpr (sizeof(T) < sizeof(A)) return widened_floats<lanes * sizeof(A)>(v);
  else return v;
}
template <class T, int lanes, class V> RL_INLINE void store_as(void* y, V a) {
  Lanes<T, lanes> v;
  if constexpr (lanes == 1) v = static_cast<T>(a);
  else v = __builtin_convertvector(a, Lanes<T, lanes>);
  __builtin_memcpy(y, &v, sizeof v);
}

template <class Op, class A, class T>
void scan(const T* x, T* y, int64_t n, A identity, A* carry) {
  constexpr int lanes = Vector<A>::lanes;
  vec<A> start = identity - vec<A>{}, total = *carry - vec<A>{};
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    vec<A> folded = prefix<Op, A>(load_as<T, lanes, A>(x + i), start);
    store_as<T, lanes>(y + i, Op::apply(total, folded));
    // The one step that waits for the step before it.
    total = Op::apply(total, vec<A>(folded[lanes - 1] - vec<A>{}));
  }
  A last = total[0];
  for (; i < n; ++i) y[i] = static_cast<T>(last = Op::apply(last, static_cast<A>(x[i])));
  *carry = last;
}

// `lanes` neighbouring lines, which lie side by side, in a vector.
template <class Op, int lanes, class T, class A>
void scan_neighbours(const char* x, int64_t x_step, char* y, int64_t y_step, int64_t n, A* carry) {
  Lanes<A, lanes> total;
  __builtin_memcpy(&total, carry, sizeof total);
  for (int64_t i = 0; i < n; ++i, x += x_step, y += y_step) {
    total = Op::apply(total, load_as<T, lanes, A>(x));
    store_as<T, lanes>(y, total);
  }
  __builtin_memcpy(carry, &total, sizeof total);
}

// Lines from `first` on that lie side by side: as many vectors of `lanes` as there are, then
// narrower ones.
template <class Op, int lanes, class T, class A>
void scan_columns(const char* x, int64_t x_step, char* y, int64_t y_step, int64_t n, int64_t lines,
                  A* carry) {
  int64_t j = 0;
  for (; j + lanes <= lines; j += lanes)
    scan_neighbours<Op, lanes, T>(x + j * sizeof(T), x_step, y + j * sizeof(T), y_step, n,
                                  carry + j);
  if constexpr (lanes > 1)
    scan_columns<Op, lanes / 2, T>(x + j * sizeof(T), x_step, y + j * sizeof(T), y_step, n,
                                   lines - j, carry + j);
}

// `together` lines side by side: their steps do not wait for each other.
template <class Op, int together, class T, class A>
void scan_beside(const char* x, int64_t x_step, int64_t x_line, char* y, int64_t y_step,
                 int64_t y_line, int64_t n, A identity) {
  A total[together];
  for (A& t : total) t = identity;
  for (int64_t i = 0; i < n; ++i, x += x_step, y += y_step) {
#pragma GCC unroll 4
    for (int j = 0; j < together; ++j) {
      total[j] = Op::apply(total[j], static_cast<A>(*reinterpret_cast<const T*>(x + j * x_line)));
      *reinterpret_cast<T*>(y + j * y_line) = static_cast<T>(total[j]);
    }
  }
}

// As many rows of neighbouring lines at a time as stay in the first-level cache from vector to
// vector.
template <class Op, class T, class A>
void scan_rows_of_lines(const TileOperand x, const TileOperand y, int64_t n, int64_t lines,
                        A* totals) {
  constexpr int64_t cached = 16 << 10;
  const int64_t rows = cached / (lines * static_cast<int64_t>(sizeof(T)));
  for (int64_t i = 0; i < n; i += rows)
    scan_columns<Op, Vector<A>::lanes, T>(x.data + i * x.step, x.step, y.data + i * y.step, y.step,
                                          n - i < rows ? n - i : rows, lines, totals);
}

template <class Op, class T, class A>
void scan_neighbouring(const ScanTile& t, A identity, A* carry, TileOperand x, TileOperand y) {
  constexpr int64_t strip = 512;
  A totals[strip];
  for (int64_t j = 0; j < t.lines; j += strip) {
    const int64_t lines = t.lines - j < strip ? t.lines - j : strip;
    for (int64_t k = 0; k < lines; ++k) totals[k] = t.begin > 0 ? carry[j + k] : identity;
    scan_rows_of_lines<Op, T>(x, y, t.n, lines, totals);
    for (int64_t k = 0; k < lines && carry; ++k) carry[j + k] = totals[k];
    x.data += strip * sizeof(T);
    y.data += strip * sizeof(T);
  }
}

template <class Op, class T, class A>
void scan_each(const ScanTile& t, A identity, A* carry, TileOperand x, TileOperand y) {
  for (int64_t j = 0; j < t.lines; ++j, x.data += x.line, y.data += y.line) {
    A total = t.begin > 0 ? carry[j] : identity;
    scan<Op>(reinterpret_cast<const T*>(x.data), reinterpret_cast<T*>(y.data), t.n, identity,
             &total);
    if (carry) carry[j] = total;
  }
}

template <class Op, class T, class A>
void scan_short(const ScanTile& t, A identity, A*, TileOperand x, TileOperand y) {
  constexpr int64_t together = 4;
  const int64_t lines = t.lines, n = t.n;
  int64_t j = 0;
  for (; j + together <= lines; j += together)
    scan_beside<Op, together, T>(x.data + j * x.line, x.step, x.line, y.data + j * y.line, y.step,
                                 y.line, n, identity);
  for (; j < lines; ++j)
    scan_beside<Op, 1, T>(x.data + j * x.line, x.step, x.line, y.data + j * y.line, y.step, y.line,
                          n, identity);
}

template <class Op, class T, class A>
void scan_blocks(const ScanTile& t, A identity) {
  auto dense = [](int64_t x, int64_t y) { return x == sizeof(T) && y == sizeof(T); };
  const bool across = dense(t.x.line, t.y.line), along = dense(t.x.step, t.y.step),
             is_short = t.n <= longest_short_line && !t.carry;
  auto scan_block = across && (t.lines > 1 || !along) ? scan_neighbouring<Op, T, A>
                    : along && !is_short              ? scan_each<Op, T, A>
                                                      : scan_short<Op, T, A>;
  TileOperand x = t.x, y = t.y;
  for (int64_t b = 0; b < t.blocks; ++b, x.data += x.block, y.data += y.block)
    scan_block(t, identity, static_cast<A*>(t.carry), x, y);
}
template <class Op>
void scan_typed(DType element, const ScanTile& t, int identity) {
  if (element == DType::Float32) return scan_blocks<Op, float, double>(t, identity);
  if (element == DType::Float64) return scan_blocks<Op, double, double>(t, identity);
  scan_blocks<Op, uint64_t>(t, static_cast<uint64_t>(identity));
}

// sums[j] = log(exp(before[j]) + exp(x[j])); gcc makes vector instructions of the loop over lanes.
void add_log_row(const double* before, const double* x, double* sums, int64_t n) {
  constexpr int64_t lanes = Vector<double>::lanes;
  for (int64_t j = 0; j < n; j += lanes) {
    const int64_t m = n - j < lanes ? n - j : lanes;
    double a[lanes] = {}, b[lanes] = {};
    __builtin_memcpy(a, before + j, static_cast<size_t>(m) * sizeof(double));
    __builtin_memcpy(b, x + j, static_cast<size_t>(m) * sizeof(double));
    for (int k = 0; k < lanes; ++k) a[k] = math::logaddexp(a[k], b[k]);
    __builtin_memcpy(sums + j, a, static_cast<size_t>(m) * sizeof(double));
  }
}

}  // namespace

void scan_tile(bool product, DType element, const ScanTile& tile) {
  if (product) scan_typed<Multiply>(element, tile, 1);
  else scan_typed<Add>(element, tile, 0);
}

void scan_log_sums(const ScanTile& t) {
  const size_t bytes = static_cast<size_t>(t.lines) * sizeof(double);
  auto row = [](const TileOperand& of, int64_t i) {
    return reinterpret_cast<double*>(of.data + i * of.step);
  };
  double* carry = static_cast<double*>(t.carry);
  if (t.begin == 0) std::memmove(row(t.y, 0), row(t.x, 0), bytes);
  else add_log_row(carry, row(t.x, 0), row(t.y, 0), t.lines);
  for (int64_t i = 1; i < t.n; ++i) add_log_row(row(t.y, i - 1), row(t.x, i), row(t.y, i), t.lines);
  if (carry) std::memcpy(carry, row(t.y, t.n - 1), bytes);
}

}  // namespace rl::kernels::RL_ISA
