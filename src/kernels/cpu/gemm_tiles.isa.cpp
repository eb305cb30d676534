#include "kernels/gemm_tiles.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "kernels/cpu/transpose_square.h"
#include "kernels/workspace.h"

namespace rl::kernels::RL_ISA {
namespace {

// The tile of c that registers hold: rows, and vectors of columns.
#if defined(__AVX512F__)
constexpr int tile_rows = 8, tile_width = 3;
#elif defined(__AVX2__)
constexpr int tile_rows = 4, tile_width = 3;
#else
constexpr int tile_rows = 4, tile_width = 2;
#endif

// Products of this many rows or fewer wait for memory, which is then to be read as it lies; of sums
// shorter than this, adding up a vector's lanes would take most of the time.
constexpr int64_t few_rows = 16, least_dots = 128;
// How much of the few rows stays in the first cache while columns pass them.
constexpr int64_t cache_bytes = 32768;

// Integers multiply as unsigned ones, whose overflow is defined. A complex number is two reals.
template <class T, bool = std::is_integral_v<T>> struct Element {
  using type = T;
  using Real = T;
};
template <class T> struct Element<T, true> {
  using type = std::make_unsigned_t<T>;
  using Real = type;
};
template <class R> struct Element<std::complex<R>, false> {
  using type = std::complex<R>;
  using Real = R;
};
template <class T> using RealOf = typename Element<T>::Real;
template <class T> constexpr bool complex = !std::is_same_v<T, RealOf<T>>;
template <class T> constexpr auto all_lanes =
    std::make_integer_sequence<int, Vector<RealOf<T>>::lanes>();
template <class T> constexpr int lanes = Vector<RealOf<T>>::lanes;
// A complex tile has two registers for each of its vectors.
template <class T> constexpr int rows_of = complex<T> ? tile_rows / 2 : tile_rows;
template <class T> constexpr int width_of = complex<T> ? 2 : tile_width;
// One vector holds the sums of a tile's rows.
template <class T> constexpr int dot_rows_of = std::min(tile_rows, lanes<T>);

// Narrow unsigned integers would be promoted to int, whose overflow is not defined; complex numbers
// would be examined for NaNs.
template <class T> T times(T a, T b) {
  if constexpr (complex<T>)
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
  else {
    using Wide = std::common_type_t<T, unsigned>;
    return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
  }
}

// Where a part of c goes: c = alpha * sums + beta * added.
template <class T> struct Target {
  T* c;
  int64_t row, col;
  const T* added;
  int64_t added_row, added_col;
  T alpha, beta;

  Target at(int64_t i, int64_t j) const {
    Target t = *this;
    t.c += i * row + j * col;
    t.added += i * added_row + j * added_col;
    return t;
  }
  // The same place for a later part of the sums.
  Target again() const { return {c, row, col, c, row, col, alpha, T(1)}; }
  void put(int64_t i, int64_t j, T value) const {
    T sum = times(alpha, value);
    if (beta != T(0)) sum = static_cast<T>(sum + times(beta, added[i * added_row + j * added_col]));
    c[i * row + j * col] = sum;
  }
};

template <class T> struct Problem {
  int64_t m, n, k, deepest;
  const T *a, *b;
  int64_t a_row, a_col, b_row, b_col;
  Target<T> target;
  int64_t count, a_step, b_step, c_step, added_step;  // of a batch

  void advance() {
    a += a_step;
    b += b_step;
    target.c += c_step;
    target.added += added_step;
  }
  // c^T = b^T a^T
  void transpose() {
    std::swap(m, n);
    std::swap(a, b);
    std::swap(a_row, b_col);
    std::swap(a_col, b_row);
    std::swap(target.row, target.col);
    std::swap(target.added_row, target.added_col);
    std::swap(a_step, b_step);
  }
};

// Rows of a: as they lie, or packed into panels of as many rows as a tile has.
template <class T> struct Left {
  const T* data;
  int64_t row, col, panel;
  const T* at(int64_t i) const { return data + i / rows_of<T> * panel + i % rows_of<T> * row; }
};

// Some vectors of columns of b, row by row: as they lie, or packed, and then the real parts of a
// row of complex numbers stand before its imaginary ones.
template <class T> struct Right {
  const T* data;
  int64_t row, columns;
};

template <class T> void put_tile(const T* values, int64_t rows, int64_t row, int64_t columns,
                                 const Target<T>& t) {
  if (t.row < t.col)
    for (int64_t j = 0; j < columns; ++j)
      for (int64_t i = 0; i < rows; ++i) t.put(i, j, values[i * row + j]);
  else
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) t.put(i, j, values[i * row + j]);
}

// `rows` rows by `width` vectors of c. Each element is summed along k in order, whatever the tile.
template <class T, int bytes, int rows, int width>
void tile(int64_t depth, const Left<T>& left, const Right<T>& right, int64_t i, Target<T> to) {
  using V = vec<T, bytes>;
  constexpr int n = Vector<T, bytes>::lanes;
  V sums[rows][width] = {};
  for (int r = 0; r < rows; ++r)
    for (int w = 0; w < width; ++w) __builtin_prefetch(to.c + r * to.row + w * n * to.col);
  int64_t a_row = left.row, a_col = left.col, b_row = right.row;
  const T *a = left.at(i), *lower_a = a + 4 * a_row;  // two of them: few registers for addresses
  const T *b = right.data, *ahead = b + 8 * b_row;    // rows of b in place may lie pages apart
  for (int64_t k = depth; k > 0; --k) {
    V across[width];
#pragma GCC unroll 8
    for (int w = 0; w < width; ++w) {
      __builtin_prefetch(ahead + w * n);
      across[w] = load<T, bytes>(b + w * n);
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      T down = r < 4 ? a[r * a_row] : lower_a[(r - 4) * a_row];
#pragma GCC unroll 8
      for (int w = 0; w < width; ++w) sums[r][w] += across[w] * down;
    }
    a += a_col;
    lower_a += a_col;
    b += b_row;
    ahead += b_row;
  }
  bool whole = right.columns >= width * n && to.col == 1 && (to.beta == T(0) || to.added_col == 1);
  if (whole) {
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      T* c = to.c + r * to.row;
      const T* added = to.added + r * to.added_row;
#pragma GCC unroll 8
      for (int w = 0; w < width; ++w) {
        V sum = sums[r][w] * to.alpha;
        if (to.beta != T(0)) sum += load<T, bytes>(added + w * n) * to.beta;
        store(c + w * n, sum);
      }
    }
  } else {
    T values[rows][width * n];
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
      for (int w = 0; w < width; ++w) store(values[r] + w * n, sums[r][w]);
    put_tile(values[0], rows, width * n, std::min<int64_t>(right.columns, width * n), to);
  }
}

