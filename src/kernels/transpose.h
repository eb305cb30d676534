// The transposition of a matrix of 4-byte elements, in squares of vectors.
#pragma once
#include <cstdint>

#include "kernels/isa.h"

namespace rl::kernels {

// to[c * to_step + r] = from[r * from_step + c] for r < rows and c < columns.
RL_ISA_KERNEL(transpose_32, (const float* from, int64_t from_step, float* to, int64_t to_step,
                             int64_t rows, int64_t columns))

}  // namespace rl::kernels
