#include "kernels/cpu/gemm_tiles.h"

#include <algorithm>
#include <optional>

#include "kernels/cpu/gemm_dots.h"
#include "kernels/cpu/gemm_packing.h"
#include "kernels/cpu/gemm_put.h"
#include "kernels/cpu/gemm_unit.h"
#include "kernels/cpu/register_tile.h"
#include "kernels/cpu/units.h"
#include "kernels/cpu/workspace.h"

namespace rl::kernels::RL_ISA {
namespace {

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

// A block of c: rows from row i on, by the columns of `right` from column j on.
template <class T> struct Block {
  int64_t rows, depth;
  Left<T> left;
  Right<T> right;
  const Target<T>* to;
  int64_t i, j;
  int group;
  DType pairs;

  bool whole(int64_t columns) const {
    return right.columns >= columns && to->col == 1 && (to->beta == T(0) || to->added_col == 1);
  }
};

// The processor's products of pairs give no number below the least normal one either.
template <int rows, int width>
RL_INLINE void store_sums_of_pairs(const vec<float> (&sums)[rows][width], bfloat16* to,
                                   int64_t row) {
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
    for (int w = 0; w < width; ++w)
      store(reinterpret_cast<uint16_t*>(to + r * row) + w * lanes<float>,
            narrowed_to_bfloat16(sums[r][w]));
}

// `rows` rows by `width` vectors of c, from the block's row i on. Each element is summed along k in
// one order, whatever the tile.
template <class T, int bytes, int rows, int width, int group = 1> void tile(const Block<T>& block,
                                                                            int64_t i) {
  constexpr int n = Vector<T, bytes>::lanes;
  const Left<T>& left = block.left;
  const Right<T>& right = block.right;
  const Target<T>& to = *block.to;
  int64_t row = block.i + i;
  T* c = to.c + row * to.row + block.j * to.col;
  for (int r = 0; r < rows; ++r)
    for (int w = 0; w < width; ++w) __builtin_prefetch(c + r * to.row + w * n * to.col);
  vec<T, bytes> sums[rows][width] = {};
  int64_t ahead = 8 * right.row;  // rows of b in place may lie pages apart
  auto bring = [&](const T* b) {
#pragma GCC unroll 8
    for (int w = 0; w < width; ++w) __builtin_prefetch(b + ahead + w * n);
  };
  if constexpr (std::is_floating_point_v<T> && group == 1)
    multiply_in_parts<T, bytes>(sums, block.depth, left.at(i), left.row, left.col, right.data,
                                right.row, bring);
  else
    multiply_tile<T, bytes, group>(sums, block.depth, left.at(i), left.row, left.col, right.data,
                                   right.row, bring);
  T values[rows][width * n];
  if (block.whole(width * n)) {
    const T* added = to.added + row * to.added_row + block.j * to.added_col;
    if constexpr (std::is_same_v<T, float> && bytes == vector_bytes)
      if (to.rounded.data && to.rounded.col == 1 && !to.finish)
        return with_rounded(to.rounded, row, block.j, [&](auto* rounded) {
          if constexpr (group == 2 && std::is_same_v<decltype(rounded), bfloat16*>)
            if (to.alpha == 1 && to.beta == 0)
              return store_sums_of_pairs(sums, rounded, to.rounded.row);
#pragma GCC unroll 8
          for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
            for (int w = 0; w < width; ++w) {
              vec<T> sum = sums[r][w] * to.alpha;
              if (to.beta != 0) sum = mul_add(load(added + r * to.added_row + w * n), to.beta, sum);
              store_narrow(rounded + r * to.rounded.row + w * n, sum);
            }
        });
    T* out = to.ends() ? values[0] : c;
    int64_t out_row = to.ends() ? width * n : to.row;
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
      for (int w = 0; w < width; ++w) {
        vec<T, bytes> sum = sums[r][w] * to.alpha;
        if (to.beta != T(0))
          sum = mul_add(load<T, bytes>(added + r * to.added_row + w * n), to.beta, sum);
        store(out + r * out_row + w * n, sum);
      }
    if (!to.ends()) return;
    to.finish_line(values[0], rows * width * n);
    if constexpr (std::is_same_v<T, float>)
      if (to.rounded.data)
        return round_rows(to.at(row, block.j).rounded, values[0], width * n, rows, width * n);
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
      for (int w = 0; w < width; ++w)
        store(c + r * to.row + w * n, load<T, bytes>(values[r] + w * n));
  } else {
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
      for (int w = 0; w < width; ++w) store(values[r] + w * n, sums[r][w]);
    put_tile(values[0], rows, width * n, std::min<int64_t>(right.columns, width * n),
             to.at(row, block.j));
  }
}

template <class T, int rows, int width> void complex_tile(const Block<T>& block, int64_t i) {
  using R = RealOf<T>;
  using V = vec<R>;
  constexpr int n = lanes<T>;
  const Target<T>& to = *block.to;
  V real[rows][width] = {}, imaginary[rows][width] = {};
  const R *a = reinterpret_cast<const R*>(block.left.at(i)),
          *b = reinterpret_cast<const R*>(block.right.data);
  int64_t a_row = 2 * block.left.row, a_col = 2 * block.left.col, b_row = 2 * block.right.row;
  for (int64_t k = 0; k < block.depth; ++k, a += a_col, b += b_row) {
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
        real[r][w] = mul_add(b_real[w], a_real, real[r][w]);
        imaginary[r][w] = mul_add(b_imaginary[w], a_real, imaginary[r][w]);
        real[r][w] = mul_add(b_imaginary[w], -a_imaginary, real[r][w]);
        imaginary[r][w] = mul_add(b_real[w], a_imaginary, imaginary[r][w]);
      }
    }
  }
  R values[rows][2 * width * n];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
    for (int w = 0; w < width; ++w) store_pairs(values[r] + 2 * w * n, real[r][w], imaginary[r][w]);
  bool plain = to.alpha == T(1) && (to.beta == T(0) || to.beta == T(1));
  if (!plain || !block.whole(width * n))
    return put_tile(reinterpret_cast<T*>(values[0]), rows, width * n,
                    std::min<int64_t>(block.right.columns, width * n), to.at(block.i + i, block.j));
  for (int r = 0; r < rows; ++r) {
    R* c = reinterpret_cast<R*>(to.c + (block.i + i + r) * to.row + block.j);
    const R* added =
        reinterpret_cast<const R*>(to.added + (block.i + i + r) * to.added_row + block.j);
    for (int w = 0; w < 2 * width; ++w) {
      V sum = load(values[r] + w * n);
      if (to.beta != T(0)) sum += load(added + w * n);
      store(c + w * n, sum);
    }
  }
}

