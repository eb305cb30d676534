// MT19937: Matsumoto and Nishimura, "Mersenne Twister" (1998). Always inlined, as files that are
// compiled for each instruction set include it.
#pragma once
#include <cstdint>

namespace rl {

inline constexpr int twister_words = 624;

// The next state. In three loops without a modulus, and with a mask for the conditional, gcc
// vectorises the two long ones.
[[gnu::always_inline]] inline void twist(uint32_t* state) {
  constexpr int shift = 397, back = twister_words - shift, last = twister_words - 1;
  auto mix = [](uint32_t high, uint32_t low, uint32_t far) {
    uint32_t y = (high & 0x80000000u) | (low & 0x7fffffffu);
    return far ^ (y >> 1) ^ ((0u - (low & 1u)) & 0x9908b0dfu);
  };
  for (int k = 0; k < back; ++k) state[k] = mix(state[k], state[k + 1], state[k + shift]);
  for (int k = back; k < last; ++k) state[k] = mix(state[k], state[k + 1], state[k - back]);
  state[last] = mix(state[last], state[0], state[shift - 1]);
}

// A random number of a word of the state.
[[gnu::always_inline]] inline uint32_t temper(uint32_t y) {
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680u;
  y ^= (y << 15) & 0xefc60000u;
  return y ^ (y >> 18);
}

}  // namespace rl
