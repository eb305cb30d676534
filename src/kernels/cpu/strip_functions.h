// What strip formulas are made of beside the loops of the table.
#pragma once
#include "core/scalar.h"
#include "kernels/cpu/isa.h"

namespace rl::kernels {

// See affine_strip().
RL_ISA_KERNEL(affine_floats, (int64_t n, void* const* operands, const Scalar* numbers))
// Past the caches: `to` is aligned to 64 bytes.
RL_ISA_KERNEL(stream_floats, (const float* from, float* to, int64_t n))

}  // namespace rl::kernels
