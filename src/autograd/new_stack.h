// A deeply nested backward pass, which one stack does not hold.
#pragma once
#include <functional>

#include "tensor/tensor.h"

namespace rl {

// Calls f on a thread of its own, which has the state of this one; waits for it.
TensorList on_new_stack(const std::function<TensorList()>& f);

}  // namespace rl
