// Generator: the random bits behind every sampler, MT19937 as PyTorch's CPU generator runs it, so
// that one seed gives the same numbers in both.
//
// A sampler locks `mutex` for its whole fill; the methods themselves do not lock.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/device.h"
#include "core/mersenne_twister.h"

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
    if (left_ == 1) refill([](uint32_t* state) { twist(state); });
    --left_;
    return temper(state_[next_++]);
  }
  uint64_t random64() {  // the first draw is the upper half
    uint64_t high = random();
    return high << 32 | random();
  }
  // n draws at once, by a twist(state) and temper(words, out, n) that take many words together.
  template <class Twist, class Temper>
  void random(uint32_t* out, int64_t n, Twist twist, Temper temper) {
    for (int64_t taken = 0; n > 0; out += taken, n -= taken) {
      if (left_ == 1) refill(twist);
      taken = std::min<int64_t>(n, left_ - 1);
      temper(state_ + next_, out, taken);
      left_ -= static_cast<int>(taken);
      next_ += static_cast<int>(taken);
    }
  }

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
  template <class Twist> void refill(Twist twist) {
    twist(state_);
    left_ = twister_words + 1;
    next_ = 0;
  }

  uint64_t initial_seed_ = 0;
  // `left_` is one more than the unread words of the state: 1 asks for a refill. After seeding it
  // is 1 and `next_` 0; both are kept because they are part of the exchanged state.
  int left_ = 1;
  int next_ = 0;
  uint32_t state_[twister_words];
};

// That of the calling thread if it has one of its own, or that of the process.
Generator& default_generator();
inline Generator& generator_or_default(Generator* generator) {
  return generator ? *generator : default_generator();
}
void set_thread_generator(Generator* generator);  // not owned; null for that of the process

}  // namespace rl
