// What an optimizer asks of all its parameters before each step: one call in place of a loop.
#include "autograd/inplace.h"
#include "autograd/meta.h"
#include "autograd/node.h"
#include "bind/convert.h"
#include "bind/graph.h"
#include "ops_basic.h"

namespace rl::bind {
namespace {

// The parameters that have gradients, and these.
struct Lists {
  Object params = checked(PyList_New(0)), grads = checked(PyList_New(0));
};

// False where a step in plain operations is needed.
bool collect(PyObject* list, Lists& lists) {
  Object given = checked(PySequence_Tuple(list));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given.get()); ++i) {
    PyObject* o = PyTuple_GET_ITEM(given.get(), i);
    if (!is_exact_tensor(o)) return false;
    const Tensor& param = tensor_of(o);
    Tensor grad = grad_of(param);
    if (!grad.defined()) {
      if (grad_fn(param)) return false;  // reading its grad warns
      continue;
    }
    if (!is_floating(param.dtype()) || grad.dtype() != param.dtype() || grad.is_sparse())
      return false;
    Object wrapped = checked(wrap(std::move(grad)));
    checked(PyList_Append(lists.params.get(), o));
    checked(PyList_Append(lists.grads.get(), wrapped.get()));
  }
  return PyList_GET_SIZE(lists.params.get()) > 0;
}

PyObject* fusible(PyObject*, PyObject* list) {
  return guarded([&]() -> PyObject* {
    Lists lists;
    if (!collect(list, lists)) Py_RETURN_NONE;
    return PyTuple_Pack(2, lists.params.get(), lists.grads.get());
  });
}

// Adds one to a float32 number in the host's memory; false for other tensors.
bool count_here(const Tensor& step) {
  const TensorImpl* impl = step.impl();
  if (impl->dtype != DType::Float32 || impl->device.type != DeviceType::CPU || step.dim() != 0 ||
      impl->lazy || impl->requires_grad || impl->grad_fn || impl->base || impl->storage->read_only)
    return false;
  View number = step.view();
  bump_version(step, "_step_lists");
  *static_cast<float*>(number.data) += 1;
  return true;
}

void count_step(PyObject* state, PyObject* name) {
  Found step = find(state, name);
  if (!step) return;
  if (is_exact_tensor(step.get())) {
    const Tensor& count = tensor_of(step.get());
    if (!count_here(count)) ops::add_(count, wrap_number(Scalar(1)));
    return;
  }
  Object number = checked(PyLong_FromLong(1));
  Object counted = checked(PyNumber_InPlaceAdd(step.get(), number.get()));
  checked(PyDict_SetItem(state, name, counted.get()));
}

// The states of parameters as a tuple, their counts of steps one higher; none where one has no
// state.
Object next_states(PyObject* states, PyObject* params) {
  static PyObject* name = checked(PyUnicode_InternFromString("step")).release();
  if (!PyDict_Check(states)) return {};
  Object of = checked(PySequence_Tuple(params));
  Py_ssize_t n = PyTuple_GET_SIZE(of.get());
  Object found = checked(PyTuple_New(n));
  for (Py_ssize_t i = 0; i < n; ++i) {
    Found state = find(states, PyTuple_GET_ITEM(of.get(), i));
    if (!state || !PyDict_Check(state.get()) || PyDict_GET_SIZE(state.get()) == 0) return {};
    PyTuple_SET_ITEM(found.get(), i, state.release());
  }
  for (Py_ssize_t i = 0; i < n; ++i) count_step(PyTuple_GET_ITEM(found.get(), i), name);
  return found;
}

// The values of several dicts under a name; no values for None.
Object column(PyObject* dicts, PyObject* name) {
  Py_ssize_t n = name == Py_None ? 0 : PyTuple_GET_SIZE(dicts);
  Object values = checked(PyList_New(n));
  for (Py_ssize_t i = 0; i < n; ++i)
    PyList_SET_ITEM(values.get(), i,
                    checked(PyObject_GetItem(PyTuple_GET_ITEM(dicts, i), name)).release());
  return values;
}

// _columns(dicts, names): a list for each name.
PyObject* columns(PyObject*, PyObject* const* args, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    check_type(count == 2 && PyList_Check(args[0]) && PyTuple_Check(args[1]),
               "_columns: expected a list of dicts and a tuple of names");
    Object dicts = checked(PySequence_Tuple(args[0]));
    Object lists = checked(PyTuple_New(PyTuple_GET_SIZE(args[1])));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args[1]); ++i)
      PyTuple_SET_ITEM(lists.get(), i, column(dicts.get(), PyTuple_GET_ITEM(args[1], i)).release());
    return lists.release();
  });
}

// _step_lists(params, states, names): what a fused step takes: the parameters that have gradients,
// these, and a list of states for each name. The first two alone where a parameter has no state
// yet; None where a step in plain operations is needed.
PyObject* step_lists(PyObject*, PyObject* const* args, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    check_type(count == 3 && PyTuple_Check(args[2]),
               "_step_lists: expected parameters, states and a tuple of names");
    Lists lists;
    if (!collect(args[0], lists)) Py_RETURN_NONE;
    Object states = next_states(args[1], lists.params.get());
    if (!states) return PyTuple_Pack(2, lists.params.get(), lists.grads.get());
    Object all = checked(PyTuple_New(2 + PyTuple_GET_SIZE(args[2])));
    PyTuple_SET_ITEM(all.get(), 0, lists.params.release());
    PyTuple_SET_ITEM(all.get(), 1, lists.grads.release());
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args[2]); ++i)
      PyTuple_SET_ITEM(all.get(), 2 + i,
                       column(states.get(), PyTuple_GET_ITEM(args[2], i)).release());
    return all.release();
  });
}

template <PyObject* function(PyObject*, PyObject* const*, Py_ssize_t)>
PyMethodDef fast(const char* name) {
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function)),
          METH_FASTCALL, nullptr};
}

PyMethodDef functions[] = {{"_fusible", fusible, METH_O, nullptr},
                           fast<columns>("_columns"),
                           fast<step_lists>("_step_lists"),
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

void init_optimizer(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace rl::bind