template <class T, int rows, int width>
void complex_tile(int64_t depth, const Left<T>& left, const Right<T>& right, int64_t i,
                  Target<T> to) {
  using R = RealOf<T>;
  using V = vec<R>;
  constexpr int n = lanes<T>;
  V real[rows][width] = {}, imaginary[rows][width] = {};
  const R *a = reinterpret_cast<const R*>(left.at(i)), *b = reinterpret_cast<const R*>(right.data);
  int64_t a_row = 2 * left.row, a_col = 2 * left.col, b_row = 2 * right.row;
  for (int64_t k = 0; k < depth; ++k, a += a_col, b += b_row) {
    V b_real[width], b_imaginary[width];
#pragma GCC unroll 8
    for (int w = 0; w < width; ++w) {
      b_real[w] = load(b + w * n);
      b_imaginary[w] = load(b + (width + w) * n);
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      R a_real = a[r * a_row], a_imaginary = a[r * a_row + 1];
#pragma GCC unroll 8
      for (int w = 0; w < width; ++w) {
        real[r][w] += b_real[w] * a_real;
        imaginary[r][w] += b_imaginary[w] * a_real;
        real[r][w] -= b_imaginary[w] * a_imaginary;
        imaginary[r][w] += b_real[w] * a_imaginary;
      }
    }
  }
  T values[rows][width * n];
  for (int r = 0; r < rows; ++r)
    for (int w = 0; w < width; ++w)
      for (int x = 0; x < n; ++x) values[r][w * n + x] = {real[r][w][x], imaginary[r][w][x]};
  put_tile(values[0], rows, width * n, std::min<int64_t>(right.columns, width * n), to);
}

