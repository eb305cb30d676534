// Sparse tensors are Python objects (rushlight.sparse): a meta tensor that has the shape, dtype and
// history, with the indices and values as attributes. This is where the engine reaches them.
#pragma once
#include "bind/python.h"

namespace rl::bind {

void init_sparse(PyObject* module);

}  // namespace rl::bind
