#include "kernels/recurrent.h"

#include <algorithm>
#include <cstring>

#include "core/parallel.h"
#include "kernels/cpu/gemm_tiles.h"
#include "kernels/cpu/recurrent_blocks.h"
#include "kernels/cpu/recurrent_unit.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/transpose.h"
#include "kernels/cpu/workspace.h"
#include "kernels/gemm.h"

namespace rl::kernels {

RecurrentSteps::RecurrentSteps(IntSpan rows, bool reverse) {
  for (int64_t n : rows) {
    rows_.push_back(n);
    begins_.push_back(total_);
    total_ += n;
  }
  if (!reverse) return;
  std::reverse(rows_.begin(), rows_.end());
  std::reverse(begins_.begin(), begins_.end());
}

namespace {

// Few samples read the weight too seldom to pay for packing it: they read it in place.
constexpr int64_t least_rows_for_packing = 16;

const char* at(const void* p, int64_t bytes) {
  return p ? static_cast<const char*>(p) + bytes : nullptr;
}
char* at(void* p, int64_t bytes) { return p ? static_cast<char*>(p) + bytes : nullptr; }

// The blocks of states that a layer is cut into, and their panels of the weight.
class Blocks {
 public:
  Blocks(const RecurrentLayer& layer, bool forward)
      : layer_(layer),
        forward_(forward),
        item(itemsize(layer.dtype)),
        gates(gates_of(layer.cell)),
        states(forward ? forward_states(layer.cell) : backward_states),
        columns(forward ? gates * states : states),
        depth(forward ? layer.size : gates * layer.size),
        count((layer.size + states - 1) / states),
        packed_(layer.steps.total() >= least_rows_for_packing),
        panels_(packed_ ? count * depth * columns * item : 0) {
    if (packed_)
      parallel_for(0, count, grain(1), [this](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) pack(b);
      });
  }

  int64_t first(int64_t block) const { return block * states; }
  int64_t width(int64_t block) const { return std::min(states, layer_.size - first(block)); }
  // Of blocks for a thread, when each has so many rows.
  int64_t grain(int64_t rows) const {
    return std::max<int64_t>(1, 4 * default_grain / std::max<int64_t>(1, rows * depth * columns));
  }

  // out (rows, columns) = a (rows, depth) @ panel, plus what out held if `add`.
  void multiply(int64_t block, int64_t rows, const void* a, void* out, bool add) const {
    if (packed_)
      return recurrent_product(
          {layer_.dtype, rows, depth, columns, a, depth, panel(block), out, add});
    int64_t size = layer_.size, b_row = forward_ ? 1 : size, b_col = forward_ ? size : 1;
    GemmProblem p{layer_.dtype, rows,  width(block), depth, a, nullptr,    nullptr, depth, 1,
                  b_row,        b_col, columns,      1,     1, add ? 1 : 0};
    for (int64_t g = 0; g < columns / states; ++g) {
      p.b = at(layer_.weight, (g * size * size + first(block) * b_col) * item);
      p.c = at(out, g * states * item);
      gemm_tiles(p);
    }
  }

 private:
  char* panel(int64_t block) const {
    return static_cast<char*>(panels_.data()) + block * depth * columns * item;
  }

  void pack(int64_t block) {
    char* to = panel(block);
    int64_t from = first(block), n = width(block), row = columns * item, size = layer_.size * item;
    if (n < states) std::memset(to, 0, static_cast<size_t>(depth * row));
    if (forward_)
      for (int64_t g = 0; g < gates; ++g)
        transpose(item, at(layer_.weight, (g * layer_.size + from) * size), size, item,
                  to + g * states * item, row, item, n, depth, false);
    else
      for (int64_t k = 0; k < depth; ++k)
        std::memcpy(to + k * row, at(layer_.weight, k * size + from * item),
                    static_cast<size_t>(n * item));
  }

  const RecurrentLayer& layer_;
  const bool forward_;

 public:
  const int64_t item, gates, states, columns, depth, count;

