// The typed inner loops of max_with_index and min_with_index.
#pragma once
#include "core/view.h"
#include "kernels/cpu/isa.h"

namespace rl::kernels {

// Folds n >= 1 rows of `width` columns, of which the first has index `first`, into the best values
// and their indices so far (index -1: none yet). Elements: float32, float64 or int64. With
// width 1 rows are contiguous. n is less than 2^31.
RL_ISA_KERNEL(arg_tile, (bool largest, DType element, const void* x, int64_t n, int64_t row_stride,
                         int64_t width, int64_t first, void* values, int64_t* indices))

}  // namespace rl::kernels
