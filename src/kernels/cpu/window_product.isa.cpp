#include "kernels/cpu/window_product.h"

#include <algorithm>
#include <optional>

#include "kernels/cpu/dot_lanes.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/register_tile.h"
#include "kernels/cpu/tile_unit.h"
#include "kernels/cpu/workspace.h"

namespace rl::kernels::RL_ISA {
namespace {

constexpr int lanes = Vector<float>::lanes;
constexpr int most_rows = panel_tile_rows, most_width = panel_tile_width;

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

// The rows of a window product as the matrix unit reads them: the words of their spans one after
// the other, each run of what stands together in b filled up to whole tiles.
class UnitRows {
 public:
  static constexpr int64_t words = tile_terms / 2;  // of a tile's row

  explicit UnitRows(const WindowProduct& p) : p_(p), runs_(p.span_count) {
    for (int64_t s = 0; s < p.span_count; ++s) {
      const auto& span = p.spans[s];
      Run* last = count_ > 0 ? &runs_[count_ - 1] : nullptr;
      if (last && last->row + last->terms == span.row) last->terms += span.terms;
      else runs_[count_++] = {span.row, span.terms};
    }
    for (int64_t i = 0; i < count_; ++i) row_ += runs_[i].steps() * words;
    if (row_ / words % 2 == 0) row_ += words;  // rows displace each other a power of two apart
    chunk_ = std::clamp<int64_t>(chunk_words / row_ / unit_side, 1, 8) * unit_side;
    memory_.emplace(std::min(chunk_, (p.count + unit_side - 1) / unit_side * unit_side) * row_);
  }

  int64_t chunk() const { return chunk_; }
  void read(int64_t first, int64_t count) const {
    for (int64_t i = 0; i < count; ++i) {
      const float* from = p_.a + p_.rows[first + i];
      float* to = memory_->data() + i * row_;
      const auto* span = p_.spans;
      for (int64_t r = 0; r < count_; ++r) {
        float* end = to + runs_[r].steps() * words;
        for (int64_t left = runs_[r].terms; left > 0;
             left -= span->terms, to += span->terms, ++span)
          copy(from + span->offset, span->terms, to);
        for (; to < end; ++to) *to = 0;
      }
    }
  }
  // The sums of 32 rows from row i on by a panel.
  void multiply(int64_t i, int64_t rows, int64_t columns, int64_t panel, float* sums) const {
    auto product = unit_product_for<1>(rows, columns);
    const float *from = memory_->data() + i * row_, *b = p_.b + panel * p_.b_panel;
    for (int64_t r = 0; r < count_; ++r) {
      constexpr int64_t size = sizeof(float);
      UnitSide left{reinterpret_cast<const char*>(from), row_ * size, tile_side * row_ * size, 0,
                    64};
      UnitSide right{reinterpret_cast<const char*>(b + runs_[r].row * panel_width),
                     panel_width * size, 64, 0, words * panel_width * size};
      int64_t steps = runs_[r].steps();
      product(left, right, steps, r > 0, sums, {}, unit_side);
      from += steps * words;
    }
  }

 private:
  static constexpr int64_t chunk_words = int64_t(1) << 17;  // in half of the second cache
  struct Run {
    int64_t row, terms;
    int64_t steps() const { return (terms + words - 1) / words; }
  };
  static void copy(const float* from, int64_t n, float* to) {
    for (; n >= lanes; n -= lanes, from += lanes, to += lanes) store(to, load(from));
    if (n > 0) store_part(to, load_part(from, n), n);
  }

