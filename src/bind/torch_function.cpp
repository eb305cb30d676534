#include "bind/torch_function.h"

#include <string_view>
#include <utility>

#include "autograd/watched_sum.h"
#include "bind/convert.h"
#include "bind/thread_stack.h"
#include "bind/volatile.h"

namespace rl::bind {

namespace {

PyObject* disabled_implementation = nullptr;
PyObject* protocol_name = nullptr;
PyObject* observes_only_name = nullptr;
PyObject* takes_dispatch_name = nullptr;
PyObject* is_of_core_name = nullptr;
PyObject* plain_attributes_name = nullptr;
PyObject* dispatch_of_class =
    nullptr;  // Python's; null as long as no class has a __torch_dispatch__

// The modes of this thread. Only asked for when one may be active.
ThreadStack modes("rushlight.function_modes");

void push(PyObject* m) {
  modes.push(m);
  mode() |= FunctionMode;
}

Object pop() {
  check(modes.pairs() != nullptr, "no __torch_function__ mode is active");
  Object last = modes.pop();
  if (!modes.pairs()) mode() &= ~FunctionMode;
  return last;
}

// Takes the innermost mode away for a scope, so that what it calls reaches the one outside it.
class OuterModes {
 public:
  OuterModes() : all_(Object::share(modes.pairs())), inner_(pop()) {}
  ~OuterModes() {
    modes.set(all_.get());
    mode() |= FunctionMode;
  }
  PyObject* inner() const { return inner_.get(); }

 private:
  Object all_, inner_;
};

bool is_plain_python(PyTypeObject* t) {
  return t == &PyLong_Type || t == &PyFloat_Type || t == &PyBool_Type || t == &PyUnicode_Type ||
         t == &PyTuple_Type || t == &PyList_Type || t == &PyDict_Type || t == Py_TYPE(Py_None) ||
         t == &PySlice_Type || t == &PyComplex_Type;
}

Object types_of(const Overriding& found) {
  Object types = checked(PyTuple_New(static_cast<Py_ssize_t>(found.size())));
  for (size_t i = 0; i < found.size(); ++i) {
    auto* type = reinterpret_cast<PyObject*>(Py_TYPE(found[i]));
    Py_INCREF(type);
    PyTuple_SET_ITEM(types.get(), static_cast<Py_ssize_t>(i), type);
  }
  return types;
}

Object ask(PyObject* who, PyObject* function, PyObject* types, PyObject* args, PyObject* kwargs) {
  Object method = checked(PyObject_GetAttr(who, protocol_name));
  Object none;
  if (!kwargs) {
    none = checked(PyDict_New());
    kwargs = none.get();
  }
  return checked(
      PyObject_CallFunctionObjArgs(method.get(), function, types, args, kwargs, nullptr));
}

bool takes_dispatch(PyTypeObject* type) {
  return dispatch_of_class && find_in_type(type, takes_dispatch_name).get() == Py_True;
}

Object ask_argument(PyObject* o, PyObject* function, PyObject* types, PyObject* args,
                    PyObject* kwargs) {
  if (!(mode() & DispatchAlone) || !takes_dispatch(Py_TYPE(o)))
    return ask(o, function, types, args, kwargs);
  return checked(PyObject_CallFunctionObjArgs(dispatch_of_class,
                                              reinterpret_cast<PyObject*>(Py_TYPE(o)), function,
                                              types, args, kwargs ? kwargs : Py_None, nullptr));
}

[[noreturn]] void fail_all_declined(PyObject* function, const Overriding& found) {
  Object list = checked(PyList_New(0));
  for (PyObject* o : found)
    checked(PyList_Append(list.get(), reinterpret_cast<PyObject*>(Py_TYPE(o))));
  PyErr_Format(PyExc_TypeError,
               "no implementation found for %R on types that implement __torch_function__: %R",
               function, list.get());
  throw PythonError{};
}

}  // namespace

bool function_modes_only_observe() {
  if (!function_mode_active()) return true;
  for (PyObject* active = modes.pairs(); active; active = ThreadStack::below(active)) {
    PyTypeObject* type = Py_TYPE(PyTuple_GET_ITEM(active, 0));
    if (find_in_type(type, observes_only_name).get() != Py_True) return false;
  }
  return true;
}

bool has_torch_function(PyObject* o) {
  PyTypeObject* type = Py_TYPE(o);
  if (is_exact_tensor(o) || is_plain_python(type) || PyType_Check(o)) return false;
  if (mode() & DispatchAlone)
    return takes_dispatch(type) || find_in_type(type, is_of_core_name).get() == Py_True;
  PyObject* found = PyObject_GetAttr(reinterpret_cast<PyObject*>(type), protocol_name);
  if (!found) {
    clear_error();
    return false;
  }
  Py_DECREF(found);
  return found != disabled_implementation;
}

void collect_overriding(PyObject* o, Overriding& found) {
  if (PyList_CheckExact(o) || PyTuple_CheckExact(o)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o);
         ++i) {  // a metaclass may change the list
      Object member = Object::share(PySequence_Fast_GET_ITEM(o, i));
      if (!PyList_CheckExact(member.get()) && !PyTuple_CheckExact(member.get()))
        collect_overriding(member.get(), found);
    }
    return;
  }
  if (!has_torch_function(o)) return;
  for (PyObject* known : found)
    if (Py_TYPE(known) == Py_TYPE(o)) return;
  auto at = found.begin();
  while (at != found.end() && !PyType_IsSubtype(Py_TYPE(o), Py_TYPE(*at))) ++at;
  found.insert(at, o);
}