// The rows of a block from i on, by `width` vectors. A function of its own, which has the registers
// to itself.
template <class T, int width, int bytes = vector_bytes, int rows = rows_of<T>>
[[gnu::noinline]] void column_block(const Block<T>& block, int64_t i = 0) {
  for (; i + rows <= block.rows; i += rows) {
    if constexpr (std::is_same_v<T, uint32_t>)
      if (block.group > 1) {
        if (block.group == 2) tile<T, bytes, rows, width, 2>(block, i);
        else tile<T, bytes, rows, width, 4>(block, i);
        continue;
      }
    if constexpr (std::is_same_v<T, float> && vector_registers == 32)
      if (block.pairs == DType::BFloat16) {
        tile<T, bytes, rows, width, 2>(block, i);
        continue;
      }
    if constexpr (complex<T>) complex_tile<T, rows, width>(block, i);
    else tile<T, bytes, rows, width>(block, i);
  }
  if constexpr (rows > 1)
    if (i < block.rows) column_block<T, width, bytes, rows / 2>(block, i);
}

// How by_tiles goes about products of one size: blocks of b that stay in the second cache, cut into
// panels; and rows of a that stay in the first while one panel after the other passes them.
template <class T> struct TilePlan {
  static constexpr int64_t n = lanes<T>, bytes = sizeof(T), block_bytes = 1 << 20, block_rows = 256;
  // A tile of few rows reads a panel too often for the second cache: with 16 registers it stays in
  // the first, beside rows of a, which must then not displace each other there.
  static constexpr bool panels_in_first = vector_registers == 16;
  static constexpr int64_t deepest_bytes = panels_in_first ? 1024 : 2048;
  bool half, pack_a, copy_a;
  int64_t there;           // columns of b read in place
  int64_t depth, columns;  // of a block
  int64_t right_size, left_size;

  explicit TilePlan(const Problem<T>& p) {
    // Packing b pays where many rows read it.
    bool in_place = !complex<T> && !p.packed && p.b_col == 1 &&
                    (p.m <= block_rows || p.k * p.n * bytes <= 65536);
    half = in_place && p.n % n == n / 2;
    there = in_place ? p.n / n * n : 0;
    int64_t deepest = std::min<int64_t>(p.deepest, deepest_bytes / bytes);
    depth = p.k <= deepest ? p.k : part(p.k, deepest, n);
    columns = in_place ? p.n : part(p.n, block_bytes / (depth * bytes), width_of<T> * n);
    pack_a = p.a_col != 1 && p.n > width_of<T> * n && p.m * p.k * bytes > 16384;
    right_size = half || there == p.n || p.packed ? 0 : whole(columns - there) * depth;
    copy_a = panels_in_first && p.a_col == 1 && p.k > depth && p.m >= 64 && p.n >= 512;
    left_size = pack_a || copy_a ? (std::min(p.m, block_rows) + rows_of<T>)*depth : 0;
  }
  static int64_t whole(int64_t columns) { return (columns + n - 1) / n * n; }
  // Where a block of b lies among all of them.
  int64_t place(const Problem<T>& p, int64_t k0, int64_t j0) const {
    return j0 * p.k + k0 * whole(std::min(columns, p.n - j0));
  }
};

