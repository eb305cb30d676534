#include "kernels/cpu/recurrent_unit.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/number.h"
#include "core/parallel.h"
#include "kernels/cpu/units.h"
#include "kernels/cpu/workspace.h"

namespace rl::kernels {
namespace {

int64_t parts_of(int64_t n, int64_t part) { return (n + part - 1) / part; }

RecurrentUnit unit_of(const RecurrentLayer& layer, bool forward) {
  int64_t gates = gates_of(layer.cell), blocks = parts_of(layer.size, unit_states);
  return {layer,
          forward,
          has_matrix_unit(),
          gates,
          blocks,
          forward ? gates : 1,
          forward ? blocks : gates * blocks,
          nullptr,
          {},
          {},
          {}};
}

// The memory of a layer, and its weight in panels.
class Memory {
 public:
  Memory(const RecurrentLayer& layer, bool forward)
      : unit(unit_of(layer, forward)), kept_(panel_bytes() + 2 * tile_bytes() + 2 * state_bytes()) {
    char* at = kept_.as<char>();
    auto take = [&at](int64_t n) { return std::exchange(at, at + n); };
    unit.panels = take(panel_bytes());
    char* zeros = at;
    for (char*& tiles : unit.tiles) tiles = take(tile_bytes());
    unit.states = reinterpret_cast<float*>(take(state_bytes()));
    unit.cells = reinterpret_cast<float*>(take(state_bytes()));
    std::memset(zeros, 0, static_cast<size_t>(at - zeros));
    parallel_for(0, unit.blocks, grain(unit_samples),
                 [this](int64_t first, int64_t last) { recurrent_unit_pack(unit, first, last); });
  }
  // Of blocks for a thread, when each has so many rows. The unit is eight times as fast as loops
  // of floats, pairs are twice as fast.
  int64_t grain(int64_t rows) const {
    int64_t work = rows * unit.depth * unit.products * unit_states * unit_states;
    int64_t least = (unit.has_unit ? 32 : 8) * default_grain;
    return std::max<int64_t>(1, least / std::max<int64_t>(1, work));
  }

  // f(block, sample, state, count): the states of a block from `state` on.
  template <class F> void for_rows(F f) const {
    for (int64_t b = 0; b < unit.blocks; ++b)
      for (int64_t sample = 0; sample < unit.layer.batch; ++sample) {
        int64_t state = b * unit_states;
        f(b, sample, state, std::min(unit_states, unit.layer.size - state));
      }
  }

  RecurrentUnit unit;

 private:
  int64_t panel_bytes() const { return unit.gates * unit.blocks * unit.blocks * unit_step_bytes; }
  int64_t tile_bytes() const {
    return parts_of(unit.layer.batch, unit_samples) * unit.depth * unit_step_bytes;
  }
  int64_t state_bytes() const { return unit.blocks * unit.layer.batch * unit_states * 4; }

  Workspace kept_;
};

// The first states go to where those after a step go, and to both sets of tiles: a sample that
// begins later finds them there.
void put_first_states(const Memory& memory) {
  const RecurrentUnit& u = memory.unit;
  const bfloat16* hidden = static_cast<const bfloat16*>(u.layer.hidden);
  const float* cells = static_cast<const float*>(u.layer.cells);
  memory.for_rows([&](int64_t b, int64_t sample, int64_t state, int64_t count) {
    int64_t at = sample * u.layer.size + state;
    for (int64_t turn = 0; turn < 2; ++turn)
      std::memcpy(u.left(turn, sample, b), hidden + at, static_cast<size_t>(count * 2));
    float* kept = u.of(u.states, b, sample);
    if (cells) std::copy_n(cells + at, count, kept);
    else std::copy_n(hidden + at, count, kept);
  });
}

// The i-th step to run, of which -1 and the number of steps have no rows.
RecurrentUnitStep step_of(const RecurrentSteps& steps, int64_t i) {
  bool runs = i >= 0 && i < steps.count();
  return {i + 1,
          runs ? steps.begin(i) : 0,
          steps.rows(i),
          steps.rows(i + 1),
          steps.carried(i),
          i > 0 ? steps.begin(i - 1) : 0};
}

}  // namespace

bool can_run_on_unit(const RecurrentLayer& layer) {
  return layer.dtype == DType::BFloat16 &&
         (has_matrix_unit() || (has_bfloat16_products() && isa() == Isa::avx512));
}

void recurrent_forward_on_unit(const RecurrentLayer& layer, const RecurrentForward& arrays,
                               const std::function<void(int64_t)>& prepare) {
  Memory memory(layer, true);
  put_first_states(memory);
  for (int64_t i = 0; i < layer.steps.count(); ++i) {
    prepare(i);
    RecurrentUnitStep step = step_of(layer.steps, i);
    parallel_for(0, memory.unit.blocks, memory.grain(step.rows), [&](int64_t first, int64_t last) {
      recurrent_unit_forward(memory.unit, arrays, step, first, last);
    });
  }
}

void recurrent_backward_on_unit(const RecurrentLayer& layer, const RecurrentBackward& arrays) {
  Memory memory(layer, false);
  const RecurrentUnit& u = memory.unit;
  for (int64_t i = layer.steps.count() - 1; i >= -1; --i) {
    RecurrentUnitStep step = step_of(layer.steps, i);
    parallel_for(0, u.blocks, memory.grain(std::max(step.later, step.rows)),
                 [&](int64_t first, int64_t last) {
                   recurrent_unit_backward(u, arrays, step, first, last);
                 });
  }
  memory.for_rows([&](int64_t b, int64_t sample, int64_t state, int64_t count) {
    int64_t at = sample * layer.size + state;
    std::copy_n(u.of(u.states, b, sample), count, static_cast<float*>(arrays.grad_hidden) + at);
    if (arrays.grad_cell)
      std::copy_n(u.of(u.cells, b, sample), count, static_cast<float*>(arrays.grad_cell) + at);
  });
}

}  // namespace rl::kernels
