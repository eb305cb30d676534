// What rows refuse by looking at elements, before all else.
#pragma once
#include "tensor/tensor.h"

namespace rl {

// Integers cannot be divided by 0; floats can, and mixed operands are floats by then.
void check_divisor(const char* op, const Tensor& input, const Tensor& other);

// A Python number among the operands must be one that an element of the result can be: 300 is no
// bound for bytes. Tensors wrap around instead, as in arithmetic.
void check_number(const char* op, const Tensor& number, const Tensor& other);

// The same of a 0-d tensor that stands for a number.
void check_element(const char* op, const Tensor& value, DType t);

}  // namespace rl
