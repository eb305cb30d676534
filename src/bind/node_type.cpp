// Graph nodes as Python objects: tensor.grad_fn.
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "autograd/engine.h"
#include "autograd/meta.h"
#include "autograd/saved_tensor.h"
#include "bind/collector.h"
#include "bind/convert.h"
#include "bind/graph.h"
#include "bind/python_link.h"
#include "bind/types.h"

namespace rl::bind {

namespace {

struct PyNode {
  PyObject_HEAD Node* node;  // owns a count
  PyObject* weakrefs;
};

PyTypeObject* node_type = nullptr;

void destroy(PyObject* self) {
  auto* o = reinterpret_cast<PyNode*>(self);
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (o->weakrefs) PyObject_ClearWeakRefs(self);
  unlink_object(o->node->python, o->node, o);
  Ref<Node>::adopt(o->node);
  type->tp_free(self);
  Py_DECREF(type);
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  return visit_owned(self, reinterpret_cast<PyNode*>(self)->node, visit, arg);
}

int clear(PyObject* self) {
  clear_owned(reinterpret_cast<PyNode*>(self)->node);
  return 0;
}

// One class per kind of node, so that type(y.grad_fn).__name__ is "MulBackward0"; of
// "torch::autograd::AccumulateGrad" it is the last part.
PyTypeObject* type_named(const std::string& full_name) {
  struct Entry {
    std::string full_name;  // Python keeps a pointer to it
    PyTypeObject* type;
  };
  static auto& known = *new std::unordered_map<std::string, std::unique_ptr<Entry>>;
  std::string name = full_name.substr(full_name.rfind(':') + 1);
  {
    LinkLock lock(&known);
    auto at = known.find(name);
    if (at != known.end()) return at->second->type;
  }
  auto fresh = std::make_unique<Entry>();  // made without the lock: Python may wait for others
  fresh->full_name = "rushlight.autograd." + name;
  PyType_Slot slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                         {Py_tp_clear, reinterpret_cast<void*>(clear)},
                         {0, nullptr}};
  fresh->type =
      make_type(nullptr, fresh->full_name.c_str(), sizeof(PyNode),
                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_HAVE_GC, slots,
                node_type);
  LinkLock lock(&known);
  auto [at, is_first] = known.try_emplace(name, nullptr);
  if (is_first) at->second = std::move(fresh);
  else fresh.release();  // of two made at once one is never used
  return at->second->type;
}

PyObject* repr(PyObject* self) {
  return guarded([&] {
    Ref<Node> node = is_context(self) ? node_of_context(self) : to_node(self);
    std::string name = node ? node->name() : Py_TYPE(self)->tp_name;
    return PyUnicode_FromFormat("<%s object at %p>", name.c_str() + name.rfind(':') + 1, self);
  });
}

PyObject* name(PyObject* self, PyObject*) {
  return guarded([&] { return PyUnicode_FromString(to_node(self)->name().c_str()); });
}

// ---- grad_fn._saved_self and so on

struct WrapValue {
  PyObject* operator()(std::monostate) const { Py_RETURN_NONE; }
  PyObject* operator()(const std::string& v) const { return PyUnicode_FromString(v.c_str()); }
  PyObject* operator()(const Dims& v) const { return tuple(v); }
  PyObject* operator()(const std::vector<double>& v) const { return tuple(v); }
  template <class T> PyObject* operator()(const T& v) const { return wrap(v); }
  template <class List> PyObject* tuple(const List& v) const {
    Object all = checked(PyTuple_New(static_cast<Py_ssize_t>(v.size())));
    Py_ssize_t i = 0;
    for (auto item : v) PyTuple_SET_ITEM(all.get(), i++, checked(wrap(item)).release());
    return all.release();
  }
};

// Finds the thing of one name.
struct Finder final : SavedReader {
  Finder(Node* node, std::string_view name) : node(node), wanted(name) {}
  void tensor(const char* name, const SavedTensor& saved) override {
    if (wanted == name) found = checked(wrap_or_none(saved));
  }
  void tensors(const char* name, const std::vector<SavedTensor>& saved) override {
    if (wanted != name) return;
    found = checked(PyTuple_New(static_cast<Py_ssize_t>(saved.size())));
    Py_ssize_t i = 0;
    for (const SavedTensor& s : saved) PyTuple_SET_ITEM(found.get(), i++, wrap_or_none(s));
  }
  void value(const char* name, SavedValue value) override {
    if (wanted == name) found = checked(std::visit(WrapValue(), value));
  }
  PyObject* wrap_or_none(const SavedTensor& saved) const {
    Tensor t = saved.unpack(*node);
    if (!t.defined()) Py_RETURN_NONE;
    return wrap(t);
  }
  Node* node;
  std::string_view wanted;
  Object found;
};

// ---- grad_fn._raw_saved_self and so on

// A tensor that a node has saved, found by its name: lists of them may be dropped meanwhile.
struct PySaved {
  PyObject_HEAD Node* node;  // owns a count
  PyObject* name;
  Py_ssize_t index;
};

PyTypeObject* saved_type = nullptr;

// Finds the saved tensor of one name, the index-th of a list.
struct SavedFinder final : SavedReader {
  SavedFinder(std::string_view name, size_t index) : wanted(name), index(index) {}
  void tensor(const char* name, const SavedTensor& saved) override {
    if (wanted == name) found = &saved;
  }
  void tensors(const char* name, const std::vector<SavedTensor>& saved) override {
    if (wanted == name && index < saved.size()) found = &saved[index];
  }
  void value(const char*, SavedValue) override {}
  std::string_view wanted;
  size_t index;
  const SavedTensor* found = nullptr;
};

// f(the saved tensor, its node) while nobody else runs or releases that node.
template <class F>
auto with_saved(PyObject* self, F&& f) {
  auto* o = reinterpret_cast<PySaved*>(self);
  std::string name = to_string(o->name);
  SavedFinder finder(name, static_cast<size_t>(o->index));
  RunLock lock(*o->node);
  o->node->read_saved(finder);
  check(finder.found && finder.found->defined(), o->node->name(), ": ", name,
        " is not saved, or has been released");
  return f(*finder.found, *o->node);
}

void destroy_saved(PyObject* self) {
  auto* o = reinterpret_cast<PySaved*>(self);
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  Ref<Node>::adopt(o->node);
  Py_XDECREF(o->name);
  type->tp_free(self);
  Py_DECREF(type);
}

int traverse_saved(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  return visit_owned(self, reinterpret_cast<PySaved*>(self)->node, visit, arg);
}

PyObject* saved_data(PyObject* self, void*) {
  return guarded([&] {
    return wrap(with_saved(
        self, [](const SavedTensor& saved, const Node& node) { return saved.unpack(node); }));
  });
}

PyObject* register_saved_hooks(PyObject* self, PyObject* args) {
  PyObject *packer, *unpacker;
  if (!PyArg_ParseTuple(args, "OO:register_hooks", &packer, &unpacker)) return nullptr;
  return guarded([&] {
    check_type(PyCallable_Check(packer) && PyCallable_Check(unpacker),
               "register_hooks: both hooks must be callable");
    with_saved(self, [&](const SavedTensor& saved, const Node& node) {
      check(!saved.packed(), "register_hooks: this saved tensor of ", node.name(),
            " has hooks already");
      auto packed = pack_with(saved.tensor(), packer, unpacker);
      const_cast<SavedTensor&>(saved).replace_by(std::move(packed));  // readers see it as const
    });
    Py_RETURN_NONE;
  });
}

PyObject* wrap_saved(Node* node, std::string_view name, size_t index) {
  Object text =
      checked(PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size())));
  auto* o = PyObject_GC_New(PySaved, saved_type);
  if (!o) throw PythonError{};
  o->node = Ref<Node>::share(node).release();
  o->name = text.release();
  o->index = static_cast<Py_ssize_t>(index);
  PyObject_GC_Track(reinterpret_cast<PyObject*>(o));
  return reinterpret_cast<PyObject*>(o);
}

