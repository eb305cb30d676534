// RNN, LSTM and GRU layers in one direction, over all their steps.
//
// All arrays are contiguous, of float32 or float64, or on the CPU of 16-bit floats: then the hidden
// states, the weight and the gradients of output, x and sums are; all else is float32. N samples
// have H states, and a cell has G gates: 4 in an LSTM (i, f, g, o), 3 in a GRU (r, z, n), 1 in an
// RNN. What steps have rows of, (R, k), lies one step after the other: step t has the samples [0,
// rows[t]), as in a packed sequence. Splits work over the states within a step; results do not
// depend on the number of threads.
#pragma once
#include <vector>

#include "core/shape.h"
#include "core/view.h"

namespace rl::kernels {

enum class RecurrentCell { Tanh, Relu, LSTM, GRU };

inline int64_t gates_of(RecurrentCell cell) {
  return cell == RecurrentCell::LSTM ? 4 : cell == RecurrentCell::GRU ? 3 : 1;
}

// The steps in the order in which they run. `rows` never grows.
class RecurrentSteps {
 public:
  RecurrentSteps(IntSpan rows, bool reverse);
  int64_t count() const { return static_cast<int64_t>(rows_.size()); }
  // Of the i-th step to run; -1 and count() have no rows.
  int64_t rows(int64_t i) const {
    return i < 0 || i >= count() ? 0 : rows_[static_cast<size_t>(i)];
  }
  int64_t begin(int64_t i) const { return begins_[static_cast<size_t>(i)]; }
  // The samples that the step before gave states to; the others have their first ones.
  int64_t carried(int64_t i) const { return rows(i) < rows(i - 1) ? rows(i) : rows(i - 1); }
  int64_t total() const { return total_; }

 private:
  std::vector<int64_t> rows_, begins_;
  int64_t total_ = 0;
};

struct RecurrentLayer {
  RecurrentCell cell;
  Device device;
  DType dtype;
  int64_t batch, size;  // N, H
  const RecurrentSteps& steps;
  const void* weight;          // (G H, H), that of the hidden state
  const void *hidden, *cells;  // the first states (N, H); cells of an LSTM alone
};

// On the CPU, the input (R, K), from which the kernel makes x: its product with the transpose of
// `weight` (G H, K), and `bias` (G H) or null. The bias is of float32 at least.
struct RecurrentInput {
  DType dtype;
  int64_t size;  // K
  const void *data, *weight, *bias;
};

// x (R, G H) is what the input gives to the gates, and of a GRU, the hidden state has a bias (3 H)
// or null. Writes the states after each step (R, H), and what the gradient needs: of an LSTM the
// gates (R, 4 H), of a GRU the gates and what the hidden state gave to n (R, 4 H). With `input`, x
// is null, and is made where the gates overwrite it: of an RNN of 16-bit floats in gates (R, H), of
// other floats in the output.
struct RecurrentForward {
  const void *x, *bias;
  void *output, *cells, *gates;
  const RecurrentInput* input = nullptr;
};
void recurrent_forward(const RecurrentLayer& layer, const RecurrentForward& arrays);

// The gradients that come, any of which may be null, and those that go: of x (R, G H), of what the
// hidden state gives to the gates (R, G H; null where it is that of x), and of the first states.
// `before` (R, H), of a GRU alone: the hidden states before each step.
struct RecurrentBackward {
  const void *output, *cells, *gates, *before;
  const void *grad_output, *grad_cells, *grad_gates;
  void *grad_x, *grad_sums, *grad_hidden, *grad_cell;
};
void recurrent_backward(const RecurrentLayer& layer, const RecurrentBackward& arrays);

}  // namespace rl::kernels
