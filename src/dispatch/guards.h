// What rows refuse by looking at elements, before all else.
#pragma once
#include "tensor/tensor.h"

namespace rl {

// Integers cannot be divided by 0; floats can, and mixed operands are floats by then.
void check_divisor(const char* op, const Tensor& input, const Tensor& other);

}  // namespace rl
