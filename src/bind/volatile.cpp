#include "bind/volatile.h"

#include <cstring>

#include "autograd/node.h"
#include "bind/convert.h"

namespace rl::bind {

namespace {

bool is_list(PyObject* o) { return PyTuple_Check(o) || PyList_CheckExact(o); }

template <class F>
void each_member(PyObject* list, F&& f) {
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list); ++i)
    f(Object::share(PySequence_Fast_GET_ITEM(list, i)).get());
}

void become_volatile(TensorImpl* t) {
  t->is_volatile = true;
  t->grad_fn = nullptr;
}

}  // namespace

bool holds_volatile(PyObject* o) {
  if (is_tensor(o)) return tensor_of(o).is_volatile();
  if (!is_list(o)) return false;
  bool found = false;
  each_member(o, [&](PyObject* member) { found = found || holds_volatile(member); });
  return found;
}

bool first_decides(const char* function) {
  for (const char* name : {"type_as", "expand_as", "view_as", "reshape_as", "resize_as_", "to",
                           "narrow", "tensor_split"})
    if (std::strcmp(function, name) == 0) return true;
  return false;
}

void VolatileScope::note(PyObject* argument) {
  if (is_list(argument)) return each_member(argument, [&](PyObject* member) { note(member); });
  if (!is_tensor(argument)) return;
  const Tensor& t = tensor_of(argument);
  if (t.storage()) arguments_.push_back({t.impl(), t.version()});
}

const VolatileScope::Argument* VolatileScope::find(const TensorImpl* t) const {
  for (const Argument& a : arguments_)
    if (a.tensor == t) return &a;
  return nullptr;
}

// An argument that comes back unchanged stays what it was; so does a target where the program
// itself had switched recording off, and a result that was asked to require a gradient.
void VolatileScope::mark_tensor(const Tensor& t) const {
  const Argument* argument = find(t.impl());
  if (argument && (!recording_ || t.version() == argument->version)) return;
  TensorImpl* impl = t.impl();
  if (impl->requires_grad) return;
  become_volatile(impl);
  if (!impl->base || impl->base->is_volatile) return;
  if (argument) return become_volatile(impl->base.get());
  impl->base = nullptr;  // a view by a volatile index of what is not volatile: it stands by itself
  impl->view_rule = nullptr;
}

void VolatileScope::mark(PyObject* result) const {
  if (is_list(result)) return each_member(result, [&](PyObject* member) { mark(member); });
  if (is_tensor(result)) return mark_tensor(tensor_of(result));
  if (result != Py_None) return;
  for (const Argument& a : arguments_)  // an operation that only changes: t[0] = v
    mark_tensor(Tensor(Ref<TensorImpl>::share(a.tensor)));
}

PyObject* call_volatile(PyObject* function, PyObject* args, PyObject* kwargs) {
  VolatileScope scope(args);
  PyObject *name, *value;
  for (Py_ssize_t at = 0; kwargs && PyDict_Next(kwargs, &at, &name, &value);) scope.note(value);
  Object result = checked(PyObject_Call(function, args, kwargs));
  scope.mark(result.get());
  return result.release();
}

void set_volatile(const Tensor& t, bool value) {
  check_value(!grad_fn(t), "volatile can only be set on leaf variables: this tensor was computed");
  check_value(!value || !requires_grad(t),
              "a variable can't be volatile and require a gradient at the same time");
  check_value(value || !t.impl()->base || !t.impl()->base->is_volatile,
              "volatile: this is a view of a volatile tensor; its data is not");
  t.impl()->is_volatile = value;
  if (value) announce_volatile();
}

}  // namespace rl::bind
