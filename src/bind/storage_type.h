// UntypedStorage: the bytes that tensors share, as a Python object.
#pragma once
#include "bind/python.h"
#include "core/storage.h"

namespace rl::bind {

Storage& checked_storage(PyObject* storage);  // an UntypedStorage's
PyObject* wrap(Ref<Storage> storage);         // one that no Python object stands for
PyObject* storage_object(PyObject* tensor);   // the same object while that lives
void init_storage_type(PyObject* module);

}  // namespace rl::bind
