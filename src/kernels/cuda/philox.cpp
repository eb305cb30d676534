#include "kernels/cuda/philox.h"

#include <mutex>

#include "kernels/cuda/runtime.h"

namespace rl::cuda {
namespace {
std::mutex mutex;
PhiloxState states[max_devices];
bool seeded[max_devices] = {};

PhiloxState& state_of(int device) {
  if (!seeded[device]) {
    states[device] = {default_generator().initial_seed(), 0};  // what the program last said
    seeded[device] = true;
  }
  return states[device];
}
}  // namespace

PhiloxState philox_state(int device) {
  std::lock_guard<std::mutex> lock(mutex);
  return state_of(device);
}
void set_philox_state(int device, PhiloxState state) {
  std::lock_guard<std::mutex> lock(mutex);
  state_of(device) = state;
}
PhiloxState advance_philox(int device, uint64_t count) {
  std::lock_guard<std::mutex> lock(mutex);
  PhiloxState &state = state_of(device), before = state;
  state.offset += (count + 3) / 4 * 4;
  return before;
}
PhiloxState philox_for(int device, Generator& generator, uint64_t count) {
  if (&generator == &default_generator()) return advance_philox(device, count);
  std::lock_guard<std::mutex> lock(generator.mutex);
  return {generator.random64(), 0};
}

}  // namespace rl::cuda
