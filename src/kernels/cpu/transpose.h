// The transposition of a matrix, in squares of vectors.
#pragma once
#include <cstdint>

#include "kernels/cpu/isa.h"

namespace rl::kernels {

// Element (c, r) of `to` is element (r, c) of `from`, for r < rows and c < columns. Elements have
// `size` bytes (a power of two up to 64); all steps are in bytes. Fast where both are dense, `from`
// along its rows and `to` along its own. `streamed` results pass by the caches
// (kernels/cpu/stream.h).
RL_ISA_KERNEL(transpose,
              (int64_t size, const char* from, int64_t from_row, int64_t from_column, char* to,
               int64_t to_row, int64_t to_column, int64_t rows, int64_t columns, bool streamed))

// to[c * to_step + r] = from[r * from_step + c]
inline void transpose_floats(const float* from, int64_t from_step, float* to, int64_t to_step,
                             int64_t rows, int64_t columns) {
  transpose(4, reinterpret_cast<const char*>(from), from_step * 4, 4, reinterpret_cast<char*>(to),
            to_step * 4, 4, rows, columns, false);
}

}  // namespace rl::kernels
