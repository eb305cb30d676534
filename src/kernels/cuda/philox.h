// Generators of GPUs: Philox, of which a seed and a count of numbers drawn are the whole state.
#pragma once
#include <cstdint>
#include <memory>

#include "core/generator.h"
#include "kernels/cuda/device/parameters.h"

namespace rl::cuda {

// The seed and the offset behind one or more generators. The offset counts 32-bit numbers of each
// thread, four at a time.
struct PhiloxState {
  std::mutex mutex;
  uint64_t seed = Generator::default_seed, offset = 0;
};

class PhiloxGenerator final : public Generator {
 public:
  static constexpr int64_t state_bytes = 16;

  explicit PhiloxGenerator(int device,
                           std::shared_ptr<PhiloxState> state = std::make_shared<PhiloxState>())
      : device_(device), state_(std::move(state)) {}

  Device device() const override { return {DeviceType::CUDA, static_cast<int8_t>(device_)}; }
  void manual_seed(uint64_t seed) override;
  uint64_t initial_seed() const override;
  std::vector<uint8_t> get_state() const override;
  void set_state(const uint8_t* bytes, int64_t size) override;
  std::unique_ptr<Generator> clone() const override;

  // The state itself, which generators may share.
  const std::shared_ptr<PhiloxState>& state() const { return state_; }
  void share(std::shared_ptr<PhiloxState> state) { state_ = std::move(state); }

 private:
  int device_;
  std::shared_ptr<PhiloxState> state_;
};

// That of a device, from which kernels draw that were given no generator. It is seeded as the
// program last said.
PhiloxGenerator& default_philox(int device);

// Where a kernel draws from, after which `count` numbers of each of its threads are used up.
// `generator` is the default one, for that of the device, or one of the device. While a graph is
// captured, the kernel finds the state in memory that each replay writes.
PhiloxSeed philox_for(int device, Generator& generator, uint64_t count);

}  // namespace rl::cuda
