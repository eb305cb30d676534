// _C.run_backward: the engine, called without the GIL.
#include <memory>
#include <string>

#include "autograd/current_node.h"
#include "autograd/engine.h"
#include "autograd/joined_node.h"
#include "autograd/meta.h"
#include "bind/args.h"
#include "bind/collector.h"
#include "bind/convert.h"
#include "bind/errors.h"
#include "bind/gradient_batch.h"
#include "bind/graph.h"
#include "bind/registry.h"
#include "dispatch/generated.h"

namespace rl::bind {

namespace {

// A GradientEdge (node, output_nr, ...) in place of a tensor.
bool is_gradient_edge(PyObject* o) {
  return PyTuple_Check(o) && !PyTuple_CheckExact(o) && PyTuple_GET_SIZE(o) >= 2;
}

Edge to_edge(PyObject* o, const char* what) {
  if (is_gradient_edge(o)) {
    Ref<Node> node = to_node(PyTuple_GET_ITEM(o, 0));
    int64_t nr = to_int64(PyTuple_GET_ITEM(o, 1));
    check_index(nr >= 0 && nr < static_cast<int64_t>(node->outputs.size()), what,
                ": GradientEdge names output ", nr, " of ", node->name(), ", which has ",
                node->outputs.size());
    return {std::move(node), static_cast<uint32_t>(nr)};
  }
  check_type(is_tensor(o), what, ": expected a Tensor or GradientEdge, got ", type_name(o));
  return gradient_edge(tensor_of(o));
}

__thread PyObject* kept_gradients = nullptr;  // a list, once there is one to keep
__thread int passes = 0;

class KeptGradients {
 public:
  KeptGradients() : outer_(std::exchange(kept_gradients, nullptr)) { ++passes; }
  ~KeptGradients() {
    --passes;
    Py_XDECREF(std::exchange(kept_gradients, outer_));
  }

 private:
  PyObject* outer_;
};

void check_not_volatile(const Tensor& t) {
  check(!t.is_volatile(),
        "calling backward on a volatile variable: it has no history, as it was "
        "computed from one that was marked volatile");
}

// The engine starts from tensors: a stand-in for one that is known by its edge alone.
Tensor root_of(PyObject* o) {
  if (is_tensor(o)) {
    check_not_volatile(tensor_of(o));
    return tensor_of(o);
  }
  Edge edge = to_edge(o, "backward");
  Tensor t = empty(Dims{}, {});
  t.impl()->grad_fn = edge.node;
  t.impl()->output_nr = edge.nr;
  return t;
}

// run_backward(tensors, grad_tensors, keep_graph, create_graph, inputs, allow_unused, accumulate,
// batch=0): of so many gradients at once where that is not 0; None where one has to be run after
// the other.
PyObject* run(PyObject*, PyObject* args) {
  PyObject *tensors, *weights, *targets;
  int keep_graph, create_graph, allow_unused, accumulate;
  Py_ssize_t count = 0;
  if (!PyArg_ParseTuple(args, "OOppOpp|n", &tensors, &weights, &keep_graph, &create_graph, &targets,
                        &allow_unused, &accumulate, &count))
    return nullptr;
  return guarded([&]() -> PyObject* {
    Object roots = items_of(tensors), grads = items_of(weights), inputs = items_of(targets);
    TensorList root_list, grad_list;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(roots.get()); ++i)
      root_list.push_back(root_of(PyTuple_GET_ITEM(roots.get(), i)));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(grads.get()); ++i) {
      PyObject* o = PyTuple_GET_ITEM(grads.get(), i);
      check_type(o == Py_None || is_tensor(o), "gradients can be either Tensors or None, but got ",
                 type_name(o));
      grad_list.push_back(o == Py_None ? Tensor() : tensor_of(o));
    }
    std::vector<Edge> edges;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(inputs.get()); ++i) {
      PyObject* o = PyTuple_GET_ITEM(inputs.get(), i);
      edges.push_back(to_edge(o, accumulate ? "backward" : "grad"));
      check(static_cast<bool>(edges.back()),
            "One of the differentiated Tensors does not require grad");
      if (!accumulate || !is_tensor(o)) continue;
      note_gradient(o, true);
      retain_grad(tensor_of(o));
    }
    TensorList found;
    KeptGradients kept;
    SavedHooksScope hooks;
    std::unique_ptr<GradientBatch> batch;
    if (count) batch = make_gradient_batch(count, create_graph);
    try {
      WithoutGil released;
      found = run_backward(root_list, grad_list, keep_graph, create_graph, edges, accumulate,
                           batch.get());
    } catch (const NotBatched&) {
      Py_RETURN_NONE;
    }
    for (const Tensor& t : found)
      check(t.defined() || allow_unused || accumulate,
            "One of the differentiated Tensors appears to not have been used in the graph. "
            "Set allow_unused=True to get None for it.");
    return wrap(found);
  });
}

