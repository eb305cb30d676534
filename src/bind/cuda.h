// rushlight._C._cuda: what python/rushlight/cuda stands on.
#pragma once
#include "bind/python.h"

namespace rl::bind {

void init_cuda(PyObject* module);

}  // namespace rl::bind