// `m` rows of c from row i on, by `width` vectors of columns.
template <class T, int width, int bytes = vector_bytes, int rows = rows_of<T>>
void column_block(int64_t m, int64_t depth, const Left<T>& left, const Right<T>& right,
                  const Target<T>& to, int64_t i = 0) {
  for (; i + rows <= m; i += rows)
    if constexpr (complex<T>) complex_tile<T, rows, width>(depth, left, right, i, to.at(i, 0));
    else tile<T, bytes, rows, width>(depth, left, right, i, to.at(i, 0));
  if constexpr (rows > 1)
    if (i < m) column_block<T, width, bytes, rows / 2>(m, depth, left, right, to, i);
}

// How many of the `left` vectors the next tile takes: one alone would be slow.
template <class T> int64_t next_width(int64_t left) {
  constexpr int most = width_of<T>;
  return left > most + 1 || left == most ? most : left > 1 ? 2 : 1;
}

template <class T> void pack_panel(const Problem<T>& p, const T* b, int64_t depth, int64_t columns,
                                   int64_t width, T* to) {
  int64_t used = std::min(columns, width), k = 0;
  if constexpr (complex<T>) {
    using R = RealOf<T>;
    for (; k < depth; ++k) {
      R *real = reinterpret_cast<R*>(to + k * width), *imaginary = real + width;
      for (int64_t j = 0; j < width; ++j) {
        T x = j < used ? b[k * p.b_row + j * p.b_col] : T(0);
        real[j] = x.real();
        imaginary[j] = x.imag();
      }
    }
    return;
  }
  if constexpr (!complex<T> && sizeof(T) >= 4) {
    constexpr int64_t n = lanes<T>, item = sizeof(T);
    if (p.b_row == 1 && used == width) {
      k = depth / n * n;
      for (int64_t j = 0; j < width; j += n)
        for (int64_t i = 0; i < k; i += n)
          transpose_square<T>(reinterpret_cast<const char*>(b + i + j * p.b_col), p.b_col * item,
                              reinterpret_cast<char*>(to + i * width + j), width * item);
    }
  }
  for (int64_t j = 0; j < used; ++j)
    for (int64_t i = k; i < depth; ++i) to[i * width + j] = b[i * p.b_row + j * p.b_col];
  if (used < width)
    for (; k < depth; ++k) std::fill(to + k * width + used, to + (k + 1) * width, T(0));
}

// Columns [0, columns) of the rows [0, depth) that start at b, as panels as wide as the tiles that
// will read them, padded with zeros.
template <class T> void pack_right(const Problem<T>& p, const T* b, int64_t depth, int64_t columns,
                                   T* to) {
  constexpr int64_t n = lanes<T>;
  int64_t vectors = (columns + n - 1) / n, v = 0;
  if (!complex<T> && p.b_col == 1) {  // along the rows, as memory lies
    int64_t whole = columns / n;
    for (int64_t k = 0; k < depth; ++k) {
      const T* from = b + k * p.b_row;
      for (int64_t w, at = 0; at < vectors; at += w) {
        w = next_width<T>(vectors - at);
        T* row = to + at * n * depth + k * w * n;
        for (int64_t x = 0; x < w; ++x)
          if (at + x < whole)
            std::memcpy(static_cast<void*>(row + x * n), from + (at + x) * n, n * sizeof(T));
          else
            for (int64_t j = 0; j < n; ++j)
              row[x * n + j] = (at + x) * n + j < columns ? from[(at + x) * n + j] : T(0);
      }
    }
    return;
  }
  for (int64_t w; v < vectors; v += w) {
    w = next_width<T>(vectors - v);
    pack_panel(p, b + v * n * p.b_col, depth, columns - v * n, w * n, to + v * n * depth);
  }
}

