#include "kernels/cuda/philox.h"

#include <cstring>

#include "kernels/cuda/graph.h"
#include "kernels/cuda/runtime.h"

namespace rl::cuda {

void PhiloxGenerator::manual_seed(uint64_t seed) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  state_->seed = seed;
  state_->offset = 0;
}
uint64_t PhiloxGenerator::initial_seed() const {
  std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->seed;
}
std::vector<uint8_t> PhiloxGenerator::get_state() const {
  std::lock_guard<std::mutex> lock(state_->mutex);
  std::vector<uint8_t> bytes(static_cast<size_t>(state_bytes));
  std::memcpy(bytes.data(), &state_->seed, 8);
  std::memcpy(bytes.data() + 8, &state_->offset, 8);
  return bytes;
}
void PhiloxGenerator::set_state(const uint8_t* bytes, int64_t size) {
  check(size == state_bytes, "set_state: expected a state of ", state_bytes,
        " bytes, as a generator of CUDA has, got ", size);
  uint64_t offset;
  std::memcpy(&offset, bytes + 8, 8);
  check(offset % 4 == 0, "set_state: the offset must be a multiple of 4, got ", offset);
  std::lock_guard<std::mutex> lock(state_->mutex);
  std::memcpy(&state_->seed, bytes, 8);
  state_->offset = offset;
}
std::unique_ptr<Generator> PhiloxGenerator::clone() const {
  auto copy = std::make_shared<PhiloxState>();
  std::lock_guard<std::mutex> lock(state_->mutex);
  copy->seed = state_->seed;
  copy->offset = state_->offset;
  return std::make_unique<PhiloxGenerator>(device_, std::move(copy));
}

PhiloxGenerator& default_philox(int device) {
  static std::mutex mutex;
  static PhiloxGenerator* made[max_devices] = {};
  std::lock_guard<std::mutex> lock(mutex);
  if (!made[device]) {
    made[device] = new PhiloxGenerator(device);
    made[device]->manual_seed(default_generator().initial_seed());
  }
  return *made[device];
}

PhiloxSeed philox_for(int device, Generator& generator, uint64_t count) {
  bool standard = &generator == &default_generator();
  check(standard || generator.device().type == DeviceType::CUDA,
        "Expected a 'cuda' device type for generator but found '", name(generator.device().type),
        "'");
  check(standard || generator.device().index == device, "Expected a 'cuda:", device,
        "' generator device but found '", generator.device(), "'");
  auto& own = standard ? default_philox(device) : static_cast<PhiloxGenerator&>(generator);
  uint64_t used = (count + 3) / 4 * 4;
  if (is_capturing(device)) return draw_in_capture(device, own.state(), used);
  std::lock_guard<std::mutex> lock(own.state()->mutex);
  PhiloxSeed before{own.state()->seed, own.state()->offset, nullptr};
  own.state()->offset += used;
  return before;
}

}  // namespace rl::cuda
