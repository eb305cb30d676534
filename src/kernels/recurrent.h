// One time step of LSTM and GRU beside the matrix product: what happens element by element.
// All arrays are contiguous, of float32 or float64; n samples of `size` states. Pointers that may
// be null are marked; a null state before the first step does not occur.
#pragma once
#include "core/view.h"
#include "kernels/isa.h"

namespace rl::kernels {

struct RecurrentStep {
  DType dtype;
  int64_t n, size;
};

// gates (n, 4 size): sums on entry, i, f, g, o on return. Writes the new cell and hidden state.
RL_ISA_KERNEL(lstm_step, (const RecurrentStep& step, void* gates, const void* cell, void* new_cell,
                          void* new_hidden))
// grad_hidden and grad_cell are the gradients of the step's results; grad_cell becomes that of the
// cell before. grad_gates (may be null) comes from elsewhere. Writes the gradient of the sums.
RL_ISA_KERNEL(lstm_step_backward,
              (const RecurrentStep& step, const void* gates, const void* cell, const void* new_cell,
               const void* grad_hidden, void* grad_cell, const void* grad_gates, void* grad_sums))

// x (n, 3 size) and sums (n, 3 size) are what the input and the hidden state give. Writes r, z, n
// and the last third of the sums to gates (n, 4 size), and the new hidden state.
RL_ISA_KERNEL(gru_step, (const RecurrentStep& step, const void* x, const void* sums,
                         const void* hidden, void* gates, void* new_hidden))
// grad_hidden becomes what goes to the hidden state before past the matrix product. Writes the
// gradients of x and of the sums, (n, 3 size).
RL_ISA_KERNEL(gru_step_backward,
              (const RecurrentStep& step, const void* gates, const void* hidden, void* grad_hidden,
               const void* grad_gates, void* grad_x, void* grad_sums))

}  // namespace rl::kernels