// Tensor.backward(gradient=None, retain_graph=None, create_graph=False, inputs=None)
PyObject* backward(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  static const Parameter parameters[] = {{"self", Kind::Tensor, false, false, false, -1},
                                         {"gradient", Kind::Object, true, true, false, -1},
                                         {"retain_graph", Kind::Bool, true, true, false, -1},
                                         {"create_graph", Kind::Bool, true, true, false, -1},
                                         {"inputs", Kind::Object, true, true, false, -1},
                                         {"retain_variables", Kind::Bool, true, true, true, -1}};
  static const Overload overloads[] = {
      {"backward(gradient=None, retain_graph=None, create_graph=False, inputs=None, *, "
       "retain_variables=None)",
       parameters, 6, 5}};
  static const Spec spec = {"backward", "Tensor.backward", overloads, 1};
  return guarded([&]() -> PyObject* {
    Arguments a;
    if (a.parse(spec, self, args, count, names) < 0) return a.result();
    const Tensor& t = tensor_of(self);
    check_not_volatile(t);
    std::optional<bool> retain = a.boolean_or_none(2), older = a.boolean_or_none(5);
    if (older)
      checked(PyErr_WarnEx(PyExc_FutureWarning,
                           "`retain_variables` is deprecated. Use `retain_graph` instead.", 1));
    const bool create_graph = a.boolean_or_none(3).value_or(false),
               keep_graph = (retain ? retain : older).value_or(create_graph);
    if (a.given(1) || a.given(4) || t.numel() != 1 || !t.is_floating() ||
        !t.device().is_cpu()) {  // the general rules are in Python
      Object function = import_attribute("rushlight.autograd", "backward");
      Object gradient = Object::share(a.given(1) ? a.object(1) : Py_None),
             inputs = Object::share(a.given(4) ? a.object(4) : Py_None);
      return PyObject_CallFunction(function.get(), "OOOOOO", self, gradient.get(),
                                   keep_graph ? Py_True : Py_False,
                                   create_graph ? Py_True : Py_False, Py_None, inputs.get());
    }
    Tensor one = empty_like(t);
    store_scalar(one.data<void>(), one.dtype(), Scalar(1.0));
    TensorList roots{t}, grads{one};
    KeptGradients kept;
    SavedHooksScope hooks;
    {
      WithoutGil released;
      run_backward(roots, grads, keep_graph, create_graph, {}, true);
    }
    Py_RETURN_NONE;
  });
}

// _leaves_of(tensors): the leaves that their gradients come to, in passes of the program or, where
// a transform of func runs, of some level.
PyObject* find_leaves(PyObject*, PyObject* tensors) {
  return guarded([&] {
    Object roots = items_of(tensors);
    std::vector<Edge> edges;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(roots.get()); ++i)
      edges.push_back(to_edge(PyTuple_GET_ITEM(roots.get(), i), "_leaves_of"));
    return wrap(leaves_of(edges, thread_state().levels.current ? UINT32_MAX : 0));
  });
}

PyObject* task_id(PyObject*, PyObject*) { return PyLong_FromLongLong(current_backward()); }

PyObject* will_execute(PyObject*, PyObject* node) {
  return guarded([&] {
    check(current_backward() >= 0, "no backward pass is running on this thread");
    return wrap(current_backward_runs(to_node(node).get()));
  });
}

PyObject* running_node(PyObject*, PyObject*) { return wrap_node(current_node()); }