// The names of what a node keeps; of one of them, its raw form.
struct SavedNames final : SavedReader {
  SavedNames(Node* node, std::string_view name) : node(node), wanted(name) {}
  void tensor(const char* name, const SavedTensor&) override {
    tensors_.emplace_back(name);
    if (wanted == name) raw = checked(wrap_saved(node, name, 0));
  }
  void tensors(const char* name, const std::vector<SavedTensor>& saved) override {
    tensors_.emplace_back(name);
    if (wanted != name) return;
    raw = checked(PyTuple_New(static_cast<Py_ssize_t>(saved.size())));
    for (size_t i = 0; i < saved.size(); ++i)
      PyTuple_SET_ITEM(raw.get(), static_cast<Py_ssize_t>(i), wrap_saved(node, name, i));
  }
  void value(const char* name, SavedValue) override { values_.emplace_back(name); }
  Node* node;
  std::string_view wanted;
  Object raw;
  std::vector<std::string> tensors_, values_;
};

bool starts_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

PyObject* get_attribute(PyObject* self, PyObject* name) {
  constexpr std::string_view prefix = "_saved_", raw_prefix = "_raw_saved_";
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(name, &size);
  if (!text) return nullptr;
  std::string_view attribute(text, static_cast<size_t>(size));
  const bool raw = starts_with(attribute, raw_prefix);
  if (!(raw || starts_with(attribute, prefix)) || is_context(self))
    return PyObject_GenericGetAttr(self, name);
  return guarded([&]() -> PyObject* {
    Ref<Node> node = to_node(self);
    Object found;
    {
      RunLock lock(*node);
      if (raw) {
        SavedNames names(node.get(), attribute.substr(raw_prefix.size()));
        node->read_saved(names);
        found = std::move(names.raw);
      } else {
        Finder finder(node.get(), attribute.substr(prefix.size()));
        node->read_saved(finder);
        found = std::move(finder.found);
      }
    }
    if (found) return found.release();
    return PyObject_GenericGetAttr(self, name);
  });
}

