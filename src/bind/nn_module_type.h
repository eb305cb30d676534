// The native base of nn.Module.
#pragma once
#include "bind/python.h"

namespace rl::bind {

void init_nn_module_type(PyObject* module);

}  // namespace rl::bind
