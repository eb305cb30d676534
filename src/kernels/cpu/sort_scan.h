// The loops over a line's keys (sort_keys.h).
#pragma once
#include <cstdint>

#include "kernels/cpu/isa.h"

namespace rl::kernels {

// key ^ flip of each element.
RL_ISA_KERNEL(keys_of_int32, (const int32_t* values, int64_t n, uint32_t flip, uint32_t* keys))
RL_ISA_KERNEL(keys_of_int64, (const int64_t* values, int64_t n, uint64_t flip, uint64_t* keys))
RL_ISA_KERNEL(keys_of_float, (const float* values, int64_t n, uint32_t flip, uint32_t* keys))
RL_ISA_KERNEL(keys_of_double, (const double* values, int64_t n, uint64_t flip, uint64_t* keys))

// The places of the keys below a bound, in order; there is room for n.
RL_ISA_KERNEL(find_below_narrow,
              (const uint32_t* keys, int64_t n, uint32_t bound, int32_t* places, int64_t* count))
RL_ISA_KERNEL(find_below_wide,
              (const uint64_t* keys, int64_t n, uint64_t bound, int32_t* places, int64_t* count))

// Keys are dealt out to so many lanes in turn, and the least of each lane is kept. The k-th least
// of those is no less than the k-th least of all keys, and few others are.
inline constexpr int64_t minimum_lanes = 64;
RL_ISA_KERNEL(keep_minima_narrow, (const uint32_t* keys, int64_t n, uint32_t* minima))
RL_ISA_KERNEL(keep_minima_wide, (const uint64_t* keys, int64_t n, uint64_t* minima))
// The k-th least of them, k counting from 1.
RL_ISA_KERNEL(rank_minima_narrow, (const uint32_t* minima, int64_t k, uint32_t* least))
RL_ISA_KERNEL(rank_minima_wide, (const uint64_t* minima, int64_t k, uint64_t* least))

}  // namespace rl::kernels
