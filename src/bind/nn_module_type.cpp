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
Imported global_hooks[] = {{"rushlight.nn.modules._hooks", "_global_forward_hooks"},
                           {"rushlight.nn.modules._hooks", "_global_forward_pre_hooks"},
                           {"rushlight.nn.modules._hooks", "_global_backward_hooks"},
                           {"rushlight.nn.modules._hooks", "_global_backward_pre_hooks"}};  // dicts

PyObject* intern(const char* text) { return checked(PyUnicode_InternFromString(text)).release(); }

bool is_plain_dict(PyObject* o) { return o && (PyDict_CheckExact(o) || PyODict_CheckExact(o)); }

PyObject* get_attribute(PyObject* self, PyObject* name) {
  if (find_in_type(Py_TYPE(self), name)) return slot_getattr(self, name);
  if (Found dict = dict_of(self)) {
    if (Found value = find(dict.get(), name)) return value.release();
    for (PyObject* kind : member_kinds) {
      Found members = find(dict.get(), kind);
      if (!is_plain_dict(members.get())) break;
      if (Found value = find(members.get(), name)) return value.release();
    }
  }
  return slot_getattr(self, name);
}

enum class Hooks { None, Some, NotMade };

Hooks hooks_of(PyObject* dict) {
  Py_ssize_t count = 0;
  for (Imported& hooks : global_hooks) count += PyDict_GET_SIZE(hooks.get());
  for (PyObject* kind : hook_kinds) {
    Found hooks = find(dict, kind);
    if (!hooks) return Hooks::NotMade;
    count += is_plain_dict(hooks.get()) ? PyDict_GET_SIZE(hooks.get()) : 1;
  }
  return count ? Hooks::Some : Hooks::None;
}

// forward of a class, with nothing in between that could replace it on the way; or null.
Object plain_forward(PyObject* self, PyObject* dict) {
  if (Py_TYPE(self)->tp_getattro != get_attribute || find(dict, n_forward)) return {};
  Found forward = find_in_type(Py_TYPE(self), n_forward);
  return Object(forward && PyFunction_Check(forward.get()) ? forward.release() : nullptr);
}

PyObject* call_forward(PyObject* self, PyObject* dict, PyObject* args, PyObject* kwargs) {
  constexpr Py_ssize_t most = 8;
  Py_ssize_t count = PyTuple_GET_SIZE(args);
  Object function = count < most ? plain_forward(self, dict) : Object();
  if (!function) {
    Object forward(PyObject_GetAttr(self, n_forward));
    return forward ? PyObject_Call(forward.get(), args, kwargs) : nullptr;
  }
  PyObject* stack[most] = {self};
  for (Py_ssize_t i = 0; i < count; ++i) stack[i + 1] = PyTuple_GET_ITEM(args, i);
  return PyObject_VectorcallDict(function.get(), stack, static_cast<size_t>(count + 1), kwargs);
}

// An error on its way out learns which module it passed: see _note_module.
void note_module(PyObject* self) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  static Imported note("rushlight.nn.modules.module", "_note_module");
  Object done(PyObject_CallFunctionObjArgs(note.get(), value, self, nullptr));
  if (!done) PyErr_Clear();  // the error under way is the one to report
  PyErr_Restore(type, value, traceback);
}

PyObject* call(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    Found dict = dict_of(self);
    Hooks hooks = dict ? hooks_of(dict.get()) : Hooks::NotMade;
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
      result = call_forward(self, dict.get(), args, kwargs);
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
  Found getattr = find_in_type(type, n_getattr);
  if (!standard_getattr) {  // nn.Module itself
    slot_getattr = type->tp_getattro;
    standard_getattr = Py_XNewRef(getattr.get());
  }
  if (getattr && getattr.get() == standard_getattr && type->tp_getattro == slot_getattr) {
    Found plain = find_in_type(&PyBaseObject_Type, n_getattribute);
    if (find_in_type(type, n_getattribute).get() == plain.get()) type->tp_getattro = get_attribute;
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
