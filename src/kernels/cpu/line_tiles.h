// The lines along one dim of views, handed to loops in tiles.
#pragma once
#include <algorithm>
#include <array>
#include <cstdlib>

#include "core/byte_count.h"
#include "kernels/copy.h"
#include "kernels/cpu/scan_rows.h"
#include "kernels/cpu/strided_iterator.h"
#include "kernels/cpu/strip.h"
#include "kernels/cpu/workspace.h"

namespace rl::kernels {

// The elements [begin, begin + n) of `lines` neighbouring lines in each of `blocks` blocks. Loops
// read operand k from from[k] and write it to to[k].
template <int operands>
struct LineTile {
  int64_t begin, n, lines, blocks;
  std::array<TileOperand, operands> from, to;
  void* carry;  // 16 bytes a line that last from one tile of these lines to the next; null if the
                // tile has all of their elements
};

// What loops see as one operand: the number of the view it is read from and of the one it is
// written to, or none, and the dtype that the loops compute with.
struct LineOperand {
  static constexpr int none = -1;
  int from, to;
  DType element;
};

// Lines are cut into pieces, unless they are to be whole. Turned tiles hold n rows of `lines`
// elements, so that vectors go across the lines, however these lie in memory.
enum class LineShape { pieces, whole_turned, pieces_turned };

// Operands are handed on where they lie if their elements have the dtype of the loops and these are
// fast there, else through a copy that many short lines share: a copy of each took 10 times as long
// as its scan.
template <int N, int operands>
class LineTiles {
 public:
  LineTiles(const View* const (&views)[N], int64_t dim,
            const std::array<LineOperand, operands>& tiled, LineShape shape, bool reverse = false)
      : operands_(tiled),
        lines_(views, true, dim),
        n_(views[0]->ndim ? views[0]->sizes[dim] : 1),
        whole_(shape == LineShape::whole_turned),
        turned_(shape != LineShape::pieces) {
    for (int k = 0; k < N; ++k) {
      const View& view = *views[k];
      dtype_[k] = view.dtype;
      step_[k] = view.ndim ? view.strides[dim] * itemsize(view.dtype) : 0;
      if (!reverse) continue;
      lines_.base[k] += (n_ - 1) * step_[k];
      step_[k] = -step_[k];
    }
    across_ = lines_.sizes[0] > 1 && std::abs(lines_.strides[0][0]) < std::abs(step_[0]);
    for (int k = 0; k < operands; ++k) {
      const LineOperand& operand = operands_[k];
      read_[k] = is_direct(operand.from, operand.element);
      written_[k] = is_direct(operand.to, operand.element);
      copied_ = copied_ || !read_[k] || !written_[k];
      copied_elements_ = std::min(copied_elements_, copied_bytes / itemsize(operand.element));
    }
  }

  // f(tile), in threads; the tiles of a line one after the other.
  template <class F>
  void run(F f) const {
    // Neighbours that fill vectors together are not split among threads.
    const int64_t least = across_ || turned_ ? least_turned : 1;
    const int64_t grain = std::max(least, default_grain / 4 / n_);
    const int64_t inner = lines_.sizes[0];
    if (lines_.ndim > 1 && inner <= most_lines && 2 * inner * n_ <= copied_elements_)
      return lines_.parallel_panels(
          1, copied_elements_ / (inner * n_), grain, [&](char* const* p, int64_t blocks) {
            Scratch scratch(*this, blocks * inner * n_, 0);
            run_tile({0, n_, inner, blocks, {}, {}, nullptr}, p, scratch, f);
          });
    lines_.parallel_runs(grain, [&](char* const* p, int64_t m) { run_lines(p, m, f); });
  }

 private:
  using Tile = LineTile<operands>;

  // The copies of the operands, each followed by room for its elements in the dtype of a view.
  struct Scratch {
    int64_t room = 0;
    Workspace memory;
    Scratch(const LineTiles& tiles, int64_t elements, int64_t lines)
        : room(tiles.copied_ ? elements * widest_element : 0),
          memory(lines * carry_bytes + (operands + 1) * room) {}
    char* copy(int k) const { return memory.as<char>() + k * room; }
    char* staging() const { return copy(operands); }
    char* carry() const { return copy(operands + 1); }
  };

  bool is_direct(int view, DType element) const {
    if (view == LineOperand::none) return true;
    if (turned_ || dtype_[view] != element) return false;
    int64_t size = itemsize(element);
    if (across_) return lines_.strides[view][0] == size;
    return n_ <= longest_short_line || step_[view] == size;
  }

  template <class F>
  void run_lines(char* const* start, int64_t m, F& f) const {
    const int64_t limit = copied_ ? copied_elements_ : direct_elements;
    const int64_t fitting = std::max<int64_t>(limit / n_, turned_ ? least_turned : 1);
    const int64_t widest = std::min(m, across_ && !whole_ ? most_lines : fitting);
    const int64_t piece = whole_ ? n_ : std::clamp<int64_t>(limit / widest, 1, n_);
    Scratch scratch(*this, widest * piece, piece < n_ ? widest : 0);
    Interruption interruption;
    for (int64_t j = 0; j < m; j += widest) {
      char* p[N];
      for (int k = 0; k < N; ++k) p[k] = start[k] + j * lines_.strides[k][0];
      for (int64_t i = 0; i < n_; i += piece) {
        if (i + j > 0) interruption.poll();
        Tile tile{i, std::min(piece, n_ - i), std::min(widest, m - j), 1, {}, {}, nullptr};
        if (piece < n_) tile.carry = scratch.carry();
        run_tile(tile, p, scratch, f);
        for (int k = 0; k < N; ++k) p[k] += piece * step_[k];
      }
    }
  }