template <class T> void one_by_tiles(const Problem<T>& p, const TilePlan<T>& plan, T* packed) {
  constexpr int64_t n = lanes<T>;
  T* packed_left = packed + plan.right_size;
  Block<T> block;
  block.group = p.group, block.pairs = p.pairs;
  for (int64_t j0 = 0; j0 < p.n; j0 += plan.columns) {
    int64_t width = std::min(plan.columns, p.n - j0), there = plan.there;
    for (int64_t k0 = 0; k0 < p.k; k0 += plan.depth) {
      block.depth = std::min(plan.depth, p.k - k0);
      const Target<T> to = p.target.part(k0 == 0, k0 + block.depth == p.k);
      block.to = &to;
      const T* b = p.b + k0 * p.b_row + j0 * p.b_col;
      const T* right = p.packed ? p.packed + plan.place(p, k0, j0) : packed;
      if (plan.right_size > 0)
        pack_right(p, b + there, 0, block.depth, block.depth, width - there, packed);
      for (block.i = 0; block.i < p.m; block.i += plan.block_rows) {
        block.rows = std::min(plan.block_rows, p.m - block.i);
        block.left = {p.a + block.i * p.a_row + k0 * p.a_col, p.a_row, p.a_col,
                      rows_of<T> * p.a_row};
        if (plan.pack_a) {
          pack_left(p, block.left.data, block.rows, block.depth, packed_left);
          block.left = {packed_left, 1, rows_of<T>, rows_of<T> * block.depth};
        } else if (plan.copy_a) {
          const T* from = block.left.data;
          for (int64_t r = 0; r < block.rows; ++r)
            copy_row(from + r * p.a_row, 1, block.depth, packed_left + r * block.depth);
          block.left = {packed_left, block.depth, 1, rows_of<T> * block.depth};
        }
        for (int64_t w, j = 0; j < width; j += w * n) {
          bool in_place = j < there;
          w = next_width<T>(in_place ? (there - j) / n : (width - j + n - 1) / n);
          block.j = j0 + j;
          if (block.j < p.first || block.j >= p.last) continue;
          if (in_place || plan.half) block.right = {b + j, p.b_row, width - j};
          else block.right = {right + (j - there) * block.depth, w * n, width - j};
          if constexpr (!complex<T>)
            if (plan.half && !in_place) {
              column_block<T, 1, vector_bytes / 2>(block);
              continue;
            }
          if (w == 1) column_block<T, 1>(block);
          else if (w == 2) column_block<T, 2>(block);
          else if constexpr (width_of<T> == 3) column_block<T, 3>(block);
        }
      }
    }
  }
}

// Leaves p at the end of the batch.
template <class T> void by_tiles(Problem<T>& p) {
  TilePlan<T> plan(p);
  int64_t scratch = (plan.right_size + plan.left_size) * TilePlan<T>::bytes;
  alignas(64) char on_stack[16384];
  bool fits = scratch <= static_cast<int64_t>(sizeof on_stack);
  std::optional<Workspace> heap;
  if (!fits) heap.emplace(scratch);
  T* packed = fits ? reinterpret_cast<T*>(on_stack) : heap->as<T>();
  for (int64_t i = 0; i < p.count; ++i, p.advance()) one_by_tiles(p, plan, packed);
}

