// layout and memory_format: a few named values each.
#include "bind/convert.h"
#include "bind/types.h"
#include "tensor/sparse.h"

namespace rl::bind {

namespace {

struct PyNamed {
  PyObject_HEAD const char* name;
  int value;
};

PyTypeObject* layout_type = nullptr;
PyTypeObject* memory_format_type = nullptr;
constexpr int layout_count = 6;
PyObject* layouts[layout_count];

PyObject* repr(PyObject* self) {
  return PyUnicode_FromFormat("torch.%s", reinterpret_cast<PyNamed*>(self)->name);
}
PyObject* reduce(PyObject* self, PyObject*) {
  return PyUnicode_FromString(reinterpret_cast<PyNamed*>(self)->name);
}
PyMethodDef methods[] = {{"__reduce__", reduce, METH_NOARGS, nullptr},
                         {nullptr, nullptr, 0, nullptr}};

PyTypeObject* make_named_type(PyObject* module, const char* name) {
  PyType_Slot slots[] = {
      {Py_tp_repr, reinterpret_cast<void*>(repr)}, {Py_tp_methods, methods}, {0, nullptr}};
  return make_type(module, name, sizeof(PyNamed),
                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots);
}

PyObject* add_named(PyObject* module, PyTypeObject* type, const char* name, int value) {
  auto* o = PyObject_New(PyNamed, type);
  if (!o) throw PythonError{};
  o->name = name;
  o->value = value;
  checked(PyModule_AddObjectRef(module, name, reinterpret_cast<PyObject*>(o)));
  return reinterpret_cast<PyObject*>(o);
}

}  // namespace

bool is_layout(PyObject* o) { return Py_TYPE(o) == layout_type; }
PyObject* strided_layout() { return layouts[0]; }
PyObject* wrap(Layout layout) { return Object::share(layouts[static_cast<int>(layout)]).release(); }
Layout to_layout(PyObject* o) {
  check_type(is_layout(o), "layout must be a torch.layout, not ", type_name(o));
  return static_cast<Layout>(reinterpret_cast<PyNamed*>(o)->value);
}
bool is_memory_format(PyObject* o) { return Py_TYPE(o) == memory_format_type; }
MemoryFormat to_memory_format(PyObject* o) {
  check_type(is_memory_format(o), "memory_format must be a torch.memory_format, not ",
             type_name(o));
  return static_cast<MemoryFormat>(reinterpret_cast<PyNamed*>(o)->value);
}

void init_formats(PyObject* module) {
  layout_type = make_named_type(module, "rushlight.layout");
  for (int i = 0; i < layout_count; ++i)
    layouts[i] = add_named(module, layout_type, name(static_cast<Layout>(i)), i);
  memory_format_type = make_named_type(module, "rushlight.memory_format");
  const char* names[] = {"contiguous_format", "preserve_format", "channels_last",
                         "channels_last_3d"};
  for (int i = 0; i < 4; ++i) Py_DECREF(add_named(module, memory_format_type, names[i], i));
}

}  // namespace rl::bind
