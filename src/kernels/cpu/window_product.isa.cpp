#include "kernels/cpu/window_product.h"

#include <algorithm>

#include "kernels/cpu/simd.h"

namespace rl::kernels::RL_ISA {
namespace {

constexpr int lanes = Vector<float>::lanes;
// The tile of sums that registers hold: rows, and vectors of columns.
constexpr int most_rows = vector_registers == 32 ? 8 : fused_vectors ? 6 : 4, most_width = 2;

// The sums of a tile that sticks out of the result.
template <int rows, int width>
[[gnu::noinline]] void put_part(const WindowProduct& p, const int64_t* to, int64_t used,
                                const vec<float> (&sums)[rows][width]) {
  int64_t columns = std::min<int64_t>(p.columns, width * lanes);
  float values[rows][width * lanes];
  std::memcpy(values, sums, sizeof values);
  for (int64_t r = 0; r < used; ++r) {
    float* out = p.out + to[r];
    const float* start = p.add ? out : p.bias;
    for (int64_t j = 0; start && j < columns; ++j) values[r][j] += start[j];
    std::memcpy(out, values[r], static_cast<size_t>(columns) * sizeof(float));
  }
}

// Rows [row, row + used) of at most `rows`; `whole` if the tile is all within the result.
template <int rows, int width, bool whole> void tile(const WindowProduct& p, int64_t row,
                                                     int64_t used) {
  vec<float> sums[rows][width] = {};
  const int64_t* to = p.out_rows + row;
  const float* a[rows];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
    a[r] = p.a + p.rows[row + (whole ? r : std::min<int64_t>(r, used - 1))];
  int64_t step = p.step;
  for (int64_t s = 0; s < p.span_count; ++s) {
    int64_t at = p.spans[s].offset;
    const float* b = p.b + p.spans[s].row * panel_width;
    const float* end = b + p.spans[s].terms * panel_width;
    for (; b != end; b += panel_width, at += step) {
      vec<float> across[width];
#pragma GCC unroll 8
      for (int w = 0; w < width; ++w) across[w] = load(b + w * lanes);
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r) {
        float down = a[r][at];
#pragma GCC unroll 8
        for (int w = 0; w < width; ++w) sums[r][w] = mul_add(across[w], down, sums[r][w]);
      }
    }
  }
  if (!whole) return put_part<rows, width>(p, to, used, sums);
  // Added last: sums of parts of all terms are more exact than one chain of them.
  const float* start = p.add ? p.out : p.bias;
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
    for (int w = 0; w < width; ++w) {
      if (start) sums[r][w] += load(start + (p.add ? to[r] : 0) + w * lanes);
      store(p.out + to[r] + w * lanes, sums[r][w]);
    }
}

template <int width, int rows = most_rows>
[[gnu::noinline]] void product(const WindowProduct& p, int64_t row = 0) {
  bool whole = p.columns >= width * lanes;
  for (; row + rows <= p.count; row += rows)
    whole ? tile<rows, width, true>(p, row, rows) : tile<rows, width, false>(p, row, rows);
  int64_t rest = p.count - row;
  if (rest == 0) return;
  if constexpr (rows > 1) {
    // Half a tile takes as long as its chain of additions: more than half of a whole one.
    if (rest <= rows / 2) return product<width, rows / 2>(p, row);
    tile<rows, width, false>(p, row, rest);
  }
}

}  // namespace

void window_product(const WindowProduct& whole) {
  constexpr int64_t most = most_width * lanes;
  WindowProduct p = whole;
  for (; p.columns > 0; p.columns -= most, p.b += most, p.out += most) {
    p.columns > lanes ? product<most_width>(p) : product<1>(p);
    if (p.bias) p.bias += most;
  }
}

}  // namespace rl::kernels::RL_ISA
