// The autograd graph as Python sees it: nodes, hooks, custom Functions, the call of backward.
#pragma once
#include <string>

#include "autograd/node.h"
#include "autograd/saved_tensor.h"
#include "bind/object.h"
#include "bind/python.h"

namespace rl::bind {

class Registry;

// ---- nodes: node_type.cpp
// ----------------------------------------------------------------------------
PyObject* wrap_node(Node* node);  // None for nullptr; the same object while that lives
Ref<Node> to_node(PyObject* o);   // of a node object or the context of a Function; PythonError else
// A name for nodes, which keep a pointer to it for good: "Exp" of the user's class Exp.
const char* interned(const std::string& name);
void init_node_type(PyObject* module);

// ---- hooks: hooks.cpp
// -------------------------------------------------------------------------------- Each list of
// Python hooks is one C++ hook that holds an OrderedDict {id: callable}; a RemovableHandle takes
// its entry out of that.
PyObject* get_tensor_hooks(const Tensor& t);  // the dict, or None
void set_tensor_hooks(const Tensor& t, PyObject* dict);
PyObject* get_accumulate_hooks(const Tensor& t);
void set_accumulate_hooks(const Tensor& t, PyObject* dict);
// These add a callable and return its RemovableHandle.
PyObject* add_python_hook(const Tensor& t, PyObject* callable);
PyObject* add_accumulate_hook(const Tensor& t, PyObject* callable);
PyObject* add_node_hook(Node* node, PyObject* callable, bool before);
// For the garbage collector: the dicts of hooks that nobody else owns.
int visit_hooks(TensorImpl* t, visitproc visit, void* arg);
int visit_hooks(const Node& node, visitproc visit, void* arg);
void clear_hooks(const Tensor& t);

// ---- saved tensors: saved_hooks.cpp
// --------------------------------------------------------------------
// t as `packer` packs it, a Python function; `unpacker` gives it back.
std::unique_ptr<PackedTensor> pack_with(const Tensor& t, PyObject* packer, PyObject* unpacker);
int visit_packed(const PackedTensor& packed, visitproc visit, void* arg);
// The hooks of this thread when it ends are those when it began.
class SavedHooksScope {
 public:
  SavedHooksScope() : before_((mode() & SavedHooks) ? now() : Object()), entries_(entries) {}
  ~SavedHooksScope() {
    if (entries != entries_) restore();
  }
  static __thread uint32_t entries;  // how often hooks were entered or left

 private:
  static Object now();
  void restore();
  Object before_;  // the stack of hooks, or nothing where there are none
  uint32_t entries_;
};
void init_saved_hooks(PyObject* module);

// ---- custom Functions: function.cpp
// --------------------------------------------------------------------
bool is_context(PyObject* o);
Ref<Node> node_of_context(PyObject* o);  // nullptr if its node is gone
int visit_context(Node* node, visitproc visit, void* arg);
void init_function_type(PyObject* module,
                        PyTypeObject* node_type);  // contexts are nodes to isinstance

// ---- the engine: backward.cpp
// ------------------------------------------------------------------------
// Keeps an object until the backward pass of this thread has ended: the engine has tensors alone,
// and a gradient of a class of its own is to arrive as that.
void keep_gradient(PyObject* gradient);
void init_backward(PyObject* module);
void register_backward(Registry& registry);
void init_source_tracing();             // source.cpp: the user's line, for errors
void init_optimizer(PyObject* module);  // optimizer.cpp

// ---- elsewhere
// ---------------------------------------------------------------------------------------
void change_requires_grad(const Tensor& t, bool value);

}  // namespace rl::bind