PyObject* call_torch_function(PyObject* function, const Overriding& found, PyObject* args,
                              PyObject* kwargs) {
  Object types = types_of(found);
  if (function_mode_active()) {
    OuterModes outer;
    Object result = ask(outer.inner(), function, types.get(), args, kwargs);
    if (result.get() != Py_NotImplemented) return result.release();
  }
  for (PyObject* o : found) {
    Object result = ask_argument(o, function, types.get(), args, kwargs);
    if (result.get() != Py_NotImplemented) return result.release();
  }
  fail_all_declined(function, found);
}

bool overrides_method(const char* name, std::initializer_list<PyObject*> args, PyObject*& result) {
  Overriding found;
  if (subclasses_enabled())
    for (PyObject* o : args) collect_overriding(o, found);
  const bool taken = !found.empty() || function_mode_active();
  if (!taken && !(volatile_exists() && any_volatile(name, args))) return false;
  Object function = checked(PyObject_GetAttrString(reinterpret_cast<PyObject*>(tensor_type), name));
  Object packed = checked(PyTuple_New(static_cast<Py_ssize_t>(args.size())));
  Py_ssize_t at = 0;
  for (PyObject* o : args) {
    Py_INCREF(o);
    PyTuple_SET_ITEM(packed.get(), at++, o);
  }
  result = taken ? call_torch_function(function.get(), found, packed.get(), nullptr)
                 : call_volatile(function.get(), packed.get(), nullptr);
  return true;
}

// Attributes that are computed; `data` is the way out of volatile.
static bool is_computed(std::string_view attribute) {
  for (std::string_view name : {"real", "imag", "T", "mT", "H", "mH"})
    if (attribute == name) return true;
  return false;
}

// Whether the class itself, none of its bases, says that it leaves this attribute to Tensor: one of
// the library's own, whose __torch_function__ would but take 2 us to do that.
static bool leaves_to_tensor(PyObject* self, const char* name) {
  Found names = find(Py_TYPE(self)->tp_dict, plain_attributes_name);
  if (!names || !PyDict_CheckExact(names.get())) return false;
  return find_item(names.get(), name) != nullptr;
}

