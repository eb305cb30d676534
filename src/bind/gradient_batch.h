// How a backward pass takes many gradients at once.
#pragma once
#include <memory>

#include "autograd/gradient_batch.h"
#include "bind/object.h"

namespace rl::bind {

std::unique_ptr<GradientBatch> make_gradient_batch(int64_t size, bool records);
void init_gradient_batch(PyObject* module);

}  // namespace rl::bind