// Rows [first, last) of b for tiles that find it packed.
template <class T> void pack_all(Problem<T>& p, int64_t first, int64_t last, void* packed) {
  p.packed = static_cast<T*>(packed);
  TilePlan<T> plan(p);
  for (int64_t j0 = 0; j0 < p.n; j0 += plan.columns)
    for (int64_t k0 = first / plan.depth * plan.depth; k0 < last; k0 += plan.depth) {
      int64_t deep = std::min(plan.depth, p.k - k0);
      pack_right(p, p.b + k0 * p.b_row + j0 * p.b_col, std::max<int64_t>(first - k0, 0),
                 std::min(last - k0, deep), deep, std::min(plan.columns, p.n - j0),
                 static_cast<T*>(packed) + plan.place(p, k0, j0));
    }
}

// The tiles of c wait for memory where a few rows of b pass: c is written in rows first.
template <class T> void by_row_buffer(Problem<T> p) {
  p.count = 1;
  Target<T> to = p.target;
  Buffer<T> sums(p.m * p.n);
  p.target = {sums.data(), p.n, 1, sums.data(), p.n, 1, T(1), T(0)};
  by_tiles(p);
  put_tile(sums.data(), p.m, p.n, p.n, to);
}

// A small c, after all of its sums: it is still near.
template <class T> void finish_all(Target<T> t, int64_t m, int64_t n) {
  if (t.row < t.col) {
    std::swap(t.row, t.col), std::swap(m, n);
    std::swap(t.rounded.row, t.rounded.col);
  }
  if constexpr (std::is_same_v<T, float>)
    if (t.rounded.data) {  // whose sums lie in rows
      for (int64_t i = 0; i < m; ++i) t.finish_line(t.c + i * t.row, n);
      return round_rows(t.rounded, t.c, t.row, m, n);
    }
  if (t.col == 1 && t.row == n) return t.finish_line(t.c, m * n);
  int64_t line = t.col == 1 ? n : 1;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; j += line) t.finish_line(t.c + i * t.row + j * t.col, line);
}

// A few columns: are they, as rows of c^T, multiplied faster? Not where tiles read them in place.
template <class T> bool better_as_rows(const Problem<T>& p) {
  bool in_place = p.a_col == 1 && p.b_col == 1 && p.n > few_rows / 2;
  return p.n < 4 || (p.k >= least_dots && !in_place);
}

// Is it less to transpose b, which is done by whole squares, than all of c, element by element? For
// 8 rows of 32 by 32 x 32: 190 ns for 700.
template <class T> bool quickly_turned(const Problem<T>& p) {
  constexpr int64_t square = lanes<T>, elements_of_b = 8;
  if (complex<T> || sizeof(T) < 4) return false;
  return p.k % square == 0 && p.n % square == 0 && p.k <= elements_of_b * p.m;
}

// More rows than few, by columns that would have to be transposed, which takes as long as to
// multiply them by 60 rows: are dot products faster, which take a little longer than tiles? All
// parts of a product that threads share are of one mind.
template <class T> bool is_dotted(const Problem<T>& p) {
  constexpr int64_t most = 64, least_terms = 8;  // for each row
  return std::is_floating_point_v<T> && p.n >= most && p.m <= std::min(most, p.k / least_terms);
}

// Pairs of 16-bit floats along k, which stand side by side in few rows, or of bfloat16 where the
// processor multiplies them.
template <class Finished> void solve_pairs(Problem<float>& p, Finished finished) {
  const bool few = std::min(p.m, p.n) <= few_pairs;
  if (few && p.n < p.m) p.transpose();
  if constexpr (multiplies_pairs) {
    const bool some = p.m <= few_rows && p.m < p.n && (few || p.k >= least_dots / 2);
    const bool waits = p.m <= 2;  // for memory
    if (p.pairs == DType::BFloat16 && has_bfloat16_products() && p.b_row == 1 && !waits &&
        (some || is_dotted(p)))
      return finished(by_dot_tiles<float, Bfloat16Pairs>);
  }
  if (few) {
    if constexpr (least_half_bytes > 0)  // else they are widened before
      if (p.pairs == DType::Float16) return finished(by_dots<float, half>);
    return finished(by_dots<float, bfloat16>);
  }
  // What would have to be transposed is read as it lies if the other matrix is small.
  if (p.m <= 16 && p.m <= p.n && p.b_row == 1 && p.b_col != 1) p.transpose();
  by_tiles(p);
}

