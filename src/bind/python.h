// The Python side of a Tensor, and how values and errors cross the border.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <frameobject.h>  // Python.h has it from 3.11 on

#include "core/memory_format.h"
#include "tensor/tensor.h"

namespace rl {
class Generator;
}

namespace rl::bind {

struct PyTensor {
  PyObject_HEAD TensorImpl* impl;  // owns a count
  PyObject* dict;
  PyObject* weakrefs;
};

extern PyTypeObject* tensor_type;     // rushlight.Tensor
extern PyTypeObject* parameter_type;  // rushlight.nn.Parameter, once it is defined

inline bool is_exact_tensor(PyObject* o) {
  return Py_TYPE(o) == tensor_type || Py_TYPE(o) == parameter_type;
}
inline bool is_tensor(PyObject* o) {
  return is_exact_tensor(o) || PyObject_TypeCheck(o, tensor_type);
}
inline const Tensor& tensor_of(PyObject* o);

// New reference. The same impl always gives the same object while that lives.
PyObject* wrap(Tensor t);
PyObject* wrap(const TensorList& list);  // a tuple
PyObject* wrap(bool v);
PyObject* wrap(int64_t v);
PyObject* wrap(double v);
PyObject* wrap(const Scalar& v);
PyObject* wrap(const Dims& v);  // a Size
PyObject* wrap(DType t);
PyObject* wrap(Device d);
// A torch.return_types tuple; `type` is made by make_return_type.
PyObject* wrap_named(PyTypeObject* type, std::initializer_list<Tensor> values);
PyTypeObject* make_return_type(const char* name, const char* const* fields, int count);

// An error is set and nullptr must be returned.
struct PythonError {};
void set_error_from_current_exception();  // inside a catch block

// Calls f and turns C++ exceptions into Python ones.
template <class F>
PyObject* guarded(F&& f) {
  try {
    return f();
  } catch (...) {
    set_error_from_current_exception();
    return nullptr;
  }
}

}  // namespace rl::bind

namespace rl::bind {
inline const Tensor& tensor_of(PyObject* o) {
  static_assert(sizeof(Tensor) == sizeof(TensorImpl*), "a Tensor is one pointer");
  return reinterpret_cast<const Tensor&>(reinterpret_cast<PyTensor*>(o)->impl);
}
}  // namespace rl::bind
