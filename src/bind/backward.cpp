// _C.run_backward: the engine, called without the GIL.
#include "autograd/engine.h"
#include "bind/convert.h"
#include "bind/errors.h"
#include "bind/graph.h"

namespace rl::bind {

namespace {

// A GradientEdge (node, output_nr, ...) in place of a tensor.
bool is_gradient_edge(PyObject* o) { return PyTuple_Check(o) && !PyTuple_CheckExact(o) && PyTuple_GET_SIZE(o) >= 2; }

Edge to_edge(PyObject* o, const char* what) {
  if (is_gradient_edge(o)) {
    Node* node = to_node(PyTuple_GET_ITEM(o, 0));
    int64_t nr = to_int64(PyTuple_GET_ITEM(o, 1));
    check_index(nr >= 0 && nr < static_cast<int64_t>(node->outputs.size()), what, ": GradientEdge names output ", nr, " of ",
                node->name(), ", which has ", node->outputs.size());
    return {Ref<Node>::share(node), static_cast<uint32_t>(nr)};
  }
  check_type(is_tensor(o), what, ": expected a Tensor or GradientEdge, got ", type_name(o));
  return gradient_edge(tensor_of(o));
}

// The engine starts from tensors: a stand-in for one that is known by its edge alone.
Tensor root_of(PyObject* o) {
  if (is_tensor(o)) return tensor_of(o);
  Edge edge = to_edge(o, "backward");
  Tensor t = empty(Dims{}, {});
  t.impl()->grad_fn = edge.node;
  t.impl()->output_nr = edge.nr;
  return t;
}

Object as_sequence(PyObject* o) { return checked(PySequence_Fast(o, "run_backward: a sequence was expected")); }

// run_backward(tensors, grad_tensors, keep_graph, create_graph, inputs, allow_unused, accumulate)
PyObject* run(PyObject*, PyObject* args) {
  PyObject *tensors, *weights, *targets;
  int keep_graph, create_graph, allow_unused, accumulate;
  if (!PyArg_ParseTuple(args, "OOppOpp", &tensors, &weights, &keep_graph, &create_graph, &targets, &allow_unused, &accumulate))
    return nullptr;
  return guarded([&] {
    Object roots = as_sequence(tensors), grads = as_sequence(weights), inputs = as_sequence(targets);
    TensorList root_list, grad_list;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(roots.get()); ++i)
      root_list.push_back(root_of(PySequence_Fast_GET_ITEM(roots.get(), i)));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(grads.get()); ++i) {
      PyObject* o = PySequence_Fast_GET_ITEM(grads.get(), i);
      check_type(o == Py_None || is_tensor(o), "gradients can be either Tensors or None, but got ", type_name(o));
      grad_list.push_back(o == Py_None ? Tensor() : tensor_of(o));
    }
    std::vector<Edge> edges;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(inputs.get()); ++i) {
      PyObject* o = PySequence_Fast_GET_ITEM(inputs.get(), i);
      edges.push_back(to_edge(o, accumulate ? "backward" : "grad"));
      check(static_cast<bool>(edges.back()), "One of the differentiated Tensors does not require grad");
    }
    TensorList found;
    {
      WithoutGil released;
      found = run_backward(root_list, grad_list, keep_graph, create_graph, edges, accumulate);
    }
    for (const Tensor& t : found)
      check(t.defined() || allow_unused || accumulate,
            "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True if this is the "
            "desired behavior.");
    return wrap(found);
  });
}

PyMethodDef functions[] = {{"run_backward", run, METH_VARARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};

}  // namespace

void init_backward(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace rl::bind
