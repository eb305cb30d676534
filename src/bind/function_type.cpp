#include "bind/function_type.h"

#include <cstddef>
#include <cstring>
#include <string>

#include "bind/convert.h"

namespace rl::bind {

namespace {

struct PyFunction {
  PyObject_HEAD vectorcallfunc vectorcall;
  FastFunction call;
  const char* text;  // the signature and the documentation behind it
  PyObject *name, *qualified_name, *module, *doc, *attributes, *weakrefs;
};
PyFunction* of(PyObject* self) { return reinterpret_cast<PyFunction*>(self); }

constexpr char end_of_signature[] = ")\n--\n\n";

PyObject* call(PyObject* self, PyObject* const* args, size_t count, PyObject* names) {
  return of(self)->call(nullptr, args, PyVectorcall_NARGS(count), names);
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  PyFunction* f = of(self);
  for (PyObject* held : {f->name, f->qualified_name, f->module, f->doc, f->attributes})
    Py_VISIT(held);
  return 0;
}

int clear(PyObject* self) {
  PyFunction* f = of(self);
  Py_CLEAR(f->name);
  Py_CLEAR(f->qualified_name);
  Py_CLEAR(f->module);
  Py_CLEAR(f->doc);
  Py_CLEAR(f->attributes);
  return 0;
}

void destroy(PyObject* self) {
  PyObject_GC_UnTrack(self);
  if (of(self)->weakrefs) PyObject_ClearWeakRefs(self);
  clear(self);
  PyObject_GC_Del(self);
}

PyObject* represent(PyObject* self) {
  return PyUnicode_FromFormat("<function %S at %p>", of(self)->qualified_name, self);
}

// As of a builtin: it does not become a method where a class has it as an attribute.
PyObject* get_from_class(PyObject* self, PyObject*, PyObject*) { return Py_NewRef(self); }

// It pickles by its module and name.
PyObject* reduce(PyObject* self, PyObject*) { return Py_XNewRef(of(self)->qualified_name); }

PyObject* get_text_signature(PyObject* self, void*) {
  const char* text = of(self)->text;
  const char *begin = std::strchr(text, '('), *end = std::strstr(text, end_of_signature);
  if (!begin || !end) Py_RETURN_NONE;
  return PyUnicode_FromStringAndSize(begin, end - begin + 1);
}

PyMemberDef members[] = {
    {"__name__", T_OBJECT, offsetof(PyFunction, name), 0, nullptr},
    {"__qualname__", T_OBJECT, offsetof(PyFunction, qualified_name), 0, nullptr},
    {"__module__", T_OBJECT, offsetof(PyFunction, module), 0, nullptr},
    {"__doc__", T_OBJECT, offsetof(PyFunction, doc), 0, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};
PyGetSetDef attributes[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {"__text_signature__", get_text_signature, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyMethodDef methods[] = {
    {"__reduce__", reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyTypeObject function_type;

}  // namespace

PyObject* make_function(const char* name, const char* module, FastFunction function,
                        const char* text) {
  Object made = checked(PyType_GenericAlloc(&function_type, 0));
  PyFunction* f = of(made.get());
  f->vectorcall = call;
  f->call = function;
  f->text = text;
  f->name = checked(PyUnicode_InternFromString(name)).release();
  f->qualified_name = Py_NewRef(f->name);
  f->module = checked(PyUnicode_InternFromString(module)).release();
  const char* end = std::strstr(text, end_of_signature);
  f->doc =
      checked(PyUnicode_FromString(end ? end + std::strlen(end_of_signature) : text)).release();
  return made.release();
}

void init_function_type(PyObject* module) {
  Py_SET_REFCNT(&function_type, 1);  // it lives as long as the process
  function_type.tp_name = "rushlight._C.function";
  function_type.tp_doc = "A function of the table that takes attributes.";
  function_type.tp_basicsize = sizeof(PyFunction);
  function_type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                           Py_TPFLAGS_DISALLOW_INSTANTIATION;
  function_type.tp_vectorcall_offset = offsetof(PyFunction, vectorcall);
  function_type.tp_dictoffset = offsetof(PyFunction, attributes);
  function_type.tp_weaklistoffset = offsetof(PyFunction, weakrefs);
  function_type.tp_call = PyVectorcall_Call;
  function_type.tp_traverse = traverse;
  function_type.tp_clear = clear;
  function_type.tp_dealloc = destroy;
  function_type.tp_repr = represent;
  function_type.tp_descr_get = get_from_class;
  function_type.tp_members = members;
  function_type.tp_getset = attributes;
  function_type.tp_methods = methods;
  checked(PyType_Ready(&function_type));
  checked(PyModule_AddObjectRef(module, "function", reinterpret_cast<PyObject*>(&function_type)));
}

}  // namespace rl::bind