template <class T> void pack_left(const Problem<T>& p, const T* a, int64_t rows, int64_t depth,
                                  T* to) {
  constexpr int64_t panel = rows_of<T>;
  for (int64_t i = 0; i < rows; i += panel, to += panel * depth) {
    int64_t used = std::min(panel, rows - i);
    const T* from = a + i * p.a_row;
    if (used == panel && p.a_row == 1)
      for (int64_t k = 0; k < depth; ++k)
        std::memcpy(static_cast<void*>(to + k * panel), from + k * p.a_col, panel * sizeof(T));
    else
      for (int64_t r = 0; r < used; ++r)
        for (int64_t k = 0; k < depth; ++k) to[k * panel + r] = from[r * p.a_row + k * p.a_col];
  }
}

// n cut into equal parts of at most `most`, and of whole `unit`s.
int64_t part(int64_t n, int64_t most, int64_t unit) {
  int64_t parts = (n + most - 1) / most;
  return ((n + parts - 1) / parts + unit - 1) / unit * unit;
}

// How by_tiles goes about products of one size: blocks of b that stay in the second cache, cut into
// panels; and rows of a that stay in the first while one panel after the other passes them.
template <class T> struct TilePlan {
  static constexpr int64_t n = lanes<T>, bytes = sizeof(T), block_bytes = 1 << 20, block_rows = 256;
  bool half, pack_a;
  int64_t there;           // columns of b read in place
  int64_t depth, columns;  // of a block
  int64_t right_size, left_size;

  explicit TilePlan(const Problem<T>& p) {
    // Packing b pays where many rows read it.
    bool in_place =
        !complex<T> && p.b_col == 1 && (p.m <= block_rows || p.k * p.n * bytes <= 65536);
    half = in_place && p.n % n == n / 2;
    there = in_place ? p.n / n * n : 0;
    int64_t deepest = std::min<int64_t>(p.deepest, 2048 / bytes);
    depth = p.k <= deepest ? p.k : part(p.k, deepest, n);
    columns = in_place ? p.n : part(p.n, block_bytes / (depth * bytes), width_of<T> * n);
    pack_a = p.a_col != 1 && p.n > width_of<T> * n && p.m * p.k * bytes > 16384;
    right_size = half || there == p.n ? 0 : (columns - there + n - 1) / n * n * depth;
    left_size = pack_a ? (std::min(p.m, block_rows) + rows_of<T>)*depth : 0;
  }
};

template <class T> void one_by_tiles(const Problem<T>& p, const TilePlan<T>& plan, T* packed) {
  constexpr int64_t n = lanes<T>, block_rows = TilePlan<T>::block_rows;
  const auto [half, pack_a, there, depth, columns, right_size, left_size] = plan;
  T* packed_left = packed + right_size;
  for (int64_t j0 = 0; j0 < p.n; j0 += columns) {
    int64_t width = std::min(columns, p.n - j0);
    for (int64_t k0 = 0; k0 < p.k; k0 += depth) {
      int64_t deep = std::min(depth, p.k - k0);
      const T* b = p.b + k0 * p.b_row + j0 * p.b_col;
      Target<T> target = (k0 == 0 ? p.target : p.target.again()).at(0, j0);
      if (right_size > 0) pack_right(p, b + there, deep, width - there, packed);
      for (int64_t i0 = 0; i0 < p.m; i0 += block_rows) {
        int64_t rows = std::min(block_rows, p.m - i0);
        Left<T> left{p.a + i0 * p.a_row + k0 * p.a_col, p.a_row, p.a_col, rows_of<T> * p.a_row};
        if (pack_a) {
          pack_left(p, left.data, rows, deep, packed_left);
          left = {packed_left, 1, rows_of<T>, rows_of<T> * deep};
        }
        auto block = [&](int64_t j, int64_t w, Right<T> right) {
          Target<T> to = target.at(i0, j);
          if (w == 1) column_block<T, 1>(rows, deep, left, right, to);
          else if (w == 2) column_block<T, 2>(rows, deep, left, right, to);
          else if constexpr (width_of<T> == 3) column_block<T, 3>(rows, deep, left, right, to);
        };
        for (int64_t w, j = 0; j < there; j += w * n) {
          w = next_width<T>((there - j) / n);
          block(j, w, {b + j, p.b_row, width - j});
        }
        if constexpr (!complex<T>)
          if (half)
            column_block<T, 1, vector_bytes / 2>(
                rows, deep, left, {b + there, p.b_row, width - there}, target.at(i0, there));
        if (right_size > 0)
          for (int64_t w, j = there; j < width; j += w * n) {
            w = next_width<T>((width - j + n - 1) / n);
            block(j, w, {packed + (j - there) * deep, w * n, width - j});
          }
      }
    }
  }
}