// A batch whose right sides are n x n, so small that they stay in registers, where vectors would
// not be filled: rotations, for one. Leaves p at its end.
template <int n, class T> void by_small_squares(Problem<T>& p) {
  for (int64_t each = 0; each < p.count; ++each, p.advance()) {
    T b[n][n];
#pragma GCC unroll 4
    for (int k = 0; k < n; ++k)
#pragma GCC unroll 4
      for (int j = 0; j < n; ++j) b[k][j] = p.b[k * p.b_row + j * p.b_col];
    for (int64_t i = 0; i < p.m; ++i) {
      const T* a = p.a + i * p.a_row;
#pragma GCC unroll 4
      for (int j = 0; j < n; ++j) {
        T sum = 0;
#pragma GCC unroll 4
        for (int k = 0; k < n; ++k) sum = plus_product(sum, a[k * p.a_col], b[k][j]);
        p.target.put(i, j, sum);
      }
    }
  }
}
constexpr int64_t largest_small_square = 4;
template <class T> bool has_small_squares(const Problem<T>& p) {
  return p.count > 1 && p.k == p.n && p.n > 1 && p.n <= largest_small_square &&
         p.m <= largest_small_square && !p.target.ends();
}

template <class T> void solve(Problem<T>&& p) {
  auto each = [&](auto way) {
    for (int64_t i = 0; i < p.count; ++i, p.advance()) way(p);
  };
  auto finished = [&](auto way) {
    each([&](const Problem<T>& one) {
      way(one);
      if (one.target.ends()) finish_all(one.target, one.m, one.n);
    });
  };
  if (p.packed || p.group > 1) return by_tiles(p);
  if constexpr (std::is_same_v<T, float>)
    if (p.pairs != DType::Float32) return solve_pairs(p, finished);
  if constexpr (std::is_floating_point_v<T>)
    if (has_small_squares(p))
      return p.n == 2   ? by_small_squares<2>(p)
             : p.n == 3 ? by_small_squares<3>(p)
                        : by_small_squares<4>(p);
  if (p.n < p.m && p.n <= (complex<T> ? 1 : few_rows) && better_as_rows(p)) p.transpose();
  if (p.m == 1 && p.b_col == 1 && (p.target.col == 1 || p.n == 1) && p.n >= 64)
    return finished(by_rows<T>);
  bool few = p.m <= few_rows && p.m < p.n;
  // Rows of b are then read on and on, and c, which is small, comes by more often.
  if (few && p.b_col == 1) p.deepest = std::min<int64_t>(p.deepest, 32);
  const bool dots = p.k >= least_dots && (few || is_dotted(p));
  if (p.b_row == 1 && (p.m == 1 || (!complex<T> && (p.m < 4 || dots))))
    return finished(by_dots<T, T>);
  if constexpr (!complex<T>) {
    if (few && p.b_col == 1 && p.target.col != 1 && p.k >= least_dots)
      return each(by_row_buffer<T>);
  }
  // Few rows times a matrix that would have to be transposed: the tiles of c are instead.
  bool turned = few && p.b_row == 1 && p.b_col != 1 && !quickly_turned(p);
  if (turned || (p.target.row == 1 && p.target.col != 1 && p.m > 1)) p.transpose();
  by_tiles(p);
}

// Four rows of b at a time pass c, which stays near.
template <class H, int rows = 4> void add_rows_of(const RowsOfReduced& p) {
  constexpr int64_t lane = Vector<float>::lanes;
  const H* b = static_cast<const H*>(p.b);
  std::fill(p.out, p.out + p.m * p.n, 0.0f);
  int64_t k = 0;
  auto some = [&](auto count) {
    constexpr int c = decltype(count)::value;
    const H* from = b + k * p.b_row;
    int64_t j = 0;
    for (; j + lane <= p.n; j += lane) {
      vec<float> x[c];
#pragma GCC unroll 4
      for (int r = 0; r < c; ++r) x[r] = load_wide(from + r * p.b_row + j);
      for (int64_t i = 0; i < p.m; ++i) {
        float* out = p.out + i * p.n + j;
        vec<float> sum = load(out);
#pragma GCC unroll 4
        for (int r = 0; r < c; ++r) sum = mul_add(x[r], p.a[i * p.k + k + r], sum);
        store(out, sum);
      }
    }
    for (; j < p.n; ++j)
      for (int64_t i = 0; i < p.m; ++i)
        for (int r = 0; r < c; ++r)
          p.out[i * p.n + j] = mul_add(static_cast<float>(from[r * p.b_row + j]),
                                       p.a[i * p.k + k + r], p.out[i * p.n + j]);
  };
  for (; k + rows <= p.k; k += rows) some(std::integral_constant<int, rows>());
  for (; k < p.k; ++k) some(std::integral_constant<int, 1>());
}