bool overrides_attribute(PyObject* self, const char* name, const char* accessor, PyObject* value,
                         PyObject*& result) {
  if (!function_mode_active() && !value && leaves_to_tensor(self, name)) return false;
  Overriding found;
  if (subclasses_enabled()) collect_overriding(self, found);
  const bool taken = !found.empty() || function_mode_active();
  if (!taken && !(volatile_exists() && is_computed(name) &&
                  (holds_volatile(self) || (value && holds_volatile(value)))))
    return false;
  Object descriptor =
      checked(PyObject_GetAttrString(reinterpret_cast<PyObject*>(tensor_type), name));
  Object function = checked(PyObject_GetAttrString(descriptor.get(), accessor));
  Object packed = checked(value ? PyTuple_Pack(2, self, value) : PyTuple_Pack(1, self));
  result = taken ? call_torch_function(function.get(), found, packed.get(), nullptr)
                 : call_volatile(function.get(), packed.get(), nullptr);
  return true;
}

bool mode_applies(PyObject* cls, PyObject* const* args, Py_ssize_t count, PyObject*& result) {
  PyObject* innermost = modes.top();
  Object method;
  if (innermost) method = Object(PyObject_GetAttrString(innermost, "apply_function"));
  if (!method) {
    clear_error();
    return false;
  }
  Object packed = checked(PyTuple_New(count));
  for (Py_ssize_t i = 0; i < count; ++i)
    PyTuple_SET_ITEM(packed.get(), i, Object::share(args[i]).release());
  OuterModes outer;
  result =
      checked(PyObject_CallFunctionObjArgs(method.get(), cls, packed.get(), nullptr)).release();
  return true;
}

// ---- what _C exports -------------------------------------------------------------------------

namespace {

// _disabled_torch_function_impl(func, types, args=(), kwargs=None)
PyObject* call_disabled(PyObject*, PyObject* args) {
  PyObject *function, *types, *arguments = nullptr, *kwargs = nullptr;
  if (!PyArg_ParseTuple(args, "OO|OO", &function, &types, &arguments, &kwargs)) return nullptr;
  return guarded([&]() -> PyObject* {
    ModeGuard guard(DispatchAlone, 0);
    Object empty = checked(PyTuple_New(0));
    return PyObject_Call(function, arguments ? arguments : empty.get(),
                         kwargs == Py_None ? nullptr : kwargs);
  });
}

// A function written in Python is called by who took it over: its first question is answered no.
__thread bool skips_next = false;

PyObject* skip_one(PyObject*, PyObject* args) {
  PyObject *function, *arguments, *kwargs;
  if (!PyArg_ParseTuple(args, "OO!O", &function, &PyTuple_Type, &arguments, &kwargs))
    return nullptr;
  const bool outer = std::exchange(skips_next, true);
  PyObject* result = PyObject_Call(function, arguments, kwargs == Py_None ? nullptr : kwargs);
  skips_next = outer;
  return result;
}

PyObject* has_override(PyObject*, PyObject* relevant) {
  return guarded([&]() -> PyObject* {
    if (std::exchange(skips_next, false)) Py_RETURN_FALSE;
    if (function_mode_active()) Py_RETURN_TRUE;
    if (!subclasses_enabled()) Py_RETURN_FALSE;
    Object items = items_of(relevant);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i)
      if (has_torch_function(PyTuple_GET_ITEM(items.get(), i))) Py_RETURN_TRUE;
    Py_RETURN_FALSE;
  });
}

PyObject* has_override_unary(PyObject*, PyObject* o) {
  if (std::exchange(skips_next, false)) Py_RETURN_FALSE;
  return PyBool_FromLong(function_mode_active() || (subclasses_enabled() && has_torch_function(o)));
}

