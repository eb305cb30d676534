// _ModuleBase: what nn.Module derives from, for the two things programs do with modules most; and
// the loop of nn.Sequential.
//
// A call runs forward, or `_call_with_hooks` where there are hooks. Reading an attribute finds
// parameters, buffers and modules without the AttributeError that comes before a `__getattr__`
// written in Python: 60 ns in place of 600.
#include "bind/nn_module_type.h"

#include <optional>

#include "bind/convert.h"
#include "bind/profiler.h"
#include "bind/torch_function.h"
#include "bind/types.h"

namespace rl::bind {

namespace {

PyTypeObject* module_base = nullptr;
// What Python gave nn.Module, the first subclass: its __getattr__, and the slot that calls it.
PyObject* standard_getattr = nullptr;
getattrofunc slot_getattr = nullptr;

PyObject *n_forward, *n_getattr, *n_getattribute, *n_call_with_hooks, *n_init_subclass, *n_weight,
    *n_bias;
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
      if (!PyDict_GET_SIZE(members.get())) continue;
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

PyObject* call_unobserved(PyObject* self, PyObject* args, PyObject* kwargs) {
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

PyObject* call(PyObject* self, PyObject* args, PyObject* kwargs) {
  if (__builtin_expect(!(mode() & Observed), 1)) return call_unobserved(self, args, kwargs);
  return guarded([&] {
    ModuleScope scope(self);
    return call_unobserved(self, args, kwargs);
  });
}

// ---- modules one after the other -------------------------------------------------------------

bool is_called_as_module(PyObject* o) { return Py_TYPE(o)->tp_call == call; }

// What a table of fused calls has for a callable, if anything: a module goes by the forward that
// its class itself has, so that a subclass is not known; other objects by themselves.
Found find_fused(PyObject* table, PyObject* callable) {
  if (!is_called_as_module(callable)) return find(table, callable);
  Found forward = find(Py_TYPE(callable)->tp_dict, n_forward);
  return forward ? find(table, forward.get()) : Found(nullptr);
}

// Would a call run that forward and nothing else?
bool runs_forward_alone(PyObject* callable) {
  if (!is_called_as_module(callable)) return true;
  Found dict = dict_of(callable);
  return dict && plain_forward(callable, dict.get()) && hooks_of(dict.get()) == Hooks::None;
}

// What both calls give, or null: where no function of the table does the work of both, where
// somebody could tell the difference, and where there is an error, for one of the two to report.
Object call_fused(PyObject* first, PyObject* second, PyObject* seconds, PyObject* input) {
  constexpr uint32_t harmless =
      NoGrad | Inference | InBackward | FunctionMode | VolatileExists | Observed | ProfiledMemory;
  Found function = find_fused(seconds, second);
  if (!function || mode() & ~harmless || !is_exact_tensor(input) || !runs_forward_alone(first) ||
      !runs_forward_alone(second) || !function_modes_only_observe())
    return {};
  Object weight(PyObject_GetAttr(first, n_weight)),
      bias(weight ? PyObject_GetAttr(first, n_bias) : nullptr), result;
  auto plain = [](PyObject* o) { return o == Py_None || is_exact_tensor(o); };
  if (bias) {
    if (!plain(weight.get()) || !plain(bias.get())) return {};
    PyObject* stack[] = {input, weight.get(), bias.get(), second};
    std::optional<ModuleScope> scope;  // the two go by the path of the first
    if (mode() & Observed) scope.emplace(first);
    result = Object(PyObject_Vectorcall(function.get(), stack, 4, nullptr));
  }
  if (!result && !PyErr_ExceptionMatches(PyExc_Exception)) throw PythonError{};
  if (!result) PyErr_Clear();
  return result.get() == Py_NotImplemented ? Object() : std::move(result);
}

// _call_in_turn(fused, callables, input): each callable with the output of the one before. `fused`
// is {first: {second: function}}, `first` being of modules with weight and bias; the functions take
// the input, these two and the second callable, and may return NotImplemented.
PyObject* call_in_turn(PyObject*, PyObject* const* args, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    check(count == 3, "_call_in_turn: expected 3 arguments but got ", count);
    Object all = checked(PyObject_GetIter(args[1])), value = Object::share(args[2]);
    Object current(PyIter_Next(all.get())), next;
    for (; current; current = next ? std::move(next) : Object(PyIter_Next(all.get()))) {
      Object result;
      if (Found seconds = find_fused(args[0], current.get())) {
        next = Object(PyIter_Next(all.get()));
        if (!next && PyErr_Occurred()) return nullptr;
        if (next) result = call_fused(current.get(), next.get(), seconds.get(), value.get());
        if (result) next = Object();
      }
      if (!result) result = checked(PyObject_CallOneArg(current.get(), value.get()));
      value = std::move(result);
    }
    return PyErr_Occurred() ? nullptr : value.release();
  });
}

// Gives a class the quick way to its members, unless it has a way of its own.
void quicken(PyTypeObject* type) {
  Found getattr = find_in_type(type, n_getattr);
  if (!getattr || getattr.get() != standard_getattr || type->tp_getattro != slot_getattr) return;
  Found plain = find_in_type(&PyBaseObject_Type, n_getattribute);
  if (find_in_type(type, n_getattribute).get() == plain.get()) type->tp_getattro = get_attribute;
}

// For a class and those derived of it, whose __getattr__ was another for a while: Python then gave
// them the usual way.
PyObject* quicken_all(PyObject* cls, PyObject*) {
  return guarded([&]() -> PyObject* {
    auto* type = reinterpret_cast<PyTypeObject*>(cls);
    quicken(type);
    Object derived = checked(
        PyObject_CallMethod(reinterpret_cast<PyObject*>(&PyType_Type), "__subclasses__", "O", cls));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(derived.get()); ++i)
      checked(quicken_all(PyList_GET_ITEM(derived.get(), i), nullptr));
    Py_RETURN_NONE;
  });
}

PyObject* init_subclass(PyObject* cls, PyObject* args, PyObject* kwargs) {
  auto* type = reinterpret_cast<PyTypeObject*>(cls);
  Object next(PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(&PySuper_Type), module_base,
                                           cls, nullptr));
  Object method(next ? PyObject_GetAttr(next.get(), n_init_subclass) : nullptr);
  Object done(method ? PyObject_Call(method.get(), args, kwargs) : nullptr);
  if (!done) return nullptr;
  if (!standard_getattr) {  // nn.Module itself
    slot_getattr = type->tp_getattro;
    standard_getattr = find_in_type(type, n_getattr).release();
  }
  quicken(type);
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"__init_subclass__",
     reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(init_subclass)),
     METH_CLASS | METH_VARARGS | METH_KEYWORDS, nullptr},
    {"_quicken", quicken_all, METH_CLASS | METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};
PyMethodDef functions[] = {
    {"_call_in_turn", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call_in_turn)),
     METH_FASTCALL, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void init_nn_module_type(PyObject* module) {
  n_forward = intern("forward");
  n_getattr = intern("__getattr__");
  n_getattribute = intern("__getattribute__");
  n_call_with_hooks = intern("_call_with_hooks");
  n_init_subclass = intern("__init_subclass__");
  n_weight = intern("weight");
  n_bias = intern("bias");
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
  checked(PyModule_AddFunctions(module, functions));
}

}  // namespace rl::bind
