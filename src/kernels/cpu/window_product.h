// Sums over windows of images: matrix products whose left side is read where it lies.
#pragma once
#include <cstdint>

#include "kernels/cpu/panel_product.h"

namespace rl::kernels {

// out (rows, columns) = a (rows, terms) @ b (terms, panel), plus `bias` (columns) or what `out`
// held. A row's terms come in spans, each at the same place from where the row begins.
struct WindowProduct {
  struct Span {
    int64_t offset;      // of the first term
    int64_t row, terms;  // of b that it begins with, and how many
  };
  const float* a;
  const int64_t* rows;  // where each begins
  int64_t count, step;  // rows; from term to term of a span
  const Span* spans;
  int64_t span_count;
  const float* b;  // in rows of panel_width
  float* out;
  const int64_t* out_rows;
  int64_t columns;
  const float* bias = nullptr;
  bool add = false;
  // Whether the elements of a and b are pairs of bfloat16, whose products are added up; only where
  // has_bfloat16_products().
  bool pairs = false;
  // Where the result goes as bfloat16, if it does; `out` then only holds what is added to.
  uint16_t* rounded = nullptr;
  const int64_t* rounded_rows = nullptr;
  int64_t b_row = panel_width;
  // For window_unit, from the first of several panels on: from one to the next, in b and in out.
  int64_t b_panel = 0, out_panel = 0;
  // For window_unit of floats: what split_panel made of each panel, and what it returned; what
  // split_pixels made of a, whose pixels stand `pixel` apart.
  const char* split = nullptr;
  const bool* can_be_split = nullptr;
  const char* pixels = nullptr;
  const uint32_t* largest = nullptr;
  int64_t pixel = 0, pixel_bytes = 0;
};

// Sums of a weight gradient (filters, taps, channels) on the matrix unit: += or = over the results
// of lines, each a pair of pixels of a channel, or of a filter's gradient, to a word. Rows and
// columns are filled up to whole tiles.
struct GradientOnUnit {
  const float* seen;     // words of channels, one beside the other
  const int64_t* lines;  // where each begins
  int64_t line_count, line_terms, step;
  const int64_t* taps;  // where each looks from there
  int64_t tap_count, channels;
  const float* gradient;  // panels of filters, each with all terms in rows of panel_width
  int64_t filters;
  float* sums;
  bool add;

  static int64_t whole(int64_t n) { return (n + 15) / 16 * 16; }
  int64_t row() const { return tap_count * whole(channels); }
};
RL_ISA_KERNEL(gradient_on_unit, (const GradientOnUnit& product))

// Runs on the calling thread.
RL_ISA_KERNEL(window_product, (const WindowProduct& product))

// The same of the columns of all panels on the matrix unit: of pairs, where b is finite and 16 rows
// behind it may be read; or of floats, whose spans are whole steps of split_terms, and
// pixels_behind the split pixels may be read.
RL_ISA_KERNEL(window_unit, (const WindowProduct& product))

// A panel (terms, panel_width) of floats as the matrix unit reads it, with *can: whether numbers
// are such that it says all of them.
inline constexpr int64_t split_terms = 32, split_bytes = 6144;  // of so many terms
RL_ISA_KERNEL(split_panel, (const float* panel, int64_t terms, char* to, bool* can))

// The first `words` floats of pixels that stand `pixel` apart, whole steps of split_terms, as the
// matrix unit reads them: one after the other, with the bits of the largest magnitude of each.
inline constexpr int64_t split_row_bytes = 192;  // of split_terms
inline constexpr int64_t farthest_rows = 4;      // pixels from one to the next of a tile
inline constexpr int64_t pixels_behind = 16 * farthest_rows;
struct SplitPixels {
  const float* from;
  int64_t count, pixel, words;
  char* to;
  uint32_t* largest;
};
RL_ISA_KERNEL(split_pixels, (const SplitPixels& pixels))

// The same of few columns, with b (columns, terms) in rows of b_row, in vectors along the terms;
// the step is 1.
constexpr int most_dots = 8;
RL_ISA_KERNEL(window_dots, (const WindowProduct& product))
// Of so many spans of terms, and the lanes of each vector, which are added at the end.
inline bool prefers_dots(int64_t columns, int64_t spans, int64_t terms) {
  constexpr int64_t to_add_lanes = 5;
  int64_t lanes = isa() == Isa::avx512 ? 16 : isa() == Isa::avx2 ? 8 : 4;
  int64_t vectors = spans * ((terms + lanes - 1) / lanes) + to_add_lanes;
  return columns <= most_dots && 4 * columns * vectors < 3 * spans * terms;
}

}  // namespace rl::kernels