 private:
  const bool packed_;
  Workspace panels_;
};

bool is_long(const RecurrentLayer& layer) {
  double weights =
      static_cast<double>(gates_of(layer.cell) * layer.size) * static_cast<double>(layer.size);
  return 2 * weights * static_cast<double>(layer.steps.total()) > long_operations;
}

// The samples of a step in runs [begin, end) whose states before it lie together, f(begin, end,
// place): with the first states if `place` is negative, else with those after steps, from row
// `place` on. No run is longer than `most`.
template <class F> void for_runs(const RecurrentSteps& steps, int64_t i, int64_t most, F f) {
  int64_t rows = steps.rows(i), carried = steps.carried(i);
  for (int64_t end, begin = 0; begin < rows; begin = end) {
    end = std::min(begin + most, begin < carried ? carried : rows);
    f(begin, end, begin < carried ? steps.begin(i - 1) + begin : -1);
  }
}

// The arrays from a row on.
RecurrentBackward from_row(const RecurrentBackward& a, int64_t i, int64_t row, int64_t gates_row,
                           int64_t saved_row) {
  return {at(a.output, i * row),
          at(a.cells, i * row),
          at(a.gates, i * saved_row),
          at(a.before, i * row),
          at(a.grad_output, i * row),
          at(a.grad_cells, i * row),
          at(a.grad_gates, i * saved_row),
          at(a.grad_x, i * gates_row),
          at(a.grad_sums, i * gates_row),
          nullptr,
          nullptr};
}

// (blocks, N, states) to (N, H).
void unpack_states(const Blocks& blocks, int64_t batch, int64_t size, const char* from, char* to) {
  for (int64_t b = 0; b < blocks.count; ++b)
    for (int64_t row = 0; row < batch; ++row)
      std::memcpy(to + (row * size + blocks.first(b)) * blocks.item,
                  from + (b * batch + row) * blocks.states * blocks.item,
                  static_cast<size_t>(blocks.width(b) * blocks.item));
}

// (rows, columns) of an array whose rows are `row` elements apart.
struct Rows {
  int64_t sizes[2], strides[2];
  View view;
  Rows(const void* data, DType dtype, int64_t rows, int64_t columns, int64_t row)
      : sizes{rows, columns},
        strides{row, 1},
        view{const_cast<void*>(data), sizes, strides, 2, rows * columns, dtype} {}
  Rows(const Rows&) = delete;
};

// What the input gives to the gates, which will overwrite it. It is made for so many steps at a
// time that it is still in the second cache when they run: of 32 steps of 64 samples of 100
// states, 1.2 times as fast as for all of them.
class InputProducts {
 public:
  InputProducts(const RecurrentLayer& layer, const RecurrentForward& arrays)
      : layer_(layer),
        arrays_(arrays),
        width_(gates_of(layer.cell) * layer.size),
        row_(layer.cell == RecurrentCell::GRU ? 4 * layer.size : width_),
        dtype_(is_reduced(layer.dtype) ? DType::Float32 : layer.dtype),
        most_(pays() ? std::max(least_rows, bytes_together / (row_ * item())) : max_numel) {}

  // Before the i-th step.
  void prepare(int64_t i) {
    if (i < made_) return;
    const RecurrentSteps& steps = layer_.steps;
    int64_t first = steps.begin(i), rows = steps.rows(i);
    for (made_ = i + 1; made_ < steps.count() && rows < most_; ++made_) {
      first = std::min(first, steps.begin(made_));
      rows += steps.rows(made_);
    }
    make(first, rows);
  }

 private:
  // Each product packs the weight anew, for which fewer rows are too few.
  static constexpr int64_t least_rows = 256, bytes_together = int64_t(1) << 19;

  // Not where a step's weight takes the place of what was made, nor by the fast products of 16-bit
  // floats, which take less time than packing.
  bool pays() const {
    int64_t weight = width_ * layer_.size * item();
    return weight > 0 && weight <= bytes_together && !is_reduced(layer_.dtype);
  }
  int64_t item() const { return itemsize(dtype_); }

  void make(int64_t first, int64_t rows) const {
    Rows to(at(arrays_.gates ? arrays_.gates : arrays_.output, first * row_ * item()), dtype_, rows,
            width_, row_);
    const RecurrentInput* input = arrays_.input;
    if (!input) {
      const void* x = at(arrays_.x, first * width_ * item());
      return copy(Rows(x, dtype_, rows, width_, width_).view, to.view);
    }
    int64_t k = input->size, sizes[2] = {k, width_}, steps[2] = {1, k}, repeated[2] = {0, 1};
    Rows from(at(input->data, first * k * itemsize(input->dtype)), input->dtype, rows, k, k);
    View weight{const_cast<void*>(input->weight), sizes, steps, 2, k * width_, input->dtype};
    View bias = to.view;
    bias.data = const_cast<void*>(input->bias), bias.strides = repeated;
    gemm(from.view, weight, to.view, {1, bias.data ? 1 : 0}, bias.data ? &bias : nullptr);
  }

