// The typed inner loop of running sums and products.
#pragma once
#include "core/view.h"
#include "kernels/isa.h"

namespace rl::kernels {

// y[i] = carry op x[0] op ... op x[i], and *carry becomes the last of them. Elements are float32,
// float64 or int64; the carry, in which is computed, is a double, or an int64_t that wraps. y may
// be x.
RL_ISA_KERNEL(scan_row,
              (bool product, DType element, const void* x, void* y, int64_t n, void* carry))

}  // namespace rl::kernels
