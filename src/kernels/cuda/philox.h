// The random state of each device: a seed and how many numbers were drawn, as Philox counts them.
#pragma once
#include <cstdint>

#include "core/generator.h"

namespace rl::cuda {

struct PhiloxState {
  uint64_t seed, offset;
};
PhiloxState philox_state(int device);
void set_philox_state(int device, PhiloxState state);
// The state to draw from, after which `count` of each thread's counters are used up.
PhiloxState advance_philox(int device, uint64_t count);
// The same of the device's own state if `generator` is the default one; any other seeds a sequence.
PhiloxState philox_for(int device, Generator& generator, uint64_t count);

}  // namespace rl::cuda