template <class T> void by_tiles(Problem<T> p) {
  TilePlan<T> plan(p);
  int64_t scratch = (plan.right_size + plan.left_size) * TilePlan<T>::bytes;
  alignas(64) char on_stack[16384];
  bool fits = scratch <= static_cast<int64_t>(sizeof on_stack);
  std::optional<Workspace> heap;
  if (!fits) heap.emplace(scratch);
  T* packed = fits ? reinterpret_cast<T*>(on_stack) : heap->as<T>();
  for (int64_t i = 0; i < p.count; ++i, p.advance()) one_by_tiles(p, plan, packed);
}

// Adds to each lane those that stand a multiple of `apart` further on.
template <int apart, class V, int... lane>
V sum_lanes(V v, std::integer_sequence<int, lane...> all) {
  constexpr int n = sizeof...(lane);
  if constexpr (apart < n) {
    v += shuffle<(lane ^ apart)...>(v, v);
    return sum_lanes<2 * apart>(v, all);
  }
  return v;
}

// One row, by a column that is contiguous along k: a dot product, in four partial sums.
template <class T> T dot_product(const T* a, const T* b, int64_t length) {
  constexpr int n = lanes<T>;
  vec<T> sums[4] = {};
  int64_t i = 0;
  for (; i + 4 * n <= length; i += 4 * n)
#pragma GCC unroll 4
    for (int w = 0; w < 4; ++w) sums[w] += load(a + i + w * n) * load(b + i + w * n);
  for (; i + n <= length; i += n) sums[0] += load(a + i) * load(b + i);
  T total = 0;
  for (; i < length; ++i) total = static_cast<T>(total + times(a[i], b[i]));
  return static_cast<T>(total +
                        sum_lanes<1>((sums[0] + sums[1]) + (sums[2] + sums[3]), all_lanes<T>)[0]);
}

// Adds to each lane of the rows' vectors the one whose number differs in the bit `apart`, and keeps
// those of the row that has this bit: in the end lane r holds a sum of row r.
template <int apart, int rows, class V, int... lane>
void fold(V* sums, std::integer_sequence<int, lane...> all) {
  constexpr int n = sizeof...(lane);
  if constexpr (apart < rows) {
#pragma GCC unroll 8
    for (int r = 0; r + apart < rows; r += 2 * apart) {
      V a = sums[r], b = sums[r + apart];
      sums[r] = shuffle<(lane & apart ? n + lane : lane)...>(a, b) +
                shuffle<(lane & apart ? n + lane - apart : lane + apart)...>(a, b);
    }
    fold<2 * apart, rows>(sums, all);
  }
}

template <class T> vec<T> load_first(const T* p, int64_t count) {
  vec<T> v = {};
  std::memcpy(&v, p, static_cast<size_t>(count) * sizeof(T));
  return v;
}

// `m` of `rows` rows, `depth` apart, by `columns` columns of c.
template <class T, int rows, int columns>
void dot_tile(int64_t m, const T* a, const T* b, int64_t b_col, int64_t depth,
              const Target<T>& to) {
  constexpr int n = lanes<T>;
  vec<T> sums[columns][rows] = {};
  auto step = [&](auto read) {
    vec<T> down[columns];
#pragma GCC unroll 8
    for (int j = 0; j < columns; ++j) {
      __builtin_prefetch(b + (j + columns) * b_col, 0, 2);
      down[j] = read(b + j * b_col);
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      vec<T> across = read(a + r * depth);
      __asm__("" : "+v"(across));  // gcc would load it again for each column
#pragma GCC unroll 8
      for (int j = 0; j < columns; ++j) sums[j][r] += across * down[j];
    }
    a += n;
    b += n;
  };
  int64_t k = depth;
  for (; k >= n; k -= n) step([](const T* p) { return load(p); });
  if (k > 0) step([k](const T* p) { return load_first(p, k); });
#pragma GCC unroll 8
  for (int j = 0; j < columns; ++j) {
    fold<1, rows>(sums[j], all_lanes<T>);
    vec<T> totals = sum_lanes<rows>(sums[j][0], all_lanes<T>);
    for (int64_t r = 0; r < m; ++r) to.put(r, j, totals[r]);
  }
}

