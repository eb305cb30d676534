// What a step of a recurrent layer does for a block of states: a product with a panel of the
// weight, and what happens element by element. Arrays as in kernels/recurrent.h; their pointers
// stand at the block's first row, and x stands in the gates, or in the output of an RNN.
#pragma once
#include "kernels/cpu/isa.h"
#include "kernels/recurrent.h"

namespace rl::kernels {

// States of a block. Forward, its gates stand side by side in a row of the panel.
inline int64_t forward_states(RecurrentCell cell) { return gates_of(cell) == 1 ? 32 : 16; }
inline constexpr int64_t backward_states = 32;

inline constexpr int64_t recurrent_rows = 64;     // samples at a time, whose sums stay in L1
inline constexpr int64_t recurrent_columns = 64;  // of a panel, at most

// out (rows, columns) = a (rows, depth) @ panel (depth, columns), plus what `out` held if `add`.
// `columns` is a multiple of 16, and the rows of panel and out are dense.
struct RecurrentProduct {
  DType dtype;
  int64_t rows, depth, columns;
  const void* a;
  int64_t a_row;
  const void* panel;
  void* out;
  bool add;
};
RL_ISA_KERNEL(recurrent_product, (const RecurrentProduct& product))

// States [first, first + count) of so many samples.
struct RecurrentBlock {
  RecurrentCell cell;
  DType dtype;
  int64_t size, first, count, rows;
};
// sums (rows, panel's columns): what the hidden state gives to the gates. hidden and cells (rows,
// H) are the states before the step.
RL_ISA_KERNEL(recurrent_gates, (const RecurrentBlock& block, const RecurrentForward& step,
                                const void* sums, const void* hidden, const void* cells))
// grad_hidden and grad_cell (rows, backward_states) are the block's gradients of the states after
// the step; grad_cell becomes that of the cells before, and of a GRU, grad_hidden what goes to the
// states before past the product. cells (rows, H) are those before.
RL_ISA_KERNEL(recurrent_slopes, (const RecurrentBlock& block, const RecurrentBackward& step,
                                 const void* cells, void* grad_hidden, void* grad_cell))

}  // namespace rl::kernels
