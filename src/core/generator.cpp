#include "core/generator.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "core/error.h"

namespace rl {

namespace {

// What torch.get_rng_state() holds; the fields named unused date from its predecessor in Lua.
struct StateLayout {
  uint64_t initial_seed;
  int32_t left;
  int32_t seeded;
  uint64_t next;
  uint64_t state[twister_words];
  double unused_normal_x;
  double next_double_normal;
  double unused_normal_rho;
  int32_t has_next_double_normal;
  float next_float_normal;
  bool has_next_float_normal;
};
static_assert(sizeof(StateLayout) == Generator::state_bytes);

}  // namespace

void Generator::manual_seed(uint64_t seed) {
  initial_seed_ = seed;
  next_double_normal.reset();
  next_float_normal.reset();
  state_[0] = static_cast<uint32_t>(seed);
  for (uint32_t i = 1; i < twister_words; ++i)
    state_[i] = 1812433253u * (state_[i - 1] ^ (state_[i - 1] >> 30)) + i;
  left_ = 1;
  next_ = 0;
}

uint64_t Generator::seed() {
  std::random_device entropy;
  uint64_t high = entropy() & 0x1fffffu;  // 53 bits: a Python float holds it exactly
  uint64_t drawn = high << 32 | entropy();
  manual_seed(drawn);
  return drawn;
}

std::vector<uint8_t> Generator::get_state() const {
  StateLayout s;
  std::memset(&s, 0, sizeof s);
  s.initial_seed = initial_seed_;
  s.left = left_;
  s.seeded = 1;
  s.next = static_cast<uint64_t>(next_);
  std::copy(state_, state_ + twister_words, s.state);
  s.has_next_double_normal = next_double_normal.has_value();
  s.next_double_normal = next_double_normal.value_or(0);
  s.has_next_float_normal = next_float_normal.has_value();
  s.next_float_normal = next_float_normal.value_or(0);
  std::vector<uint8_t> bytes(sizeof s);
  std::memcpy(bytes.data(), &s, sizeof s);
  return bytes;
}

void Generator::set_state(const uint8_t* bytes, int64_t size) {
  check(size == state_bytes, "set_state: expected a state of ", state_bytes, " bytes, got ", size);
  StateLayout s;
  std::memcpy(&s, bytes, sizeof s);
  check(s.seeded == 1 && s.left > 0 && s.left <= twister_words && s.next <= twister_words &&
            (s.left == 1 || s.left + static_cast<int64_t>(s.next) == twister_words + 1),
        "set_state: not a state of this generator");
  initial_seed_ = s.initial_seed;
  left_ = s.left;
  next_ = static_cast<int>(s.next);
  for (int i = 0; i < twister_words; ++i) state_[i] = static_cast<uint32_t>(s.state[i]);
  next_double_normal.reset();
  next_float_normal.reset();
  if (s.has_next_double_normal) next_double_normal = s.next_double_normal;
  if (s.has_next_float_normal) next_float_normal = s.next_float_normal;
}

std::unique_ptr<Generator> Generator::clone() const {
  auto copy = std::make_unique<Generator>();
  std::vector<uint8_t> state = get_state();
  copy->set_state(state.data(), static_cast<int64_t>(state.size()));
  return copy;
}

namespace {
thread_local Generator* thread_generator = nullptr;
}

Generator& default_generator() {
  static auto& generator = *new Generator;
  return thread_generator ? *thread_generator : generator;
}

void set_thread_generator(Generator* generator) { thread_generator = generator; }

}  // namespace rl