// The `m` rows at `a`, which zeros follow where a tile has more.
template <class T, int columns, int rows = dot_rows_of<T>>
void dot_rows(int64_t m, const T* a, const T* b, int64_t b_col, int64_t depth, const Target<T>& to,
              int64_t i = 0) {
  for (; m - i > rows / 2; i += rows)
    dot_tile<T, rows, columns>(std::min<int64_t>(rows, m - i), a + i * depth, b, b_col, depth,
                               to.at(i, 0));
  if constexpr (rows > 1)
    if (i < m) dot_rows<T, columns, rows / 2>(m, a, b, b_col, depth, to, i);
}

template <class T> void copy_row(const T* from, int64_t step, int64_t count, T* to) {
  if (step == 1) std::memcpy(static_cast<void*>(to), from, static_cast<size_t>(count) * sizeof(T));
  else
    for (int64_t k = 0; k < count; ++k) to[k] = from[k * step];
}

// A few rows by columns that are contiguous along k: reads each column once, a vector at a time,
// for all rows, whose parts of this depth stay in the first cache.
template <class T> void by_dots(const Problem<T>& p) {
  if (p.m == 1 && p.a_col == 1) {
    for (int64_t j = 0; j < p.n; ++j) p.target.put(0, j, dot_product(p.a, p.b + j * p.b_col, p.k));
    return;
  }
  constexpr int64_t bytes = sizeof(T), unit = lanes<T>;
  int64_t rows = (p.m + dot_rows_of<T> - 1) / dot_rows_of<T> * dot_rows_of<T>;
  int64_t deepest = std::min<int64_t>(4096, cache_bytes / rows) / bytes;
  int64_t depth = p.k <= deepest ? p.k : part(p.k, deepest, unit);
  // In place, rows a power of two apart would drive each other out.
  Buffer<T> packed(rows * depth);
  for (int64_t k = 0; k < p.k; k += depth) {
    int64_t deep = std::min(depth, p.k - k), j = 0;
    for (int64_t i = 0; i < p.m; ++i)
      copy_row(p.a + i * p.a_row + k * p.a_col, p.a_col, deep, packed.data() + i * deep);
    std::fill(packed.data() + p.m * deep, packed.data() + rows * deep, T(0));
    Target<T> to = k == 0 ? p.target : p.target.again();
    for (; j + tile_width <= p.n; j += tile_width)
      dot_rows<T, tile_width>(p.m, packed.data(), p.b + k + j * p.b_col, p.b_col, deep,
                              to.at(0, j));
    for (; j < p.n; ++j)
      dot_rows<T, 1>(p.m, packed.data(), p.b + k + j * p.b_col, p.b_col, deep, to.at(0, j));
  }
}

// One row of c (contiguous) from a row-major b: streams through b, four rows at a time.
template <class T> void by_rows(const Problem<T>& p) {
  const Target<T>& t = p.target;
  for (int64_t j = 0; j < p.n; ++j)
    t.c[j] = t.beta == T(0) ? T(0) : times(t.beta, t.added[j * t.added_col]);
  T* __restrict c = t.c;
  int64_t k = 0;
  for (; k + 4 <= p.k; k += 4) {
    const T *b0 = p.b + k * p.b_row, *b1 = b0 + p.b_row, *b2 = b1 + p.b_row, *b3 = b2 + p.b_row;
    const T* a = p.a + k * p.a_col;
    T a0 = times(t.alpha, a[0]), a1 = times(t.alpha, a[p.a_col]);
    T a2 = times(t.alpha, a[2 * p.a_col]), a3 = times(t.alpha, a[3 * p.a_col]);
    for (int64_t j = 0; j < p.n; ++j)
      c[j] = static_cast<T>(
          c[j] + ((times(a0, b0[j]) + times(a1, b1[j])) + (times(a2, b2[j]) + times(a3, b3[j]))));
  }
  for (; k < p.k; ++k) {
    const T* b = p.b + k * p.b_row;
    T a = times(t.alpha, p.a[k * p.a_col]);
    for (int64_t j = 0; j < p.n; ++j) c[j] = static_cast<T>(c[j] + times(a, b[j]));
  }
}

