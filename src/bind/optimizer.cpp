// What an optimizer asks of all its parameters before each step: one call in place of a loop.
#include "autograd/meta.h"
#include "autograd/node.h"
#include "bind/convert.h"
#include "bind/graph.h"
#include "ops_basic.h"

namespace rl::bind {
namespace {

// The parameters that have gradients, and these; None where a step in plain operations is needed.
PyObject* fusible(PyObject*, PyObject* list) {
  return guarded([&]() -> PyObject* {
    Object given = checked(PySequence_Tuple(list));
    Object params = checked(PyList_New(0)), grads = checked(PyList_New(0));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given.get()); ++i) {
      PyObject* o = PyTuple_GET_ITEM(given.get(), i);
      if (!is_exact_tensor(o)) Py_RETURN_NONE;
      const Tensor& param = tensor_of(o);
      Tensor grad = grad_of(param);
      if (!grad.defined()) {
        if (grad_fn(param)) Py_RETURN_NONE;  // reading its grad warns
        continue;
      }
      if (!is_floating(param.dtype()) || grad.dtype() != param.dtype() || grad.is_sparse())
        Py_RETURN_NONE;
      Object wrapped = checked(wrap(std::move(grad)));
      checked(PyList_Append(params.get(), o));
      checked(PyList_Append(grads.get(), wrapped.get()));
    }
    if (PyList_GET_SIZE(params.get()) == 0) Py_RETURN_NONE;
    return PyTuple_Pack(2, params.get(), grads.get());
  });
}

void count_step(PyObject* state, PyObject* name, const Tensor& one) {
  Found step = find(state, name);
  if (!step) return;
  if (is_exact_tensor(step.get())) {
    ops::add_(tensor_of(step.get()), one);
    return;
  }
  Object number = checked(PyLong_FromLong(1));
  Object counted = checked(PyNumber_InPlaceAdd(step.get(), number.get()));
  checked(PyDict_SetItem(state, name, counted.get()));
}

// The states of parameters, their counts of steps one higher; None where one has no state yet.
PyObject* next_step(PyObject*, PyObject* const* args, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    static PyObject* name = checked(PyUnicode_InternFromString("step")).release();
    check_type(count == 2 && PyList_Check(args[1]),
               "_next_step: expected states and a list of parameters");
    if (!PyDict_Check(args[0])) Py_RETURN_NONE;
    Object params = checked(PySequence_Tuple(args[1])), states = checked(PyList_New(0));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(params.get()); ++i) {
      Found state = find(args[0], PyTuple_GET_ITEM(params.get(), i));
      if (!state || !PyDict_Check(state.get()) || PyDict_GET_SIZE(state.get()) == 0) Py_RETURN_NONE;
      checked(PyList_Append(states.get(), state.get()));
    }
    Tensor one = wrap_number(Scalar(1));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(states.get()); ++i)
      count_step(PyList_GET_ITEM(states.get(), i), name, one);
    return states.release();
  });
}

// The values of several dicts under one name.
PyObject* column(PyObject*, PyObject* const* args, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    check_type(count == 2 && PyList_Check(args[0]), "_column: expected a list of dicts and a name");
    Object dicts = checked(PySequence_Tuple(args[0]));
    Py_ssize_t n = PyTuple_GET_SIZE(dicts.get());
    Object values = checked(PyList_New(n));
    for (Py_ssize_t i = 0; i < n; ++i)
      PyList_SET_ITEM(
          values.get(), i,
          checked(PyObject_GetItem(PyTuple_GET_ITEM(dicts.get(), i), args[1])).release());
    return values.release();
  });
}

PyMethodDef functions[] = {
    {"_fusible", fusible, METH_O, nullptr},
    {"_next_step", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(next_step)),
     METH_FASTCALL, nullptr},
    {"_column", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(column)), METH_FASTCALL,
     nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void init_optimizer(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace rl::bind
