// Functions of the table that take attributes, as functions written in Python do: torch has those
// of nn.functional in Python, and programs keep their own marks on them.
#pragma once
#include "bind/registry.h"

namespace rl::bind {

void init_function_type(PyObject* module);

// `doc` as Registry has it; all three strings must outlive the module.
PyObject* make_function(const char* name, const char* module, FastFunction call, const char* doc);

}  // namespace rl::bind
