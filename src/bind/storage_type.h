// UntypedStorage: the bytes that tensors share, as a Python object.
#pragma once
#include "bind/python.h"
#include "core/storage.h"
#include "tensor/tensor.h"

namespace rl::bind {

Storage& checked_storage(PyObject* storage);                 // an UntypedStorage's
PyObject* wrap(Ref<Storage> storage);                        // one that no Python object stands for
PyObject* storage_object(PyObject* tensor);                  // the same object while that lives
bool is_storage(PyObject* o);                                // an UntypedStorage?
Tensor elements_of_storage(PyObject* storage, DType dtype);  // a tensor on its memory
void init_storage_type(PyObject* module);

}  // namespace rl::bind