  template <class F>
  void run_tile(Tile tile, char* const* p, const Scratch& scratch, F& f) const {
    const Tile shape = tile;
    if (turned_) {
      tile.lines *= tile.blocks;
      tile.blocks = 1;
    }
    for (int k = 0; k < operands; ++k) {
      const auto [from, to, element] = operands_[k];
      const TileOperand copied = in_copy(scratch.copy(k), shape, itemsize(element));
      tile.from[k] = read_[k] && from != LineOperand::none ? in_view(from, p) : copied;
      tile.to[k] = written_[k] && to != LineOperand::none ? in_view(to, p) : copied;
      if (!read_[k]) load(shape, from, p, element, copied, scratch);
    }
    f(static_cast<const Tile&>(tile));
    for (int k = 0; k < operands; ++k)
      if (!written_[k]) store(shape, operands_[k].to, p, operands_[k].element, tile.to[k], scratch);
  }

  TileOperand in_view(int view, char* const* p) const {
    int64_t block = lines_.ndim > 1 ? lines_.strides[view][1] : 0;
    return {p[view], step_[view], lines_.strides[view][0], block};
  }
  TileOperand in_copy(char* data, const Tile& shape, int64_t size) const {
    int64_t block = shape.lines * size;
    if (turned_) return {data, shape.blocks * block, size, block};
    if (across_) return {data, block, size, shape.n * block};
    return {data, size, shape.n * size, shape.n * block};
  }

  // A tile as a view that a copy can be made of.
  struct Elements {
    int64_t sizes[3], strides[3];
    View view;
    Elements(const Tile& shape, const TileOperand& at, DType dtype)
        : sizes{shape.blocks, shape.lines, shape.n} {
      const int64_t size = itemsize(dtype);
      strides[0] = at.block / size;
      strides[1] = at.line / size;
      strides[2] = at.step / size;
      view = {at.data, sizes, strides, 3, sizes[0] * sizes[1] * sizes[2], dtype};
    }
  };

  // Elements are put in order in their own dtype, unless they are, and then converted in one piece.
  void load(const Tile& shape, int from, char* const* p, DType element, const TileOperand& to,
            const Scratch& scratch) const {
    const DType dtype = dtype_[from];
    TileOperand in = in_view(from, p);
    if (shape.lines * shape.blocks == 1)
      return load_strip(dtype, in.data, in.step, element, to.data, shape.n);
    TileOperand ordered =
        in_copy(dtype == element ? to.data : scratch.staging(), shape, itemsize(dtype));
    if (dtype != element && lie_alike(in, ordered, shape)) ordered = in;
    else copy(Elements(shape, in, dtype).view, Elements(shape, ordered, dtype).view);
    if (dtype == element) return;
    convert_contiguous(dtype, element, ordered.data, to.data, shape.n * shape.lines * shape.blocks);
  }
  void store(const Tile& shape, int to, char* const* p, DType element, const TileOperand& from,
             const Scratch& scratch) const {
    const DType dtype = dtype_[to];
    TileOperand out = in_view(to, p);
    if (shape.lines * shape.blocks == 1)
      return store_strip(element, from.data, dtype, out.data, out.step, shape.n);
    TileOperand ordered =
        in_copy(dtype == element ? from.data : scratch.staging(), shape, itemsize(dtype));
    const bool in_order = dtype != element && lie_alike(out, ordered, shape);
    if (in_order) ordered = out;
    if (dtype != element)
      convert_contiguous(element, dtype, from.data, ordered.data,
                         shape.n * shape.lines * shape.blocks);
    if (!in_order) copy(Elements(shape, ordered, dtype).view, Elements(shape, out, dtype).view);
  }
  static bool lie_alike(const TileOperand& a, const TileOperand& b, const Tile& shape) {
    return (shape.n == 1 || a.step == b.step) && (shape.lines == 1 || a.line == b.line) &&
           (shape.blocks == 1 || a.block == b.block);
  }

  // Of an operand: a conversion of rows of 65536 int32 took twice as long by 16 KB.
  static constexpr int64_t copied_bytes = 8 << 10;
  static constexpr int64_t direct_elements = 1 << 20;  // between looks for an interruption
  static constexpr int64_t most_lines = 512, least_turned = 16;
  static constexpr int64_t widest_element = 16, carry_bytes = 16;

  std::array<LineOperand, operands> operands_;
  StridedIterator<N> lines_;
  int64_t n_, step_[N], copied_elements_ = copied_bytes;
  DType dtype_[N];
  bool whole_, turned_, across_, copied_ = false;
  bool read_[operands], written_[operands];  // where they lie
};

}  // namespace rl::kernels
