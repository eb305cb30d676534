// _ModuleBase: what nn.Module derives from, for the two things programs do with modules most.
//
// A call runs forward, or `_call_with_hooks` where there are hooks. Reading an attribute finds
// parameters, buffers and modules without the AttributeError that comes before a `__getattr__`
// written in Python: 60 ns in place of 600.
#include "bind/nn_module_type.h"

#include "bind/convert.h"
#include "bind/types.h"

namespace rl::bind {

namespace {

PyTypeObject* module_base = nullptr;
// What Python gave nn.Module, the first subclass: its __getattr__, and the slot that calls it.
PyObject* standard_getattr = nullptr;
getattrofunc slot_getattr = nullptr;

PyObject *n_forward, *n_getattr, *n_getattribute, *n_call_with_hooks, *n_init_subclass;
PyObject* member_kinds[3];
PyObject* hook_kinds[4];
PyObject* global_hooks[4];  // dicts

PyObject* intern(const char* text) { return checked(PyUnicode_InternFromString(text)).release(); }

PyObject* dict_of(PyObject* self) {
  PyObject** dict = _PyObject_GetDictPtr(self);
  return dict ? *dict : nullptr;
}

bool is_plain_dict(PyObject* o) { return o && (PyDict_CheckExact(o) || PyODict_CheckExact(o)); }

// Borrowed; no error is set where nothing is found.
PyObject* find(PyObject* dict, PyObject* name) {
  PyObject* value = PyDict_GetItemWithError(dict, name);
  if (!value && PyErr_Occurred()) PyErr_Clear();  // the slow way meets the error again
  return value;
}

PyObject* get_attribute(PyObject* self, PyObject* name) {
  if (_PyType_Lookup(Py_TYPE(self), name)) return slot_getattr(self, name);
  if (PyObject* dict = dict_of(self)) {
    if (PyObject* value = find(dict, name)) return Py_NewRef(value);
    for (PyObject* kind : member_kinds) {
      PyObject* members = find(dict, kind);
      if (!is_plain_dict(members)) break;
      if (PyObject* value = find(members, name)) return Py_NewRef(value);
    }
  }
  return slot_getattr(self, name);
}

enum class Hooks { None, Some, NotMade };

Hooks hooks_of(PyObject* dict) {
  Py_ssize_t count = 0;
  for (PyObject* hooks : global_hooks) count += PyDict_GET_SIZE(hooks);
  for (PyObject* kind : hook_kinds) {
    PyObject* hooks = find(dict, kind);
    if (!hooks) return Hooks::NotMade;
    count += is_plain_dict(hooks) ? PyDict_GET_SIZE(hooks) : 1;
  }
  return count ? Hooks::Some : Hooks::None;
}

// forward of a class, with nothing in between that could replace it on the way; or null. Borrowed.
PyObject* plain_forward(PyObject* self, PyObject* dict) {
  if (Py_TYPE(self)->tp_getattro != get_attribute || find(dict, n_forward)) return nullptr;
  PyObject* forward = _PyType_Lookup(Py_TYPE(self), n_forward);
  return forward && PyFunction_Check(forward) ? forward : nullptr;
}

PyObject* call_forward(PyObject* self, PyObject* dict, PyObject* args, PyObject* kwargs) {
  constexpr Py_ssize_t most = 8;
  Py_ssize_t count = PyTuple_GET_SIZE(args);
  PyObject* function = count < most ? plain_forward(self, dict) : nullptr;
  if (!function) {
    Object forward(PyObject_GetAttr(self, n_forward));
    return forward ? PyObject_Call(forward.get(), args, kwargs) : nullptr;
  }
  Object keep = Object::share(function);
  PyObject* stack[most] = {self};
  for (Py_ssize_t i = 0; i < count; ++i) stack[i + 1] = PyTuple_GET_ITEM(args, i);
  return PyObject_VectorcallDict(function, stack, static_cast<size_t>(count + 1), kwargs);
}

// An error on its way out learns which module it passed: see _note_module.
void note_module(PyObject* self) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  static PyObject* note = import_attribute("rushlight.nn.modules.module", "_note_module").release();
  Object done(PyObject_CallFunctionObjArgs(note, value, self, nullptr));
  if (!done) PyErr_Clear();  // the error under way is the one to report
  PyErr_Restore(type, value, traceback);
}

void find_global_hooks() {
  const char* names[] = {"_global_forward_hooks", "_global_forward_pre_hooks",
                         "_global_backward_hooks", "_global_backward_pre_hooks"};
  for (int i = 0; i < 4; ++i)
    global_hooks[i] = import_attribute("rushlight.nn.modules._hooks", names[i]).release();
}

PyObject* call(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    if (!global_hooks[3]) find_global_hooks();
    PyObject* dict = dict_of(self);
    Hooks hooks = dict ? hooks_of(dict) : Hooks::NotMade;
    if (hooks == Hooks::NotMade) {
      PyErr_Format(PyExc_AttributeError, "%s: called before Module.__init__() was",
                   Py_TYPE(self)->tp_name);
      return nullptr;
    }
    PyObject* result;
    if (hooks == Hooks::Some) {
      PyObject* stack[] = {self, args, kwargs ? kwargs : checked(PyDict_New()).release()};
      result = PyObject_VectorcallMethod(n_call_with_hooks, stack, 3, nullptr);
      if (!kwargs) Py_DECREF(stack[2]);
    } else {
      result = call_forward(self, dict, args, kwargs);
    }
    if (!result && PyErr_ExceptionMatches(PyExc_Exception)) note_module(self);
    return result;
  });
}