  const WindowProduct& p_;
  Buffer<Run> runs_;
  int64_t count_ = 0, row_ = 0, chunk_ = 0;
  std::optional<Buffer<float>> memory_;
};

static_assert(split_terms == tile_terms && split_bytes == 2 * parts_of<float> * tile_bytes);
static_assert(split_row_bytes == parts_of<float> * 64);

// Sums of a row and columns [column, column + count) to their place.
RL_INLINE void put_unit(const WindowProduct& p, const float* sums, int64_t row, int64_t column,
                        int64_t count) {
  float* held = p.out + column / panel_width * p.out_panel + p.out_rows[row];
  for (int64_t j = 0; j < count; j += lanes) {
    int64_t n = std::min<int64_t>(lanes, count - j);
    vec<float> sum = load(sums + j);
    if (p.add) sum += read<false>(held + j, n);
    else if (p.bias) sum += read<false>(p.bias + column + j, n);
    if (p.rounded) write<false>(p.rounded + p.rounded_rows[row] + column + j, sum, n);
    else write<false>(held + j, sum, n);
  }
}

// Some rows by a panel.
WindowProduct part_of(const WindowProduct& p, int64_t row, int64_t rows, int64_t panel,
                      int64_t columns) {
  WindowProduct part = p;
  part.rows += row, part.out_rows += row;
  part.count = rows, part.columns = columns;
  part.b += panel * p.b_panel, part.out += panel * p.out_panel;
  if (p.bias) part.bias += panel * panel_width;
  return part;
}

// Of pairs.
void by_unit(const WindowProduct& p) {
  UnitRows from(p);
  alignas(64) float sums[unit_side * unit_side] = {};
  UnitScope unit;
  for (int64_t first = 0; first < p.count; first += from.chunk()) {
    int64_t some = std::min(from.chunk(), p.count - first);
    from.read(first, some);
    for (int64_t column = 0; column < p.columns; column += panel_width) {
      int64_t count = std::min(panel_width, p.columns - column), panel = column / panel_width;
      for (int64_t i = 0; i < some; i += unit_side) {
        int64_t rows = std::min(unit_side, some - i);
        from.multiply(i, rows, count, panel, sums);
        for (int64_t r = 0; r < rows; ++r)
          put_unit(p, sums + r * unit_side, first + i + r, column, count);
      }
    }
  }
}

// The rows of a window product of floats as tiles of split pixels, which are read where they lie:
// sixteen places at one distance from each other, of which rows begin at some.
auto product_of_runs(bool two, int64_t columns) {
  return columns <= tile_side ? two ? unit_product_of_runs<2, 1> : unit_product_of_runs<1, 1>
         : two                ? unit_product_of_runs<2, 2>
                              : unit_product_of_runs<1, 2>;
}

class SplitRows {
 public:
  explicit SplitRows(const WindowProduct& p)
      : p_(p), distance_(p.pixel), spans_(p.span_count), runs_(p.span_count), tiles_(p.count) {
    const int64_t next = p.count > 1 ? p.rows[1] - p.rows[0] : p.pixel;
    if (next > 0 && next <= farthest_rows * p.pixel) distance_ = next;
    for (int64_t s = 0; s < p.span_count; ++s) {
      const WindowProduct::Span& span = p.spans[s];
      const int64_t pixel = span.offset / p.pixel, word = span.offset % p.pixel;
      spans_[s] = {pixel, (word + span.terms + p.pixel - 1) / p.pixel};
      runs_[s] = {pixel * p.pixel_bytes + word / split_terms * split_row_bytes,
                  span.row / split_terms * split_bytes, span.terms / split_terms};
    }
    for (int64_t row = 0; row < p.count; row += tiles_[count_++].rows) tiles_[count_] = tile(row);
  }

  // All rows by the panel of columns from `column` on.
  void multiply(int64_t column) const {
    const int64_t columns = std::min(panel_width, p_.columns - column);
    const int64_t panel = column / panel_width;
    const char* b = p_.split + panel * (p_.b_panel / panel_width / split_terms) * split_bytes;
    alignas(64) float sums[unit_side * unit_side] = {};
    for (int64_t i = 0; i < count_; i += 2) {
      const Tile *first = &tiles_[i], *last = &tiles_[std::min(i + 1, count_ - 1)];
      if (!p_.can_be_split[panel] || !first->can_be_split || !last->can_be_split) {
        products<false>(
            part_of(p_, first->row, last->row + last->rows - first->row, panel, columns));
        continue;
      }
      if (p_.span_count > 0) {
        UnitSide left{first->data, distance_ / p_.pixel * p_.pixel_bytes, last->data - first->data,
                      64, split_row_bytes};
        product_of_runs(first != last, columns)(left,
                                                {b, 64, tile_bytes, 2 * tile_bytes, split_bytes},
                                                runs_.data(), p_.span_count, sums);
      }
      for (const Tile* tile = first; tile <= last; ++tile)
        put(*tile, sums + (tile - first) * tile_side * unit_side, column, columns);
    }
  }

 private:
  struct Pixels {
    int64_t first, count;
  };
  struct Tile {
    int64_t row, rows;  // of the product
    const char* data;
    bool can_be_split;
  };

  Tile tile(int64_t first) const {
    Tile made{first, 0, p_.pixels + p_.rows[first] / p_.pixel * p_.pixel_bytes, true};
    for (int64_t row = first; row < p_.count; ++row, ++made.rows) {
      const int64_t from = p_.rows[row] - p_.rows[first];
      if (from < 0 || from % distance_ || from / distance_ >= tile_side) break;
      const uint32_t* pixels = p_.largest + p_.rows[row] / p_.pixel;
      uint32_t largest = 0;
      for (int64_t s = 0; s < p_.span_count; ++s)
        for (int64_t i = 0; i < spans_[s].count; ++i)
          largest = std::max(largest, pixels[spans_[s].first + i]);
      made.can_be_split &= RL_ISA::can_be_split(largest);
    }
    return made;
  }
  void put(const Tile& tile, const float* sums, int64_t column, int64_t columns) const {
    for (int64_t row = tile.row; row < tile.row + tile.rows; ++row) {
      const int64_t place = (p_.rows[row] - p_.rows[tile.row]) / distance_;
      put_unit(p_, sums + place * unit_side, row, column, columns);
    }
  }

