#include "kernels/cpu/magnitude_bits.h"

namespace rl::kernels::RL_ISA {
namespace {

// Four at a time, so that no maximum waits for the one before it.
template <class U> void largest(const U* x, int64_t n, U* found) {
  constexpr U magnitude = static_cast<U>(~U(0)) >> 1;
  constexpr int64_t width = 256 / sizeof(U);
  U most[width] = {};
  int64_t i = 0;
  for (; i + width <= n; i += width)
    for (int64_t k = 0; k < width; ++k) {
      U bits = x[i + k] & magnitude;
      most[k] = bits > most[k] ? bits : most[k];
    }
  U result = *found;
  for (int64_t k = 0; k < width; ++k) result = most[k] > result ? most[k] : result;
  for (; i < n; ++i) {
    U bits = x[i] & magnitude;
    result = bits > result ? bits : result;
  }
  *found = result;
}

}  // namespace

void largest_bits_of_16(const uint16_t* x, int64_t n, uint16_t* found) { largest(x, n, found); }
void largest_bits_of_32(const uint32_t* x, int64_t n, uint32_t* found) { largest(x, n, found); }
void largest_bits_of_64(const uint64_t* x, int64_t n, uint64_t* found) { largest(x, n, found); }

}  // namespace rl::kernels::RL_ISA