// Gives a subclass the quick way to its members, unless it has a way of its own.
PyObject* init_subclass(PyObject* cls, PyObject* args, PyObject* kwargs) {
  auto* type = reinterpret_cast<PyTypeObject*>(cls);
  Object next(PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(&PySuper_Type), module_base,
                                           cls, nullptr));
  Object method(next ? PyObject_GetAttr(next.get(), n_init_subclass) : nullptr);
  Object done(method ? PyObject_Call(method.get(), args, kwargs) : nullptr);
  if (!done) return nullptr;
  PyObject* getattr = _PyType_Lookup(type, n_getattr);
  if (!standard_getattr) {
    standard_getattr = Py_XNewRef(getattr);
    slot_getattr = type->tp_getattro;
  }
  if (getattr && getattr == standard_getattr && type->tp_getattro == slot_getattr) {
    PyObject* plain = _PyType_Lookup(&PyBaseObject_Type, n_getattribute);
    if (_PyType_Lookup(type, n_getattribute) == plain) type->tp_getattro = get_attribute;
  }
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"__init_subclass__",
     reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(init_subclass)),
     METH_CLASS | METH_VARARGS | METH_KEYWORDS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void init_nn_module_type(PyObject* module) {
  n_forward = intern("forward");
  n_getattr = intern("__getattr__");
  n_getattribute = intern("__getattribute__");
  n_call_with_hooks = intern("_call_with_hooks");
  n_init_subclass = intern("__init_subclass__");
  const char* members[] = {"_parameters", "_buffers", "_modules"};
  const char* hooks[] = {"_forward_hooks", "_forward_pre_hooks", "_backward_hooks",
                         "_backward_pre_hooks"};
  for (int i = 0; i < 3; ++i) member_kinds[i] = intern(members[i]);
  for (int i = 0; i < 4; ++i) hook_kinds[i] = intern(hooks[i]);
  PyType_Slot slots[] = {
      {Py_tp_call, reinterpret_cast<void*>(call)}, {Py_tp_methods, methods}, {0, nullptr}};
  // No fields of its own, so that a module can derive from another built-in type as well.
  module_base = make_type(module, "rushlight._ModuleBase", 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots);
}

}  // namespace rl::bind