  const RecurrentLayer& layer_;
  const RecurrentForward& arrays_;
  const int64_t width_, row_;
  const DType dtype_;
  const int64_t most_;
  int64_t made_ = 0;
};

// Rows as floats, where loops compute with 16-bit floats in their place. None of a null pointer.
class Widened {
 public:
  Widened(const void* from, DType dtype, int64_t rows, int64_t columns, int64_t row)
      : memory_(from ? rows * columns : 0) {
    if (!from) return;
    Rows to(memory_.data(), DType::Float32, rows, columns, columns);
    copy(Rows(from, dtype, rows, columns, row).view, to.view);
    data_ = memory_.data();
  }
  Widened(const void* from, DType dtype, int64_t rows, int64_t columns)
      : Widened(from, dtype, rows, columns, columns) {}
  const float* data() const { return data_; }

 private:
  Buffer<float> memory_;
  const float* data_ = nullptr;
};

// Floats that become 16-bit floats at `to`, if that is anywhere.
class Narrowed {
 public:
  Narrowed(void* to, DType dtype, int64_t rows, int64_t columns)
      : to_(to, dtype, rows, columns, columns), memory_(to ? rows * columns : 0) {}
  float* data() const { return to_.view.data ? memory_.data() : nullptr; }
  void put() const {
    if (!to_.view.data) return;
    copy(Rows(memory_.data(), DType::Float32, to_.sizes[0], to_.sizes[1], to_.sizes[1]).view,
         to_.view);
  }

 private:
  Rows to_;
  Buffer<float> memory_;
};

void forward_in_floats(const RecurrentLayer& layer, const RecurrentForward& arrays) {
  const int64_t total = layer.steps.total(), h = layer.size, gates = gates_of(layer.cell);
  Widened weight(layer.weight, layer.dtype, gates * h, h),
      hidden(layer.hidden, layer.dtype, layer.batch, h);
  Narrowed output(arrays.output, layer.dtype, total, h);
  RecurrentLayer wide = layer;
  wide.dtype = DType::Float32, wide.weight = weight.data(), wide.hidden = hidden.data();
  recurrent_forward(
      wide, {arrays.x, arrays.bias, output.data(), arrays.cells, arrays.gates, arrays.input});
  output.put();
}

void backward_in_floats(const RecurrentLayer& layer, const RecurrentBackward& arrays) {
  const int64_t total = layer.steps.total(), h = layer.size, width = gates_of(layer.cell) * h;
  const DType dtype = layer.dtype;
  Widened weight(layer.weight, dtype, width, h), hidden(layer.hidden, dtype, layer.batch, h),
      output(arrays.output, dtype, total, h), before(arrays.before, dtype, total, h),
      grad_output(arrays.grad_output, dtype, total, h);
  Narrowed grad_x(arrays.grad_x, dtype, total, width),
      grad_sums(arrays.grad_sums, dtype, total, width);
  RecurrentLayer wide = layer;
  wide.dtype = DType::Float32, wide.weight = weight.data(), wide.hidden = hidden.data();
  recurrent_backward(wide, {output.data(), arrays.cells, arrays.gates, before.data(),
                            grad_output.data(), arrays.grad_cells, arrays.grad_gates, grad_x.data(),
                            grad_sums.data(), arrays.grad_hidden, arrays.grad_cell});
  grad_x.put();
  grad_sums.put();
}

}  // namespace

