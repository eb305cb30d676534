// UntypedStorage: the bytes that tensors share, as a Python object.
#pragma once
#include "bind/python.h"

namespace rl::bind {

PyObject* storage_object(PyObject* tensor);  // the same object while that lives
void init_storage_type(PyObject* module);

}  // namespace rl::bind
