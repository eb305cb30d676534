// rushlight._C._cuda: what python/rushlight/cuda stands on.
#pragma once
#include "bind/python.h"
#include "tensor/tensor.h"

namespace rl::bind {

void init_cuda(PyObject* module);

// A copy in page-locked memory, with the same strides where they are dense; a leaf, if need be.
// `who` asks for it.
Tensor pinned(const char* who, const Tensor& t);

}  // namespace rl::bind
