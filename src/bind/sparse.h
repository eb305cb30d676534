// Sparse tensors in Python: the class that their objects have, whose __torch_function__ finds the
// rule of each function, and what the rules in rushlight.sparse are made of.
#pragma once
#include "bind/object.h"

namespace rl::bind {

PyTypeObject* sparse_type();
void init_sparse(PyObject* module);

}  // namespace rl::bind
