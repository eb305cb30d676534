#include "kernels/cpu/gemm_lanes.h"

#include <algorithm>
#include <type_traits>

#include "kernels/cpu/dot_lanes.h"
#include "kernels/cpu/pairs.h"

namespace rl::kernels::RL_ISA {
namespace {

constexpr int64_t lanes = group_lanes;

// Sums along k of products of lanes, in tiles of rows and columns that registers hold.
template <class T> struct Multiplier {
  static constexpr int bytes = std::min<int>(vector_bytes, lanes * sizeof(T));
  static constexpr int64_t width = Vector<T, bytes>::lanes;
  static constexpr int tile_rows = 4, tile_columns = 2;
  using V = vec<T, bytes>;

  int64_t k;
  // From an element of a row of a, of a column of b, and of the sums, to the next.
  int64_t a_row, a_step, b_column, b_step, c_row, c_column;

  // `rows` rows by `columns` columns, in as many lanes as a vector has.
  template <int rows, int columns> [[gnu::noinline]] void tile(const T* a, const T* b, T* c) const {
    V sums[rows][columns] = {};
    for (int64_t i = 0; i < k; ++i, a += a_step, b += b_step) {
      V down[columns];
#pragma GCC unroll 2
      for (int j = 0; j < columns; ++j) down[j] = load<T, bytes>(b + j * b_column);
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) {
        V across = load<T, bytes>(a + r * a_row);
        keep_in_register(across);  // gcc would load it again for each column
#pragma GCC unroll 2
        for (int j = 0; j < columns; ++j) sums[r][j] = mul_add(across, down[j], sums[r][j]);
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 2
      for (int j = 0; j < columns; ++j) store(c + r * c_row + j * c_column, sums[r][j]);
  }
  template <int rows> void some_rows(int64_t n, const T* a, const T* b, T* c) const {
    int64_t j = 0;
    for (; j + tile_columns <= n; j += tile_columns)
      tile<rows, tile_columns>(a, b + j * b_column, c + j * c_column);
    if (j < n) tile<rows, 1>(a, b + j * b_column, c + j * c_column);
  }
  [[gnu::noinline]] void product(int64_t m, int64_t n, const T* a, const T* b, T* c) const {
    for (int64_t lane = 0; lane < lanes; lane += width) {
      int64_t i = 0;
      for (; i + tile_rows <= m; i += tile_rows)
        some_rows<tile_rows>(n, a + i * a_row + lane, b + lane, c + i * c_row + lane);
      for (; i < m; ++i) some_rows<1>(n, a + i * a_row + lane, b + lane, c + i * c_row + lane);
    }
  }
};

// c = alpha * c + beta * added
template <class T> void scale(const LaneProducts& p) {
  constexpr int bytes = Multiplier<T>::bytes;
  const T alpha = p.alpha.to<T>(), beta = p.beta.to<T>();
  auto each = [&](T* c, const T* added) {
    for (int64_t lane = 0; lane < lanes; lane += Multiplier<T>::width) {
      auto sum = load<T, bytes>(c + lane) * alpha;
      if (added) sum = mul_add(load<T, bytes>(added + lane), beta, sum);
      store(c + lane, sum);
    }
  };
  const LaneMatrices &to = p.c, &from = p.added;
  for (int64_t g = 0; g < p.groups; ++g)
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t j = 0; j < p.n; ++j)
        each(to.at<T>(g, i, j), from.data ? from.at<T>(g, i, j) : nullptr);
}

template <class T> void multiply(const LaneProducts& p) {
  const LaneMatrices &a = p.a, &b = p.b, &c = p.c;
  if (b.group == 0) {  // which all groups share: row i of each of them is a row
    const Multiplier<T> by{p.k, a.group, a.column, b.column, b.row, c.group, c.column};
    for (int64_t i = 0; i < p.m; ++i)
      by.product(p.groups, p.n, a.at<T>(0, i, 0), b.at<T>(0, 0, 0), c.at<T>(0, i, 0));
  } else {
    const Multiplier<T> by{p.k, a.row, a.column, b.column, b.row, c.row, c.column};
    for (int64_t g = 0; g < p.groups; ++g)
      by.product(p.m, p.n, a.at<T>(g, 0, 0), b.at<T>(g, 0, 0), c.at<T>(g, 0, 0));
  }
  if (p.alpha.to<T>() != T(1) || p.added.data) scale<T>(p);
}

// A block of dot products, one or two E in each lane. The last block begins so early that it is
// whole, and leaves out what the one before it has.
template <class E, class T> RL_INLINE void dot_block(const LineDots& p, int64_t begin) {
  constexpr int64_t n = Vector<T>::lanes, unit = sizeof(T) / sizeof(E);
  constexpr int lines = dot_block_lines, rows = std::min<int>(lines, n);
  const int64_t first = std::min(begin, p.count - lines);
  for (int64_t i = first; i < first + lines; i += rows) {
    const E* a = static_cast<const E*>(p.a) + i * p.a_step;
    const E* b = static_cast<const E*>(p.b) + i * p.b_step;
    vec<T> sums[rows] = {};
    auto step = [&](auto read) {
      if constexpr (std::is_floating_point_v<E>)
        if (p.b_step == 0) {
          const vec<T> y = read(b);
#pragma GCC unroll 8
          for (int r = 0; r < rows; ++r) sums[r] = add_dots<E>(read(a + r * p.a_step), y, sums[r]);
          return;
        }
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r)
        sums[r] = add_dots<E>(read(a + r * p.a_step), read(b + r * p.b_step), sums[r]);
    };
    auto lane = [](const E* from) { return reinterpret_cast<const T*>(from); };
    int64_t left = p.k / unit;
    for (; left >= n; left -= n, a += n * unit, b += n * unit)
      step([&](const E* from) { return load(lane(from)); });
    if (left > 0) step([&](const E* from) { return load_part(lane(from), left); });
    a += left * unit, b += left * unit;
    fold<1, rows>(sums, lane_list<T>);
    const vec<T> totals = sum_lanes<rows>(sums[0], lane_list<T>);
    for (int r = std::max<int64_t>(begin - i, 0); r < rows; ++r) {
      T sum = totals[r];
      if (p.k % unit) sum += T(a[r * p.a_step]) * T(b[r * p.b_step]);
      static_cast<E*>(p.out)[(i + r) * p.out_step] = static_cast<E>(sum);
    }
  }
}
template <class E, class T = E> [[gnu::noinline]] void all_dots(const LineDots& p) {
  for (int64_t i = p.first; i < p.last; i += dot_block_lines) dot_block<E, T>(p, i);
}

}  // namespace

void multiply_lanes(const LaneProducts& p) {
  switch (p.dtype) {
    case DType::Float32: return multiply<float>(p);
    case DType::Float64: return multiply<double>(p);
    case DType::Int16: return multiply<uint16_t>(p);
    case DType::Int32: return multiply<uint32_t>(p);
    default: return multiply<uint64_t>(p);
  }
}

// Integers multiply as unsigned ones, whose overflow is defined.
void line_dots(const LineDots& p) {
  switch (p.dtype) {
    case DType::Float32: return all_dots<float>(p);
    case DType::Float64: return all_dots<double>(p);
    case DType::Float16:
      if constexpr (least_half_bytes > 0) all_dots<half, float>(p);
      return;
    case DType::BFloat16: return all_dots<bfloat16, float>(p);
    case DType::UInt8:
    case DType::Int8: return all_dots<uint8_t, uint16_t>(p);
    case DType::Int16: return all_dots<uint16_t>(p);
    case DType::Int32: return all_dots<uint32_t>(p);
    default: return all_dots<uint64_t>(p);
  }
}

}  // namespace rl::kernels::RL_ISA
