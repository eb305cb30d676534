// What rows share that overwrite a tensor with random numbers.
#pragma once
#include "autograd/node.h"
#include "tensor/tensor.h"

namespace rl {

// Errors where `t` cannot be changed in place; the node that what was in it before, which has no
// part in the numbers drawn, gets zeros from. Null where nothing is recorded.
Ref<Node> before_drawing(const Tensor& t, const char* op);
Tensor drawn(const Tensor& t, const Ref<Node>& node, const char* op);

}  // namespace rl