  const WindowProduct& p_;
  int64_t distance_;
  Buffer<Pixels> spans_;
  Buffer<UnitRun> runs_;
  Buffer<Tile> tiles_;
  int64_t count_ = 0;
};

void by_split_rows(const WindowProduct& p) {
  SplitRows rows(p);
  UnitScope unit;
  for (int64_t column = 0; column < p.columns; column += panel_width) rows.multiply(column);
}

// Panels of gradients as left sides: the filters of each tile become its rows.
Buffer<float> gradient_tiles(const GradientOnUnit& p, int64_t steps) {
  constexpr int64_t words = tile_bytes / 4;
  int64_t terms = p.line_count * p.line_terms, panels = (p.filters + panel_width - 1) / panel_width;
  Buffer<float> tiles(panels * steps * 2 * words);
  float* to = tiles.data();
  for (int64_t i = 0; i < panels; ++i)
    for (int64_t k = 0; k < steps * tile_side; k += tile_side)
      for (int64_t t = 0; t < 2; ++t, to += words) {
        const float* from = p.gradient + (i * terms + k) * panel_width + t * tile_side;
        vec<float> rows[tile_side] = {};
        for (int64_t r = 0; r < tile_side && k + r < terms; ++r)
          rows[r] = load(from + r * panel_width);
        transpose_registers(rows);
        for (int64_t r = 0; r < tile_side; ++r) store(to + r * tile_side, rows[r]);
      }
  return tiles;
}

void by_unit(const GradientOnUnit& p) {
  int64_t terms = p.line_count * p.line_terms, steps = (terms + tile_side - 1) / tile_side;
  Buffer<float> tiles = gradient_tiles(p, steps);
  constexpr int64_t size = sizeof(float), step = 2 * tile_bytes;
  int64_t columns = GradientOnUnit::whole(p.channels),
          row = columns / 16 % 2 ? columns : columns + 16;
  Buffer<float> seen(steps * tile_side * row);
  std::fill_n(seen.data() + terms * row, (steps * tile_side - terms) * row, 0.0f);
  UnitScope unit;
  for (int64_t tap = 0; tap < p.tap_count; ++tap) {
    float* to = seen.data();
    for (int64_t l = 0; l < p.line_count; ++l) {
      const float* from = p.seen + p.lines[l] + p.taps[tap];
      for (int64_t k = 0; k < p.line_terms; ++k, from += p.step, to += row) {
        int64_t c = 0;
        for (; c + lanes <= p.channels; c += lanes) store(to + c, load(from + c));
        if (c < columns) store(to + c, load_part(from + c, p.channels - c));
      }
    }
    for (int64_t j = 0; j < columns; j += unit_side)
      for (int64_t i = 0; i < p.filters; i += unit_side) {
        UnitSide left{reinterpret_cast<const char*>(tiles.data()) + i / unit_side * steps * step,
                      64, tile_bytes, 0, step};
        UnitSide right{reinterpret_cast<const char*>(seen.data() + j), row * size, 64, 0,
                       tile_side * row * size};
        float* sums = p.sums + i * p.row() + tap * columns + j;
        unit_product_for<1>(p.filters - i, columns - j)(left, right, steps, p.add, sums, {},
                                                        p.row());
      }
  }
}

}  // namespace

void gradient_on_unit(const GradientOnUnit& p) {
  if constexpr (may_have_unit) by_unit(p);
  else static_cast<void>(p);
}

void window_unit(const WindowProduct& p) {
  if constexpr (may_have_unit) p.pairs ? by_unit(p) : by_split_rows(p);
  else static_cast<void>(p);
}

void split_pixels(const SplitPixels& p) {
  if constexpr (may_have_unit)
    for (int64_t i = 0; i < p.count; ++i) {
      const float* from = p.from + i * p.pixel;
      char* to = p.to + i * (p.words / split_terms * split_row_bytes);
      Magnitudes seen{};
      for (int64_t k = 0; k < p.words; k += split_terms, to += split_row_bytes)
        put_parts<float>(load(from + k), load(from + k + tile_side), to, 64, seen);
      p.largest[i] = largest_of(seen);
    }
}

void split_panel(const float* panel, int64_t terms, char* to, bool* can) {
  Magnitudes high[2] = {};
  if constexpr (may_have_unit)
    for (int64_t k = 0; k < terms; k += split_terms, to += split_bytes)
      for (int64_t t = 0; t < 2; ++t)
        pack_tile<true>(Lines<float>{panel + k * panel_width + t * tile_side, 1, panel_width},
                        to + t * tile_bytes, 2 * tile_bytes, high + t);
  *can = can_be_split(high[0]) && can_be_split(high[1]);
}

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
