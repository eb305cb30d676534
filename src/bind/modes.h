// Grad mode, inference mode, default dtype, threads, memory statistics.
#pragma once
#include "bind/python.h"

namespace rl::bind {
void init_modes(PyObject* module, PyObject* rushlight);  // `rushlight`: the dict of its functions
}
