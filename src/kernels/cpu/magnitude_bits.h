// The largest of floating-point numbers without their signs, as whole numbers: in that order NaN
// comes after infinity, and infinity after all others.
#pragma once
#include <cstdint>

#include "kernels/cpu/isa.h"

namespace rl::kernels {

RL_ISA_KERNEL(largest_bits_of_16, (const uint16_t* x, int64_t n, uint16_t* largest))
RL_ISA_KERNEL(largest_bits_of_32, (const uint32_t* x, int64_t n, uint32_t* largest))
RL_ISA_KERNEL(largest_bits_of_64, (const uint64_t* x, int64_t n, uint64_t* largest))

}  // namespace rl::kernels