// _keep_gradients(list): see keep_gradient.
PyObject* keep_gradients(PyObject*, PyObject* gradients) {
  return guarded([&]() -> PyObject* {
    Object all = items_of(gradients);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(all.get()); ++i)
      keep_gradient(PyTuple_GET_ITEM(all.get(), i));
    Py_RETURN_NONE;
  });
}

// queue_callback(f): f() when the pass that runs has ended.
PyObject* queue_callback(PyObject*, PyObject* function) {
  return guarded([&]() -> PyObject* {
    check_type(PyCallable_Check(function), "queue_callback: expected a function, got ",
               type_name(function));
    std::shared_ptr<PyObject> held(Py_NewRef(function), [](PyObject* f) {
      if (!Py_IsInitialized()) return;
      WithGil gil;
      Py_DECREF(f);
    });
    after_current_backward(
        [held] { with_python([&] { checked(PyObject_CallNoArgs(held.get())); }); });
    Py_RETURN_NONE;
  });
}

PyObject* is_restricted(PyObject*, PyObject*) { return wrap(current_backward_is_restricted()); }

PyObject* last(PyObject*, PyObject*) {
  return PyLong_FromUnsignedLongLong(thread_state().next_sequence);
}

void add_tensors(TensorList& to, PyObject* from) {
  if (is_tensor(from)) to.push_back(tensor_of(from));
  if (from == Py_None) to.emplace_back();
  if (!PyTuple_Check(from) && !PyList_Check(from)) return;
  Object all = items_of(from);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(all.get()); ++i)
    add_tensors(to, PyTuple_GET_ITEM(all.get(), i));
}

std::vector<const Tensor*> pointers(const TensorList& tensors) {
  std::vector<const Tensor*> all;
  for (const Tensor& t : tensors) all.push_back(&t);
  return all;
}

// _join_nodes(results, since, name, inputs, others): see autograd/joined_node.h.
PyObject* join_results(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *results, *name, *inputs, *others;
    unsigned long long since;
    if (!PyArg_ParseTuple(args, "OKUOO", &results, &since, &name, &inputs, &others)) return nullptr;
    const char* text = PyUnicode_AsUTF8(name);
    if (!text) return nullptr;
    TensorList made, given, more;
    add_tensors(made, results);
    add_tensors(given, inputs);
    add_tensors(more, others);
    const auto wanted = pointers(given), rest = pointers(more);
    join_nodes(made.data(), made.size(), since, interned(text), {wanted.data(), wanted.size()},
               {rest.data(), rest.size()});
    Py_RETURN_NONE;
  });
}

PyMethodDef functions[] = {{"_last_node", last, METH_NOARGS, nullptr},
                           {"_join_nodes", join_results, METH_VARARGS, nullptr},
                           {"run_backward", run, METH_VARARGS, nullptr},
                           {"_leaves_of", find_leaves, METH_O, nullptr},
                           {"current_graph_task_id", task_id, METH_NOARGS, nullptr},
                           {"_current_autograd_node", running_node, METH_NOARGS, nullptr},
                           {"_keep_gradients", keep_gradients, METH_O, nullptr},
                           {"queue_callback", queue_callback, METH_O, nullptr},
                           {"backward_is_restricted", is_restricted, METH_NOARGS, nullptr},
                           {"will_engine_execute_node", will_execute, METH_O, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

void register_backward(Registry& registry) {
  registry.method(
      "backward", backward,
      "backward($self, gradient=None, retain_graph=None, create_graph=False, inputs=None)\n--\n\n"
      "Accumulate the gradient of this tensor into the leaves it was computed from.\n\n"
      "Args:\n"
      "    gradient: the gradient with respect to this tensor; not needed if it has one element.\n"
      "    retain_graph: keep what the graph has saved for another backward pass.\n"
      "    create_graph: record the gradients' computation, for higher derivatives.\n"
      "    inputs: accumulate into these tensors alone.");
}

void keep_gradient(PyObject* gradient) {
  if (!passes) return;
  if (!kept_gradients) kept_gradients = checked(PyList_New(0)).release();
  if (PyList_Append(kept_gradients, gradient) < 0) throw PythonError();
}

void init_backward(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace rl::bind
