// The update rules of optimizers, a strip of elements at a time.
#pragma once
#include "kernels/cpu/isa.h"
#include "kernels/optim.h"
#include "kernels/optim_rule.h"

namespace rl::kernels {

// On n contiguous elements of float or double.
RL_ISA_KERNEL(optim_strip,
              (OptimRule rule, DType dtype, int64_t n, void* const* arrays, const double* numbers))

}  // namespace rl::kernels