void recurrent_forward(const RecurrentLayer& layer, const RecurrentForward& arrays) {
  ScopedGilRelease long_work(is_long(layer));
  if (is_reduced(layer.dtype) && !can_run_on_unit(layer)) return forward_in_floats(layer, arrays);
  InputProducts products(layer, arrays);
  auto prepare = [&products](int64_t step) { products.prepare(step); };
  if (can_run_on_unit(layer)) return recurrent_forward_on_unit(layer, arrays, prepare);
  Blocks blocks(layer, true);
  const RecurrentSteps& steps = layer.steps;
  int64_t row = layer.size * blocks.item;
  int64_t gates_row = (layer.cell == RecurrentCell::GRU ? 4 : blocks.gates) * row;
  void* gates = arrays.gates ? arrays.gates : arrays.output;
  for (int64_t i = 0; i < steps.count(); ++i) {
    prepare(i);
    parallel_for(0, blocks.count, blocks.grain(steps.rows(i)), [&](int64_t first, int64_t last) {
      alignas(64) char sums[recurrent_rows * recurrent_columns * sizeof(double)];
      for (int64_t b = first; b < last; ++b)
        for_runs(steps, i, recurrent_rows, [&](int64_t begin, int64_t end, int64_t place) {
          bool starts = place < 0;
          int64_t from = (starts ? begin : place) * row, to = steps.begin(i) + begin;
          const char* hidden = at(starts ? layer.hidden : arrays.output, from);
          const char* cells = at(starts ? layer.cells : arrays.cells, from);
          RecurrentForward step{nullptr, arrays.bias, at(arrays.output, to * row),
                                at(arrays.cells, to * row), at(gates, to * gates_row)};
          blocks.multiply(b, end - begin, hidden, sums, false);
          recurrent_gates(
              {layer.cell, layer.dtype, layer.size, blocks.first(b), blocks.width(b), end - begin},
              step, sums, hidden, cells);
        });
    });
  }
}

// A round multiplies with the weight what the last one gave, so that one wait for all threads is
// enough for a step.
void recurrent_backward(const RecurrentLayer& layer, const RecurrentBackward& arrays) {
  ScopedGilRelease long_work(is_long(layer));
  if (can_run_on_unit(layer)) return recurrent_backward_on_unit(layer, arrays);
  if (is_reduced(layer.dtype)) return backward_in_floats(layer, arrays);
  Blocks blocks(layer, false);
  const RecurrentSteps& steps = layer.steps;
  bool has_cells = layer.cell == RecurrentCell::LSTM;
  int64_t row = layer.size * blocks.item, gates_row = blocks.gates * row;
  int64_t saved_row = (layer.cell == RecurrentCell::GRU ? 4 : blocks.gates) * row;
  int64_t block_row = blocks.states * blocks.item, bytes = blocks.count * layer.batch * block_row;
  Workspace states((has_cells ? 2 : 1) * bytes);
  char *grad_hidden = states.as<char>(), *grad_cell = has_cells ? grad_hidden + bytes : nullptr;
  if (bytes > 0) std::memset(grad_hidden, 0, static_cast<size_t>((has_cells ? 2 : 1) * bytes));
  void* grad_sums = arrays.grad_sums ? arrays.grad_sums : arrays.grad_x;
  bool adds = layer.cell == RecurrentCell::GRU;
  for (int64_t i = steps.count(); i >= 0; --i) {
    int64_t later = steps.rows(i), work = std::max(later, steps.rows(i - 1));
    parallel_for(0, blocks.count, blocks.grain(work), [&](int64_t first, int64_t last) {
      for (int64_t b = first; b < last; ++b) {
        char *dh = grad_hidden + b * layer.batch * block_row,
             *dc = at(grad_cell, b * layer.batch * block_row);
        for (int64_t begin = 0; begin < later; begin += recurrent_rows)
          blocks.multiply(b, std::min(recurrent_rows, later - begin),
                          at(grad_sums, (steps.begin(i) + begin) * gates_row),
                          dh + begin * block_row, adds);
        for_runs(steps, i - 1, layer.batch, [&](int64_t begin, int64_t end, int64_t place) {
          int64_t to = steps.begin(i - 1) + begin;
          const char* cells =
              at(place < 0 ? layer.cells : arrays.cells, (place < 0 ? begin : place) * row);
          RecurrentBackward step = from_row(arrays, to, row, gates_row, saved_row);
          recurrent_slopes(
              {layer.cell, layer.dtype, layer.size, blocks.first(b), blocks.width(b), end - begin},
              step, cells, dh + begin * block_row, at(dc, begin * block_row));
        });
      }
    });
  }
  unpack_states(blocks, layer.batch, layer.size, grad_hidden,
                static_cast<char*>(arrays.grad_hidden));
  if (has_cells)
    unpack_states(blocks, layer.batch, layer.size, grad_cell, static_cast<char*>(arrays.grad_cell));
}

}  // namespace rl::kernels
