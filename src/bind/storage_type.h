// UntypedStorage: the bytes that tensors share, as a Python object.
#pragma once
#include "bind/python.h"

namespace rl::bind {

PyObject* wrap_storage(const Ref<Storage>& storage);  // the same object while that lives
void init_storage_type(PyObject* module);

}  // namespace rl::bind