// The attributes of its kind, with those of what this node keeps.
PyObject* list_attributes(PyObject* self, PyObject*) {
  return guarded([&] {
    Object all = checked(
        PyObject_CallMethod(reinterpret_cast<PyObject*>(&PyBaseObject_Type), "__dir__", "O", self));
    if (is_context(self)) return all.release();
    Ref<Node> node = to_node(self);
    SavedNames names(node.get(), "");
    {
      RunLock lock(*node);
      node->read_saved(names);
    }
    auto add = [&](const std::string& name) {
      checked(PyList_Append(all.get(), checked(PyUnicode_FromString(name.c_str())).get()));
    };
    for (const std::string& name : names.tensors_) {
      add("_saved_" + name);
      add("_raw_saved_" + name);
    }
    for (const std::string& name : names.values_) add("_saved_" + name);
    return all.release();
  });
}

// y.grad_fn(gradient of y): the gradients of the inputs, one by itself or a tuple of several.
PyObject* call(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    Ref<Node> node = to_node(self);
    check_type(!kwargs || PyDict_GET_SIZE(kwargs) == 0, node->name(),
               ": takes gradients by position alone");
    Gradients grads;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) {
      PyObject* o = PyTuple_GET_ITEM(args, i);
      check_type(o == Py_None || is_tensor(o), node->name(), ": argument ", i,
                 " must be a Tensor or None, not ", type_name(o));
      grads.push_back(o == Py_None ? Tensor() : tensor_of(o));
    }
    Gradients results = call_node(*node, std::move(grads));
    size_t shown = 0;
    for (size_t i = 0; i < results.size(); ++i)
      if (node->shows(i)) std::swap(results[shown++], results[i]);
    results.resize(shown);
    if (results.size() == 1) return wrap(results[0]);
    Object all = checked(PyTuple_New(static_cast<Py_ssize_t>(results.size())));
    for (size_t i = 0; i < results.size(); ++i)
      PyTuple_SET_ITEM(all.get(), static_cast<Py_ssize_t>(i), wrap(results[i]));
    return all.release();
  });
}

PyObject* next_functions(PyObject* self, void*) {
  return guarded([&] {
    Ref<Node> node = to_node(self);
    Object all = checked(PyList_New(0));
    for (size_t i = 0; i < node->edges.size(); ++i) {
      if (!node->shows(i)) continue;
      const Edge& edge = node->edges[i];
      Object pair = checked(Py_BuildValue("(NI)", wrap_node(edge.node.get()), edge.nr));
      checked(PyList_Append(all.get(), pair.get()));
    }
    return checked(PyList_AsTuple(all.get())).release();
  });
}

PyObject* metadata(PyObject* self, void*) {
  return guarded([&] {
    Ref<Node> node = to_node(self);
    note_objects();
    Object fresh = checked(PyDict_New());
    LinkLock lock(node.get());
    if (!node->metadata) node->metadata = fresh.release();
    return Object::share(static_cast<PyObject*>(node->metadata)).release();
  });
}

PyObject* variable(PyObject* self, void*) {
  return guarded([&]() -> PyObject* {
    Ref<Node> node = to_node(self);
    if (node->is_accumulator()) return wrap(static_cast<AccumulateGrad*>(node.get())->variable);
    PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute 'variable'",
                 node->name().c_str());
    return nullptr;
  });
}

// What the gradients that come to the node look like.
PyObject* input_metadata(PyObject* self, void*) {
  return guarded([&] {
    Ref<Node> node = to_node(self);
    Object make = import_attribute("rushlight.autograd.graph", "_InputMetadata");
    Object all = checked(PyList_New(0));
    for (const OutputMeta& meta : node->outputs) {
      Object one = checked(PyObject_CallFunction(make.get(), "NNN", wrap(meta.sizes),
                                                 wrap(meta.dtype), wrap(meta.device)));
      checked(PyList_Append(all.get(), one.get()));
    }
    return all.release();
  });
}

PyObject* sequence_nr(PyObject* self, PyObject*) {
  return guarded([&] { return PyLong_FromUnsignedLongLong(to_node(self)->sequence); });
}

PyObject* requires_grad_of(PyObject*, void*) { Py_RETURN_TRUE; }

