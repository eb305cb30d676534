// Recurrent layers of bfloat16 on the processor's matrix unit, which multiplies the state by the
// weight, a block of 32 states at a time; or by products of pairs of bfloat16, of the same tiles.
// Arrays as in kernels/recurrent.h.
#pragma once
#include <functional>

#include "kernels/cpu/isa.h"
#include "kernels/recurrent.h"
#include "math/arithmetic.h"

namespace rl::kernels {

inline constexpr int64_t unit_states = 32;   // of a block
inline constexpr int64_t unit_samples = 32;  // of a group, whose states of a block are two tiles
inline constexpr int64_t unit_step_bytes = 2048;

// What a layer keeps over its steps. The left side of the products, `tiles`, is that of the step
// before and that of this one by turns: forward, hidden states of each block; backward, gradients
// of each block of what the hidden state gives to each gate. A row of it has `depth` blocks. Of the
// right side, `panels`, each block of states has one for each product: forward, one for each gate.
struct RecurrentUnit {
  const RecurrentLayer& layer;
  bool forward, has_unit;
  int64_t gates, blocks, products, depth;
  char *panels, *tiles[2];
  // (blocks, N, 32), the cells of an LSTM or the hidden states of a GRU; backward, the gradients of
  // the hidden states, and of the cells.
  float *states, *cells;

  RL_INLINE char* panel(int64_t block, int64_t product) const {
    return panels + (block * products + product) * depth * unit_step_bytes;
  }
  // The left side's row of a sample, in its `step`th block.
  RL_INLINE char* left(int64_t turn, int64_t sample, int64_t step) const {
    return tiles[turn % 2] + (sample / unit_samples * depth + step) * unit_step_bytes +
           sample % unit_samples * unit_states * 2;
  }
  RL_INLINE float* of(float* kept, int64_t block, int64_t sample) const {
    return kept + (block * layer.batch + sample) * unit_states;
  }
};

// A step: its place in the order in which steps run, the first of its rows and how many there are.
// Backward, how many the step after it has; how many of its states the step before gave, and the
// first row of that one.
struct RecurrentUnitStep {
  int64_t turn, begin, rows, later, carried, before;
};

// Blocks [first, last): their panels; what a step does forward; and what it does backward, which
// begins with the product of what the step after it left.
RL_ISA_KERNEL(recurrent_unit_pack, (const RecurrentUnit& unit, int64_t first, int64_t last))
RL_ISA_KERNEL(recurrent_unit_forward, (const RecurrentUnit& unit, const RecurrentForward& arrays,
                                       const RecurrentUnitStep& step, int64_t first, int64_t last))
RL_ISA_KERNEL(recurrent_unit_backward, (const RecurrentUnit& unit, const RecurrentBackward& arrays,
                                        const RecurrentUnitStep& step, int64_t first, int64_t last))

// All of a layer; only where can_run_on_unit(). prepare(i) makes what the input gives to the i-th
// step.
bool can_run_on_unit(const RecurrentLayer& layer);
void recurrent_forward_on_unit(const RecurrentLayer& layer, const RecurrentForward& arrays,
                               const std::function<void(int64_t)>& prepare);
void recurrent_backward_on_unit(const RecurrentLayer& layer, const RecurrentBackward& arrays);

}  // namespace rl::kernels
