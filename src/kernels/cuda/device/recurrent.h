// Arguments of recurrent layers, in both worlds.
#pragma once
#include <cstdint>

namespace rl::cuda {

enum CellKind : int { CellTanh, CellRelu, CellLSTM, CellGRU };

// `rows` samples of a step, of `size` states each; pointers stand at the first of them.
struct CellForward {
  int64_t rows, size;
  const void *x, *sums, *bias, *hidden, *cells_before;
  void *output, *cells, *gates;
};
struct CellBackward {
  int64_t rows, size;
  const void *output, *cells, *gates, *before, *cells_before;
  const void *grad_output, *grad_cells, *grad_gates;
  void *grad_x, *grad_sums, *grad_hidden, *grad_cell;
};

// All steps of as many samples each: step i has the rows from first + i * stride on.
struct StepsForward {
  int64_t batch, size, steps, first, stride;
  const void *weight, *x, *bias, *hidden, *cells;
  void *output, *new_cells, *gates;
};
struct StepsBackward {
  int64_t batch, steps, first, stride, size;
  const void *weight, *first_cells;
  CellBackward cell;  // of whole arrays
};

}  // namespace rl::cuda
