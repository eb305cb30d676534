// Generator: the random bits behind every sampler, MT19937 as PyTorch's CPU generator runs it, so
// that one seed gives the same numbers in both.
//
// A sampler locks `mutex` for its whole fill; the methods themselves do not lock.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/device.h"

namespace rl {

class Generator {
 public:
  static constexpr uint64_t default_seed = 67280421310721;
  static constexpr int64_t state_bytes = 5056;

  explicit Generator(uint64_t seed = default_seed) { Generator::manual_seed(seed); }
  virtual ~Generator() = default;
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  // Those of another device draw by an engine of their own (kernels/cuda/philox.h).
  virtual Device device() const { return {}; }
  virtual void manual_seed(uint64_t seed);  // the engine uses the low 32 bits
  virtual uint64_t initial_seed() const { return initial_seed_; }
  uint64_t seed();  // seeds from the system's entropy and returns that seed

  // Always inlined: a call for each number would be a fifth of bernoulli's time.
  [[gnu::always_inline]] uint32_t random() {
    if (left_ == 1) refill();
    --left_;
    return temper(state_[next_++]);
  }
  uint64_t random64() {  // the first draw is the upper half
    uint64_t high = random();
    return high << 32 | random();
  }
  void random(uint32_t* out, int64_t n);  // n draws at once

  // The second value of the last Box-Muller pair, kept for the next normal draw.
  std::optional<double> next_double_normal;
  std::optional<float> next_float_normal;

  // The byte layout of torch.get_rng_state(), so states move between the two libraries.
  virtual std::vector<uint8_t> get_state() const;
  virtual void set_state(const uint8_t* bytes, int64_t size);
  // Another generator in the same state.
  virtual std::unique_ptr<Generator> clone() const;

  std::mutex mutex;

 private:
  static constexpr int words = 624;
  static uint32_t temper(uint32_t y) {
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
  }
  void refill();

  uint64_t initial_seed_ = 0;
  // `left_` is one more than the unread words of the state: 1 asks for a refill. After seeding it
  // is 1 and `next_` 0; both are kept because they are part of the exchanged state.
  int left_ = 1;
  int next_ = 0;
  uint32_t state_[words];
};

// That of the calling thread if it has one of its own, or that of the process.
Generator& default_generator();
inline Generator& generator_or_default(Generator* generator) {
  return generator ? *generator : default_generator();
}
void set_thread_generator(Generator* generator);  // not owned; null for that of the process

}  // namespace rl