PyObject* register_hook(PyObject* self, PyObject* hook) {
  return guarded([&] { return add_node_hook(to_node(self).get(), hook, false); });
}
PyObject* register_prehook(PyObject* self, PyObject* hook) {
  return guarded([&] { return add_node_hook(to_node(self).get(), hook, true); });
}

PyObject* where(PyObject* self, void*) {
  return guarded([&] { return PyUnicode_FromString(describe(to_node(self)->where).c_str()); });
}

PyGetSetDef attributes[] = {
    {"next_functions", next_functions, nullptr, "The nodes that the gradients of the inputs go to.",
     nullptr},
    {"metadata", metadata, nullptr, "A dict for the user's notes.", nullptr},
    {"_input_metadata", input_metadata, nullptr, nullptr, nullptr},
    {"variable", variable, nullptr, "The leaf that an accumulator adds to.", nullptr},
    {"requires_grad", requires_grad_of, nullptr, nullptr, nullptr},
    {"where", where, nullptr, "The line of the program that called the op, if it was recorded.",
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMethodDef methods[] = {{"name", name, METH_NOARGS,
                          "name($self)\n--\n\nThe name of the node, such as \"MulBackward0\"."},
                         {"_sequence_nr", sequence_nr, METH_NOARGS, nullptr},
                         {"register_hook", register_hook, METH_O,
                          "register_hook($self, hook)\n--\n\nCalls hook(grad_inputs, grad_outputs) "
                          "after the node has run. Returns a handle."},
                         {"register_prehook", register_prehook, METH_O,
                          "register_prehook($self, hook)\n--\n\nCalls hook(grad_outputs) before "
                          "the node runs. Returns a handle."},
                         {"__dir__", list_attributes, METH_NOARGS, nullptr},
                         {nullptr, nullptr, 0, nullptr}};
PyGetSetDef saved_attributes[] = {
    {"data", saved_data, nullptr, "The tensor, as its hooks unpack it.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMethodDef saved_methods[] = {
    {"register_hooks", register_saved_hooks, METH_VARARGS,
     "register_hooks($self, pack_hook, unpack_hook)\n--\n\nKeeps what pack_hook(tensor) returns in "
     "place of the tensor; backward uses unpack_hook of that."},
    {nullptr, nullptr, 0, nullptr}};
PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(PyNode, weakrefs), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

void release_metadata(void* dict) {
  if (!Py_IsInitialized()) return;
  WithGil gil;
  Py_DECREF(static_cast<PyObject*>(dict));
}

}  // namespace

const char* interned(const std::string& name) {
  static auto& names = *new std::unordered_set<std::string>;
  LinkLock lock(&names);
  return names.insert(name).first->c_str();
}

PyObject* wrap_node(Node* node) {
  if (!node) Py_RETURN_NONE;
  for (;;) {
    if (PyObject* known = linked_object(node->python, node)) return known;
    auto* o = PyObject_GC_New(PyNode, type_named(node->name()));
    if (!o) throw PythonError{};
    Object fresh(reinterpret_cast<PyObject*>(o));
    allow_revival(fresh.get());
    o->node = Ref<Node>::share(node).release();
    o->weakrefs = nullptr;
    PyObject_GC_Track(fresh.get());
    if (link_object(node->python, node, o)) return fresh.release();
  }
}

Ref<Node> to_node(PyObject* o) {
  check_type(PyObject_TypeCheck(o, node_type), "expected a graph node, got ", type_name(o));
  if (!is_context(o)) return Ref<Node>::share(reinterpret_cast<PyNode*>(o)->node);
  Ref<Node> node = node_of_context(o);
  check(static_cast<bool>(node), "the graph node of this ", type_name(o),
        " is gone: it has not run yet, or its outputs have died");
  return node;
}

void init_node_type(PyObject* module) {
  PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
                         {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                         {Py_tp_clear, reinterpret_cast<void*>(clear)},
                         {Py_tp_repr, reinterpret_cast<void*>(repr)},
                         {Py_tp_call, reinterpret_cast<void*>(call)},
                         {Py_tp_getattro, reinterpret_cast<void*>(get_attribute)},
                         {Py_tp_getset, attributes},
                         {Py_tp_methods, methods},
                         {Py_tp_members, members},
                         {0, nullptr}};
  node_type = make_type(module, "rushlight.autograd.graph.Node", sizeof(PyNode),
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE |
                            Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_HAVE_GC,
                        slots);
  PyType_Slot saved_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(destroy_saved)},
                               {Py_tp_traverse, reinterpret_cast<void*>(traverse_saved)},
                               {Py_tp_getset, saved_attributes},
                               {Py_tp_methods, saved_methods},
                               {0, nullptr}};
  saved_type = make_type(
      nullptr, "rushlight._C.SavedTensor", sizeof(PySaved),
      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_HAVE_GC, saved_slots);
  release_node_metadata = release_metadata;
  init_function_type(module, node_type);
}

}  // namespace rl::bind