// _handle_torch_function(public_api, relevant_args, args, kwargs)
PyObject* handle(PyObject*, PyObject* args) {
  PyObject *function, *relevant, *arguments, *kwargs;
  if (!PyArg_ParseTuple(args, "OOOO", &function, &relevant, &arguments, &kwargs)) return nullptr;
  return guarded([&]() -> PyObject* {
    Overriding found;
    Object items = checked(PySequence_Tuple(relevant));
    if (subclasses_enabled()) collect_overriding(items.get(), found);
    return call_torch_function(function, found, arguments, kwargs);
  });
}

PyObject* push_mode(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    push(o);
    Py_RETURN_NONE;
  });
}

PyObject* pop_mode(PyObject*, PyObject*) {
  return guarded([&] { return pop().release(); });
}

PyObject* count_modes(PyObject*, PyObject*) {
  return guarded([&] { return PyLong_FromSsize_t(PyList_GET_SIZE(modes.as_list().get())); });
}

PyObject* mode_at(PyObject*, PyObject* index) {
  return guarded([&] { return PyObject_GetItem(modes.as_list().get(), index); });
}

PyObject* sum_of_gradients = nullptr;  // Python's function, which lives as long as the process

Tensor sum_by_python(const Tensor& a, const Tensor& b) {
  WithGil gil;
  Object first = checked(wrap(a));
  Object second = b.defined() ? Object(checked(wrap(b))) : Object::share(Py_None);
  Object sum =
      checked(PyObject_CallFunctionObjArgs(sum_of_gradients, first.get(), second.get(), nullptr));
  if (sum.get() == Py_None) return {};
  check(is_tensor(sum.get()), "a sum of gradients must be a tensor, not ", type_name(sum.get()));
  return tensor_of(sum.get());
}

PyObject* watch_sums(PyObject*, PyObject* function) {
  Py_XSETREF(sum_of_gradients, Py_NewRef(function));
  watched_sum = sum_by_python;
  Py_RETURN_NONE;
}

PyObject* set_dispatch_of_class(PyObject*, PyObject* function) {
  Py_XSETREF(dispatch_of_class, Py_NewRef(function));
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {{"_set_dispatch_of_class", set_dispatch_of_class, METH_O,
                            "Have f(cls, func, types, args, kwargs) called for arguments whose "
                            "class has _takes_dispatch, where __torch_function__ is off."},
                           {"_watch_sums_of_gradients", watch_sums, METH_O,
                            "Have a function add two gradients, or copy one (the second None), "
                            "while a function mode is active; it may leave that, by None."},
                           {"_disabled_torch_function_impl", call_disabled, METH_VARARGS,
                            "Call func with the subclass protocol switched off; as "
                            "__torch_function__ it opts a class out."},
                           {"_has_torch_function", has_override, METH_O, nullptr},
                           {"_has_torch_function_unary", has_override_unary, METH_O, nullptr},
                           {"_skip_one_torch_function", skip_one, METH_VARARGS, nullptr},
                           {"_handle_torch_function", handle, METH_VARARGS, nullptr},
                           {"_push_torch_function_mode", push_mode, METH_O, nullptr},
                           {"_pop_torch_function_mode", pop_mode, METH_NOARGS, nullptr},
                           {"_len_torch_function_stack", count_modes, METH_NOARGS, nullptr},
                           {"_get_function_stack_at", mode_at, METH_O, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

void init_torch_function(PyObject* module) {
  modes.init();
  protocol_name = checked(PyUnicode_InternFromString("__torch_function__")).release();
  is_of_core_name = checked(PyUnicode_InternFromString("_is_of_core")).release();
  plain_attributes_name = checked(PyUnicode_InternFromString("_plain_attributes")).release();
  takes_dispatch_name = checked(PyUnicode_InternFromString("_takes_dispatch")).release();
  observes_only_name = checked(PyUnicode_InternFromString("_observes_only")).release();
  checked(PyModule_AddFunctions(module, functions));
  disabled_implementation =
      checked(PyObject_GetAttrString(module, "_disabled_torch_function_impl")).release();
}

}  // namespace rl::bind
