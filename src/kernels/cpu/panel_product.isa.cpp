#include "kernels/cpu/panel_product.h"

#include "kernels/cpu/register_tile.h"

namespace rl::kernels::RL_ISA {
namespace {

constexpr int64_t lanes = Vector<float>::lanes, panel = panel_width;
constexpr int width = panel_tile_width, columns = width * lanes;  // of a tile

// Rows [row, row + rows). The stride that is 1 is a constant.
template <int rows, bool row_major, bool prefetch> void block(const PanelProduct& p, int64_t row) {
  int64_t a_row = row_major ? p.a_row : 1, a_term = row_major ? 1 : p.a_term;
  const float *a = p.a + row * a_row, *b = p.b;
  float* out = p.out + row * p.out_row;
  vec<float> sums[rows][width] = {};
  const float* next = p.next + (prefetch ? row / 8 * p.terms * p.next_step : 0);
  multiply_in_parts<float, vector_bytes>(sums, p.terms, a, a_row, a_term, b, p.b_row,
                                         [&](const float*) {
                                           if constexpr (!prefetch) return;
                                           __builtin_prefetch(next, 0, 2);
                                           next += p.next_step;
                                         });
  // Added last: sums of parts of all terms are more exact than one chain of them.
  const float* start = p.add ? out : p.bias;
  int64_t start_row = p.add ? p.out_row : 0;
  if (start)
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
      for (int w = 0; w < width; ++w) sums[r][w] += load(start + r * start_row + w * lanes);
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
    for (int w = 0; w < width; ++w) store(out + r * p.out_row + w * lanes, sums[r][w]);
}

template <bool row_major, bool prefetch, int rows = panel_tile_rows>
void blocks(const PanelProduct& p, int64_t row = 0) {
  for (; row + rows <= p.rows; row += rows) block<rows, row_major, prefetch>(p, row);
  if constexpr (rows > 1)
    if (row < p.rows) blocks<row_major, prefetch, rows - 1>(p, row);
}

}  // namespace

void panel_product(const PanelProduct& product) {
  bool row_major = product.a_term == 1;
  PanelProduct part = product;  // of the panel's columns
  for (int64_t done = 0; done < panel; done += columns) {
    if (part.next) row_major ? blocks<true, true>(part) : blocks<false, true>(part);
    else row_major ? blocks<true, false>(part) : blocks<false, false>(part);
    part.b += columns;
    part.out += columns;
    if (part.bias) part.bias += columns;
    part.next = nullptr;  // the first columns brought it all
  }
}

}  // namespace rl::kernels::RL_ISA