// The tiles of c wait for memory where a few rows of b pass: c is written in rows first.
template <class T> void by_way_of_rows(Problem<T> p) {
  p.count = 1;
  Target<T> to = p.target;
  Buffer<T> sums(p.m * p.n);
  p.target = {sums.data(), p.n, 1, sums.data(), p.n, 1, T(1), T(0)};
  by_tiles(p);
  for (int64_t j = 0; j < p.n; ++j)
    for (int64_t i = 0; i < p.m; ++i) to.put(i, j, sums[i * p.n + j]);
}

// A few columns: are they, as rows of c^T, multiplied faster? Not where tiles read them in place.
template <class T> bool better_as_rows(const Problem<T>& p) {
  bool in_place = p.a_col == 1 && p.b_col == 1 && p.n > few_rows / 2;
  return p.n < 4 || (p.k >= least_dots && !in_place);
}

template <class T> void solve(const GemmProblem& g) {
  using W = typename Element<T>::type;
  int64_t deepest = g.deepest > 0 ? g.deepest : deepest_block(g.m, g.n);
  const W *a = static_cast<const W*>(g.a), *b = static_cast<const W*>(g.b);
  W alpha = static_cast<W>(g.alpha.to<T>()), beta = static_cast<W>(g.beta.to<T>());
  Target<W> target{static_cast<W*>(g.c), g.c_row,     g.c_col, static_cast<const W*>(g.added),
                   g.added_row,          g.added_col, alpha,   beta};
  Problem<W> p{g.m,     g.n,     g.k,    deepest, a,        b,        g.a_row,  g.a_col,
               g.b_row, g.b_col, target, g.count, g.a_step, g.b_step, g.c_step, g.added_step};
  if (!g.added) {
    p.target = {target.c, g.c_row, g.c_col, target.c, g.c_row, g.c_col, alpha, beta};
    p.added_step = g.c_step;
  }
  auto each = [&](auto way) {
    for (int64_t i = 0; i < p.count; ++i, p.advance()) way(p);
  };
  if (p.n < p.m && p.n <= few_rows && !complex<W> && better_as_rows(p)) p.transpose();
  if (p.m == 1 && p.b_col == 1 && (p.target.col == 1 || p.n == 1) && p.n >= 64)
    return each(by_rows<W>);
  bool few = p.m <= few_rows && p.m < p.n;
  // Rows of b are then read on and on, and c, which is small, comes by more often.
  if (few && p.b_col == 1) p.deepest = std::min<int64_t>(p.deepest, 32);
  if constexpr (!complex<W>) {
    if (p.b_row == 1 && (p.m < 4 || (few && p.k >= least_dots))) return each(by_dots<W>);
    if (few && p.b_col == 1 && p.target.col != 1 && p.k >= least_dots)
      return each(by_way_of_rows<W>);
  }
  // Few rows times a matrix that would have to be transposed: the tiles of c are instead.
  if ((few && p.b_row == 1 && p.b_col != 1) || (p.target.row == 1 && p.target.col != 1 && p.m > 1))
    p.transpose();
  by_tiles(p);
}

}  // namespace

void gemm_tiles(const GemmProblem& problem) {
  visit<float, double, int64_t, int32_t, uint8_t, int8_t, int16_t, complex64, complex128>(
      "matmul", problem.dtype, [&](auto tag) { solve<typename decltype(tag)::type>(problem); });
}

}  // namespace rl::kernels::RL_ISA