// `count` groups whose first elements stand `step` apart, and their elements `between`.
template <int size, class T, class Step, class Between>
void group_row(const T* from, Step step, Between between, int64_t count, T flip, uint32_t* out) {
  constexpr int bits = 32 / size;
  auto part = [flip](T x) {
    return static_cast<uint32_t>(static_cast<T>(x ^ flip)) & (0xffffffffu >> (32 - bits));
  };
  for (int64_t j = 0; j < count; ++j) {
    const T* group = from + j * step;
    uint32_t all = part(group[0]) | part(group[between]) << bits;
    if constexpr (size == 4)
      all |= part(group[2 * between]) << 2 * bits | part(group[3 * between]) << 3 * bits;
    out[j] = all;
  }
}

template <int size, class T> void group_row(const T* from, const Grouping& g, uint32_t* out) {
  auto flip = static_cast<T>(g.flip);
  if (g.members < size) {
    for (int64_t j = 0; j < g.count; ++j) {
      T group[size] = {};
      for (int64_t m = 0; m < g.members; ++m)
        group[m] = static_cast<T>(from[j * g.step + m * g.between] ^ flip);
      group_row<size>(group, 0, 1, 1, T(0), out + j);
    }
    return;
  }
  std::integral_constant<int64_t, 1> one;
  std::integral_constant<int64_t, size> whole;
  if (g.step == 1) group_row<size>(from, one, g.between, g.count, flip, out);
  else if (g.step == size && g.between == 1) group_row<size>(from, whole, one, g.count, flip, out);
  else if (g.between == 1) group_row<size>(from, g.step, one, g.count, flip, out);
  else group_row<size>(from, g.step, g.between, g.count, flip, out);
}

// Narrow integers come as groups in 32 bits.
template <class F> void for_dtype(const GemmProblem& problem, F f) {
  visit<float, double, int64_t, int32_t, complex64, complex128>("matmul", problem.dtype, f);
}

}  // namespace

void gemm_tiles(const GemmProblem& problem) {
  if constexpr (may_have_unit)
    if (problem.on_unit) return multiply_on_unit(problem);
  for_dtype(problem, [&](auto tag) { solve(typed<typename decltype(tag)::type>(problem)); });
}

void rows_of_reduced(const RowsOfReduced& p) {
  if (p.dtype == DType::BFloat16) add_rows_of<bfloat16>(p);
  else add_rows_of<half>(p);
}

void round_rows(const Rounding& to, const float* values, int64_t row, int64_t rows,
                int64_t columns) {
  constexpr int64_t few = 8, wide = 64;
  if (to.col == 1 || rows > few || columns > wide) {
    for (int64_t i = 0; i < rows; ++i) round_line(to, i, 0, values + i * row, columns);
    return;
  }
  uint16_t bits[few * wide];
  Rounding near{to.dtype, bits, wide, 1, 0};
  for (int64_t i = 0; i < rows; ++i) round_line(near, i, 0, values + i * row, columns);
  for (int64_t j = 0; j < columns; ++j)
    for (int64_t i = 0; i < rows; ++i) to.data[i * to.row + j * to.col] = bits[i * wide + j];
}

void gemm_pack(const GemmProblem& problem, void* packed, int64_t first, int64_t last) {
  if constexpr (may_have_unit)
    if (problem.on_unit) return pack_on_unit(problem, first, last, packed);
  for_dtype(problem, [&](auto tag) {
    auto p = typed<typename decltype(tag)::type>(problem);
    pack_all(p, first, last, packed);
  });
}

void group_up(const Grouping& g) {
  visit<int8_t, uint8_t, int16_t>("matmul", g.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t i = 0; i < g.rows; ++i) {
      const T* from = static_cast<const T*>(g.from) + i * g.row;
      uint32_t* out = g.out + i * g.out_row;
      if (g.size == 2) group_row<2>(from, g, out);
      else if constexpr (sizeof(T) == 1) group_row<4>(from, g, out);
    }
  });
}

}  // namespace rl::kernels::RL_ISA
