#include "kernels/cpu/window_product.h"

#include <algorithm>

#include "kernels/cpu/lanes.h"
#include "kernels/cpu/register_tile.h"

namespace rl::kernels::RL_ISA {
namespace {

constexpr int lanes = Vector<float>::lanes;
constexpr int most_rows = panel_tile_rows, most_width = panel_tile_width;
constexpr bool multiplies_pairs = vector_registers == 32;  // AVX-512 and NEON

// Some columns: a vector, or the first n of one.
template <bool whole> RL_INLINE vec<float> read(const float* p, int64_t n) {
  return whole || n == lanes ? load(p) : load_part(p, n);
}
template <bool whole> RL_INLINE void write(float* p, vec<float> v, int64_t n) {
  whole || n == lanes ? store(p, v) : store_part(p, v, n);
}
template <bool whole> RL_INLINE void write(uint16_t* p, vec<float> v, int64_t n) {
  auto bits = narrowed_to_bfloat16(v);
  if (whole || n == lanes) store(p, bits);
  else std::memcpy(p, &bits, static_cast<size_t>(n) * sizeof(uint16_t));
}

// The sums of a tile, of which `used` rows are within the result, and, if not `whole`, not all
// columns.
template <bool whole, bool pairs, int rows, int width>
RL_INLINE void put(const WindowProduct& p, int64_t row, int64_t used,
                   vec<float> (&sums)[rows][width]) {
  int64_t left[width];
#pragma GCC unroll 8
  for (int w = 0; w < width; ++w) left[w] = std::clamp<int64_t>(p.columns - w * lanes, 0, lanes);
  // Added last: sums of parts of all terms are more exact than one chain of them.
  if (p.add || p.bias)
#pragma GCC unroll 8
    for (int w = 0; w < width; ++w) {
      vec<float> bias = p.add ? vec<float>{} : read<whole>(p.bias + w * lanes, left[w]);
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r)
        if (whole || r < used)
          sums[r][w] +=
              p.add ? read<whole>(p.out + p.out_rows[row + r] + w * lanes, left[w]) : bias;
    }
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
    if (!whole && r >= used) continue;
#pragma GCC unroll 8
    for (int w = 0; w < width; ++w)
      if (pairs && p.rounded)
        write<whole>(p.rounded + p.rounded_rows[row + r] + w * lanes, sums[r][w], left[w]);
      else write<whole>(p.out + p.out_rows[row + r] + w * lanes, sums[r][w], left[w]);
  }
}

// Rows [row, row + used) of at most `rows`; `whole` if the tile is all within the result.
template <int rows, int width, bool whole, bool pairs>
void tile(const WindowProduct& p, int64_t row, int64_t used) {
  vec<float> sums[rows][width] = {};
  const float* a[rows];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
    a[r] = p.a + p.rows[row + (whole ? r : std::min<int64_t>(r, used - 1))];
  PartialSums<float, vector_bytes, rows, width> parts;
  int64_t step = p.step, together = terms_together;
  for (int64_t s = 0; s < p.span_count; ++s) {
    int64_t at = p.spans[s].offset;
    const float* b = p.b + p.spans[s].row * panel_width;
    for (int64_t left = p.spans[s].terms; left > 0;) {
      if (together == 0) {
        parts.take(sums);
        together = terms_together;
      }
      int64_t some = std::min(left, together);
      left -= some;
      together -= some;
      const float* end = b + some * panel_width;
      for (; b != end; b += panel_width, at += step) {
        vec<float> across[width];
#pragma GCC unroll 8
        for (int w = 0; w < width; ++w) across[w] = load(b + w * lanes);
#pragma GCC unroll 8
        for (int r = 0; r < rows; ++r) {
          float down = a[r][at];
#pragma GCC unroll 8
          for (int w = 0; w < width; ++w)
            if constexpr (pairs)
              sums[r][w] = add_bfloat16_pairs(sums[r][w], across[w], broadcast<vec<float>>(down));
            else sums[r][w] = mul_add(across[w], down, sums[r][w]);
        }
      }
    }
  }
  parts.add_to(sums);
  put<whole, pairs>(p, row, used, sums);
}

