#include <cstring>

#include "bind/convert.h"
#include "bind/types.h"

namespace rl::bind {

PyTypeObject* dtype_type = nullptr;
PyObject* dtype_objects[dtype_count];

namespace {

DType value_of(PyObject* self) { return reinterpret_cast<PyDType*>(self)->value; }

PyObject* repr(PyObject* self) { return PyUnicode_FromFormat("torch.%s", name(value_of(self))); }

PyObject* is_floating_point(PyObject* self, void*) { return wrap(rl::is_floating(value_of(self))); }
PyObject* is_complex_type(PyObject* self, void*) { return wrap(rl::is_complex(value_of(self))); }
PyObject* is_signed(PyObject* self, void*) {
  return wrap(value_of(self) != DType::Bool && value_of(self) != DType::UInt8);
}
PyObject* get_itemsize(PyObject* self, void*) { return wrap(rl::itemsize(value_of(self))); }
PyObject* to_real_type(PyObject* self, PyObject*) {
  return guarded([&] { return wrap(to_real(value_of(self))); });
}
PyObject* to_complex_type(PyObject* self, PyObject*) {
  return guarded([&] {
    DType t = value_of(self);
    check(is_differentiable(t), "to_complex: there is no complex type for ", t);
    return wrap(to_complex(t));
  });
}
// Pickles as the attribute of the module: rushlight.float32.
PyObject* reduce(PyObject* self, PyObject*) { return PyUnicode_FromString(name(value_of(self))); }

PyGetSetDef attributes[] = {
    {"is_floating_point", is_floating_point, nullptr, "Whether it is a floating point type.",
     nullptr},
    {"is_complex", is_complex_type, nullptr, "Whether it is a complex type.", nullptr},
    {"is_signed", is_signed, nullptr, "Whether it has negative numbers.", nullptr},
    {"itemsize", get_itemsize, nullptr, "Bytes per element.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMethodDef methods[] = {
    {"to_real", to_real_type, METH_NOARGS, "The type of the real part."},
    {"to_complex", to_complex_type, METH_NOARGS, "The complex type whose parts have this type."},
    {"__reduce__", reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

PyTypeObject* make_type(PyObject* module, const char* qualified, int basicsize, unsigned flags,
                        PyType_Slot* slots, PyTypeObject* base) {
  PyType_Spec spec = {qualified, basicsize, 0, flags, slots};
  Object bases;
  if (base) bases = checked(PyTuple_Pack(1, reinterpret_cast<PyObject*>(base)));
  Object type = checked(PyType_FromSpecWithBases(&spec, bases.get()));
  if (module) checked(PyModule_AddObjectRef(module, std::strrchr(qualified, '.') + 1, type.get()));
  return reinterpret_cast<PyTypeObject*>(type.release());
}

bool is_dtype_like(PyObject* o) {
  return is_dtype(o) || o == reinterpret_cast<PyObject*>(&PyFloat_Type) ||
         o == reinterpret_cast<PyObject*>(&PyLong_Type) ||
         o == reinterpret_cast<PyObject*>(&PyBool_Type) ||
         o == reinterpret_cast<PyObject*>(&PyComplex_Type);
}

DType to_dtype(PyObject* o) {
  if (is_dtype(o)) return value_of(o);
  if (o == reinterpret_cast<PyObject*>(&PyFloat_Type)) return DType::Float64;
  if (o == reinterpret_cast<PyObject*>(&PyLong_Type)) return DType::Int64;
  if (o == reinterpret_cast<PyObject*>(&PyBool_Type)) return DType::Bool;
  check_type(o == reinterpret_cast<PyObject*>(&PyComplex_Type), "dtype must be a torch.dtype, not ",
             type_name(o));
  return DType::Complex128;
}

PyObject* wrap(DType t) { return Object::share(dtype_objects[static_cast<int>(t)]).release(); }

void init_dtype(PyObject* module) {
  PyType_Slot slots[] = {{Py_tp_repr, reinterpret_cast<void*>(repr)},
                         {Py_tp_getset, attributes},
                         {Py_tp_methods, methods},
                         {0, nullptr}};
  dtype_type = make_type(module, "rushlight.dtype", sizeof(PyDType),
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots);
  for (int i = 0; i < dtype_count; ++i) {
    auto* o = PyObject_New(PyDType, dtype_type);
    if (!o) throw PythonError{};
    o->value = static_cast<DType>(i);
    dtype_objects[i] = reinterpret_cast<PyObject*>(o);
    checked(PyModule_AddObjectRef(module, dtype_infos[i].name, dtype_objects[i]));
    if (dtype_infos[i].alias)
      checked(PyModule_AddObjectRef(module, dtype_infos[i].alias, dtype_objects[i]));
  }
}

}  // namespace rl::bind
