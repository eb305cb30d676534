#include "kernels/cpu/line_tiles.h"

#include <algorithm>
#include <cstdlib>

#include "kernels/copy.h"
#include "kernels/cpu/strip.h"

namespace rl::kernels {
namespace {

// A tile as a view that a copy can be made of.
struct Elements {
  int64_t sizes[3], strides[3];
  View view;
  Elements(const LineTile& shape, const TileOperand& at, DType dtype)
      : sizes{shape.blocks, shape.lines, shape.n} {
    const int64_t size = itemsize(dtype);
    strides[0] = at.block / size;
    strides[1] = at.line / size;
    strides[2] = at.step / size;
    view = {at.data, sizes, strides, 3, shape.blocks * shape.lines * shape.n, dtype};
  }
};

bool lie_alike(const TileOperand& a, const TileOperand& b, const LineTile& shape) {
  return (shape.n == 1 || a.step == b.step) && (shape.lines == 1 || a.line == b.line) &&
         (shape.blocks == 1 || a.block == b.block);
}

}  // namespace

// The copies of the operands, and room for the elements of one in the dtype of a view.
struct LineTiles::Scratch {
  int64_t operands, room;
  Workspace memory;
  Scratch(const LineTiles& tiles, int64_t elements, int64_t lines)
      : operands(tiles.count_),
        room(tiles.copied_ ? elements * widest_element : 0),
        memory(lines * carry_bytes + (operands + 1) * room) {}
  char* copy(int64_t k) const { return memory.as<char>() + k * room; }
  char* staging() const { return copy(operands); }
  char* carry() const { return copy(operands + 1); }
};

LineTiles::LineTiles(std::initializer_list<LineOperand> operands, int64_t dim, LineShape shape,
                     bool reverse)
    : whole_(shape == LineShape::whole), turned_(shape == LineShape::turned) {
  const View& first = *operands.begin()->to;
  const View* views[view_count];
  std::fill(views, views + view_count, &first);
  for (const LineOperand& operand : operands) {
    const int k = count_++;
    element_[k] = operand.element;
    copied_elements_ = std::min(copied_elements_, copied_bytes / itemsize(operand.element));
    used_[to_view(k)] = operand.to;
    used_[from_view(k)] = operand.from;
    if (operand.to) views[to_view(k)] = operand.to;
    if (operand.from) views[from_view(k)] = operand.from;
  }
  lines_ = StridedIterator<view_count>(views, true, dim);
  n_ = first.ndim ? first.sizes[dim] : 1;
  if (n_ <= longest_short_line) lines_.lengthen_runs(least_across(n_));
  for (int v = 0; v < view_count; ++v) {
    dtype_[v] = views[v]->dtype;
    step_[v] = first.ndim ? views[v]->strides[dim] * itemsize(dtype_[v]) : 0;
    if (!reverse) continue;
    lines_.base[v] += (n_ - 1) * step_[v];
    step_[v] = -step_[v];
  }
  across_ = lines_.sizes[0] > 1 && std::abs(lines_.strides[0][0]) < std::abs(step_[0]);
  least_lines_ = across_ || turned_ ? least_turned : 1;
  for (int v = 0; v < 2 * count_; ++v) {
    direct_[v] = !used_[v] || is_direct(v, element_[v / 2]);
    copied_ = copied_ || !direct_[v];
    const bool beside = std::abs(lines_.strides[v][0]) < std::abs(step_[v]);
    // Reversed lines are cut into no more pieces than is_direct() knows of.
    if (!direct_[v] && !whole_ && !reverse && beside) least_lines_ = least_turned;
  }
}

bool LineTiles::is_direct(int view, DType element) const {
  if (turned_ || dtype_[view] != element) return false;
  int64_t size = itemsize(element);
  if (across_) return lines_.strides[view][0] == size;
  // Reversed lines, if no copy cuts them, are scanned side by side.
  if (step_[view] == -size) return n_ <= copied_elements_;
  return n_ <= longest_short_line || step_[view] == size;
}

void LineTiles::run_any(TileLoop f) const {
  const int64_t grain = std::max(least_lines_, default_grain / 4 / n_);
  const int64_t inner = lines_.sizes[0];
  if (lines_.ndim == 1 || inner > most_lines || 2 * inner * n_ > copied_elements_)
    return lines_.parallel_runs(grain, [&](char* const* p, int64_t m) { run_lines(p, m, f); });
  const int64_t height = copied_elements_ / (inner * n_);
  lines_.parallel_panels(1, height, grain, [&](char* const* p, int64_t blocks) {
    Scratch scratch(*this, blocks * inner * n_, 0);
    run_tile({0, n_, inner, blocks, {}, {}, nullptr}, p, scratch, f);
  });
}

void LineTiles::run_lines(char* const* start, int64_t m, TileLoop f) const {
  const int64_t limit = copied_ ? copied_elements_ : whole_ ? whole_elements : direct_elements;
  const int64_t fitting = std::max<int64_t>(limit / n_, across_ ? 1 : least_lines_);
  const int64_t widest = std::min(m, across_ && !whole_ ? most_lines : fitting);
  const int64_t piece = whole_ ? n_ : std::clamp<int64_t>(limit / widest, 1, n_);
  Scratch scratch(*this, widest * piece, piece < n_ ? widest : 0);
  Interruption interruption;
  for (int64_t j = 0; j < m; j += widest) {
    char* p[view_count];
    for (int v = 0; v < view_count; ++v) p[v] = start[v] + j * lines_.strides[v][0];
    for (int64_t i = 0; i < n_; i += piece) {
      if (i + j > 0) interruption.poll();
      LineTile tile{i, std::min(piece, n_ - i), std::min(widest, m - j), 1, {}, {}, nullptr};
      if (piece < n_) tile.carry = scratch.carry();
      run_tile(tile, p, scratch, f);
      for (int v = 0; v < view_count; ++v) p[v] += piece * step_[v];
    }
  }
}

void LineTiles::run_tile(LineTile tile, char* const* p, const Scratch& scratch, TileLoop f) const {
  const LineTile shape = tile;
  if (turned_) {
    tile.lines *= tile.blocks;
    tile.blocks = 1;
  }
  for (int k = 0; k < count_; ++k) {
    const int from = from_view(k), to = to_view(k);
    const TileOperand copied = in_copy(scratch.copy(k), shape, itemsize(element_[k]));
    tile.from[k] = direct_[from] ? in_view(from, p) : copied;
    tile.to[k] = direct_[to] ? in_view(to, p) : copied;
    if (!direct_[from]) load(shape, from, p, element_[k], copied, scratch);
  }
  f.call(f.context, tile);
  for (int k = 0; k < count_; ++k)
    if (!direct_[to_view(k)]) store(shape, to_view(k), p, element_[k], tile.to[k], scratch);
}

TileOperand LineTiles::in_view(int view, char* const* p) const {
  int64_t block = lines_.ndim > 1 ? lines_.strides[view][1] : 0;
  return {p[view], step_[view], lines_.strides[view][0], block};
}

TileOperand LineTiles::in_copy(char* data, const LineTile& shape, int64_t size) const {
  int64_t block = shape.lines * size;
  if (turned_) return {data, shape.blocks * block, size, block};
  if (across_) return {data, block, size, shape.n * block};
  return {data, size, shape.n * size, shape.n * block};
}

// Elements are put in order in their own dtype, unless they are, and then converted in one piece.
void LineTiles::load(const LineTile& shape, int from, char* const* p, DType element,
                     const TileOperand& to, const Scratch& scratch) const {
  const DType dtype = dtype_[from];
  const bool converted = dtype != element;
  const TileOperand in = in_view(from, p);
  if (shape.lines * shape.blocks == 1)
    return load_strip(dtype, in.data, in.step, element, to.data, shape.n);
  TileOperand ordered = in_copy(converted ? scratch.staging() : to.data, shape, itemsize(dtype));
  if (converted && lie_alike(in, ordered, shape)) ordered = in;
  else copy(Elements(shape, in, dtype).view, Elements(shape, ordered, dtype).view);
  if (!converted) return;
  convert_contiguous(dtype, element, ordered.data, to.data, shape.n * shape.lines * shape.blocks);
}

void LineTiles::store(const LineTile& shape, int to, char* const* p, DType element,
                      const TileOperand& from, const Scratch& scratch) const {
  const DType dtype = dtype_[to];
  const bool converted = dtype != element;
  const TileOperand out = in_view(to, p);
  if (shape.lines * shape.blocks == 1)
    return store_strip(element, from.data, dtype, out.data, out.step, shape.n);
  TileOperand ordered = in_copy(converted ? scratch.staging() : from.data, shape, itemsize(dtype));
  const bool in_order = converted && lie_alike(out, ordered, shape);
  if (in_order) ordered = out;
  if (converted)
    convert_contiguous(element, dtype, from.data, ordered.data,
                       shape.n * shape.lines * shape.blocks);
  if (!in_order) copy(Elements(shape, ordered, dtype).view, Elements(shape, out, dtype).view);
}

}  // namespace rl::kernels