template <int width, bool pairs, int rows = most_rows>
[[gnu::noinline]] void product(const WindowProduct& p, int64_t row = 0) {
  bool whole = p.columns >= width * lanes;
  for (; row + rows <= p.count; row += rows)
    whole ? tile<rows, width, true, pairs>(p, row, rows)
          : tile<rows, width, false, pairs>(p, row, rows);
  int64_t rest = p.count - row;
  if (rest == 0) return;
  if constexpr (rows > 1) {
    // Half a tile takes as long as its chain of additions: more than half of a whole one.
    if (rest <= rows / 2) return product<width, pairs, rows / 2>(p, row);
    tile<rows, width, false, pairs>(p, row, rest);
  }
}

template <bool pairs> void products(WindowProduct p) {
  constexpr int64_t most = most_width * lanes;
  for (; p.columns > 0; p.columns -= most, p.b += most, p.out += most) {
    p.columns > lanes ? product<most_width, pairs>(p) : product<1, pairs>(p);
    if (p.bias) p.bias += most;
    if (p.rounded) p.rounded += most;
  }
}

template <bool pairs> RL_INLINE vec<float> add_product(vec<float> sum, vec<float> x, vec<float> y) {
  if constexpr (pairs) return add_bfloat16_pairs(sum, x, y);
  else return mul_add(x, y, sum);
}

// Rows [row, row + used) of all columns, in sums whose lanes are added up at the end.
template <int columns, int rows, bool pairs>
void dot_tile(const WindowProduct& p, int64_t row, int64_t used) {
  vec<float> sums[rows][columns] = {};
  const float* a[rows];
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) a[r] = p.a + p.rows[row + std::min<int64_t>(r, used - 1)];
  auto step = [&](auto read, int64_t at, const float* b) {
    vec<float> across[rows];
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) across[r] = read(a[r] + at);
#pragma GCC unroll 8
    for (int c = 0; c < columns; ++c) {
      vec<float> down = read(b + c * p.b_row);
#pragma GCC unroll 16
      for (int r = 0; r < rows; ++r) sums[r][c] = add_product<pairs>(sums[r][c], across[r], down);
    }
  };
  for (int64_t s = 0; s < p.span_count; ++s) {
    int64_t at = p.spans[s].offset, left = p.spans[s].terms;
    const float* b = p.b + p.spans[s].row;
    for (; left >= lanes; left -= lanes, at += lanes, b += lanes)
      step([](const float* x) { return load(x); }, at, b);
    if (left > 0) step([left](const float* x) { return load_part(x, left); }, at, b);
  }
  for (int r = 0; r < used; ++r) {
    float* out = p.out + p.out_rows[row + r];
    const float* start = p.add ? out : p.bias;
    for (int c = 0; c < columns; ++c) {
      float sum;
      fold_lanes<Add>(sums[r][c], &sum);
      if (start) sum += start[c];
      if (p.rounded) p.rounded[p.rounded_rows[row + r] + c] = bfloat16(sum).bits;
      else out[c] = sum;
    }
  }
}

template <int columns, bool pairs> void dots(const WindowProduct& p) {
  constexpr int rows = std::min(8, std::max(1, vector_registers / 2 / columns));
  if constexpr (columns > 1)
    if (p.columns < columns) return dots<columns - 1, pairs>(p);
  for (int64_t row = 0; row < p.count; row += rows)
    dot_tile<columns, rows, pairs>(p, row, std::min<int64_t>(rows, p.count - row));
}

}  // namespace

void window_dots(const WindowProduct& p) {
  if constexpr (multiplies_pairs)
    if (p.pairs) return dots<most_dots, true>(p);
  dots<most_dots, false>(p);
}

void window_product(const WindowProduct& p) {
  if constexpr (multiplies_pairs)
    if (p.pairs) return products<true>(p);
  products<false>(p);
}

}  // namespace rl::kernels::RL_ISA
