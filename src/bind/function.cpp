// Custom Functions. The context of a call (an instance of the user's class) belongs to the node
// that the call records; ctx and grad_fn are the same object, as in torch.
#include <algorithm>
#include <string>
#include <utility>

#include "autograd/engine.h"
#include "autograd/inplace.h"
#include "autograd/saved_tensor.h"
#include "bind/collector.h"
#include "bind/convert.h"
#include "bind/errors.h"
#include "bind/graph.h"
#include "bind/python_link.h"
#include "bind/torch_function.h"
#include "bind/types.h"
#include "bind/volatile.h"
#include "core/observer.h"
#include "core/warning.h"
#include "dispatch/trap.h"

namespace rl::bind {

namespace {

struct FunctionNode;

struct Context {
  PyObject_HEAD FunctionNode* node;  // borrowed: the node owns the context
  PyObject* weakrefs;
  PyObject* to_save;
  PyObject* dirty_tensors;
  PyObject* non_differentiable;
  PyObject* needs_input_grad;
  PyObject* saved_for_forward;
  PyObject* saved_objects;  // of classes of their own, which the tensors saved would not keep
  char materialize_grads;
  char forward_mode;  // does jvp run? It sees what save_for_forward was given.
};

PyTypeObject* context_type = nullptr;

Context* cast(PyObject* o) { return reinterpret_cast<Context*>(o); }

// The class that the user wrote, whose methods a context's node calls.
Found forward_class(PyTypeObject* context_class) {
  static PyObject* const name = PyUnicode_InternFromString("_forward_cls");
  return find_in_type(context_class, name);
}

// rushlight.autograd.Function, whose methods stand for "not defined by the user".
PyObject* function_base() {
  static Imported base("rushlight.autograd.function", "Function");
  return base.get();
}

// What the contexts of a Function are instances of: "ExpBackward" of class Exp. It is made at the
// first call and kept in the class itself; a subclass finds its parent's and makes its own.
Object context_class(PyTypeObject* cls) {
  static PyObject* const name = PyUnicode_InternFromString("_backward_cls");
  static PyObject* const owner = PyUnicode_InternFromString("_made_for");
  auto* self = reinterpret_cast<PyObject*>(cls);
  Found known = find_in_type(cls, name);
  if (known.get() && PyType_Check(known.get()) &&
      find_in_type(reinterpret_cast<PyTypeObject*>(known.get()), owner).get() == self)
    return Object::share(known.get());
  static Imported make("rushlight.autograd.function", "_context_class");
  return checked(PyObject_CallOneArg(make.get(), self));
}

// The ops of backward are the program's own: the NaN trap looks at each.
struct ProgramsOwn {
  uint32_t& depth = thread_state().op_depth;
  const uint32_t outer = std::exchange(depth, 0);
  ~ProgramsOwn() { depth = outer; }
};

struct FunctionNode final : Node {
  PyObject* context;                // owned
  std::vector<bool> tensor_inputs;  // for each argument of forward: does it have an edge?
  std::vector<bool> tensor_outputs;
  std::vector<SavedTensor> saved;
  bool materialize = true;

  FunctionNode(const char* op, PyObject* ctx) : Node(op, 0), context(Object::share(ctx).release()) {
    note_objects();
    allow_revival(ctx);
    cast(ctx)->node = this;
    python.store(ctx, std::memory_order_relaxed);
  }
  ~FunctionNode() override {
    if (!Py_IsInitialized()) return;
    WithGil gil;
    {
      LinkLock lock(context);
      cast(context)->node = nullptr;
    }
    Py_DECREF(context);
  }

  std::string name() const override { return std::string(op) + "Backward"; }
  bool runs_without_gradient() const override { return true; }
  bool takes_stand_ins() const override { return false; }
  void read_saved(SavedReader& reader) const override { reader.tensors("saved_tensors", saved); }
  void release_saved() override {
    for (SavedTensor& t : saved) t.release();
    released = true;
    if (!cast(context)->saved_objects) return;
    WithGil gil;
    Py_CLEAR(cast(context)->saved_objects);
  }
  void apply(Gradients& grads, Gradients& results) override {
    WithGil gil;
    ProgramsOwn ops;
    try {
      Object returned = call_backward(grads);
      unpack(returned.get(), results);
    } catch (const PythonError&) {
      CarriedError error = CarriedError::take();
      if (mode() & Anomaly) tell_where();
      throw error;
    }
  }

 private:
  // The error is the user's own; that it comes from this call of forward is told beside it.
  void tell_where() const {
    std::string text =
        "Error detected in " + name() + ". It belongs to the call on " + describe(where) + ".";
    warn(text.c_str());
  }

  Object call_backward(const Gradients& grads) {
    Object args = checked(PyTuple_New(static_cast<Py_ssize_t>(grads.size()) + 1));
    PyTuple_SET_ITEM(args.get(), 0, Object::share(context).release());
    for (size_t i = 0; i < grads.size(); ++i) {
      Tensor grad = grads[i];
      if (!grad.defined() && materialize && tensor_outputs[i])
        grad = engine_ops.zeros(outputs[i].sizes, {outputs[i].dtype, outputs[i].device});
      PyTuple_SET_ITEM(args.get(), static_cast<Py_ssize_t>(i) + 1, wrap(std::move(grad)));
    }
    return checked(PyObject_CallObject(backward_of(Py_TYPE(context)).get(), args.get()));
  }

  // cls.backward, or cls.vjp if that is what the user has defined.
  static Object backward_of(PyTypeObject* type) {
    Found cls = forward_class(type);
    Object inherited = checked(PyObject_GetAttrString(function_base(), "backward"));
    Object backward = checked(PyObject_GetAttrString(cls.get(), "backward"));
    return backward.get() == inherited.get() ? checked(PyObject_GetAttrString(cls.get(), "vjp"))
                                             : std::move(backward);
  }

  void unpack(PyObject* returned, Gradients& results) const {
    Object all =
        PyTuple_Check(returned) ? Object::share(returned) : checked(PyTuple_Pack(1, returned));
    auto given = static_cast<size_t>(PyTuple_GET_SIZE(all.get())), wanted = tensor_inputs.size();
    while (given > wanted &&
           PyTuple_GET_ITEM(all.get(), static_cast<Py_ssize_t>(given) - 1) == Py_None)
      --given;
    check(given == wanted, "function ", name(),
          " returned an incorrect number of gradients (expected ", wanted, ", got ", given, ")");
    size_t edge = 0;
    for (size_t i = 0; i < wanted; ++i) {
      PyObject* grad = PyTuple_GET_ITEM(all.get(), static_cast<Py_ssize_t>(i));
      check_type(grad == Py_None || is_tensor(grad), "function ", name(),
                 " returned a gradient of type ", type_name(grad), " at position ", i + 1,
                 ": expected Variable or None");
      check(tensor_inputs[i] || grad == Py_None, "function ", name(),
            " returned a gradient different from None at position ", i + 1,
            ", but the corresponding forward input was not a Variable");
      if (!tensor_inputs[i]) continue;
      if (grad != Py_None) {
        results[edge] = tensor_of(grad);
        if (!is_exact_tensor(grad)) keep_gradient(grad);
      }
      ++edge;
    }
  }
};

// ---- one call of apply
// -----------------------------------------------------------------------------------

bool holds(PyObject* tuple, const Tensor& t) {
  if (!tuple || !PyTuple_Check(tuple)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    PyObject* o = PyTuple_GET_ITEM(tuple, i);
    if (is_tensor(o) && tensor_of(o).is_same(t)) return true;
  }
  return false;
}

Object tuple_attribute(PyObject* value, const char* name) {
  if (!value || value == Py_None) return checked(PyTuple_New(0));
  check_type(PyTuple_Check(value), name,
             " attribute of a Function's context is expected to be a tuple but is ",
             type_name(value));
  return Object::share(value);
}

// Does a function run that is differentiated forward by what is recorded? Then contexts note their
// arguments, which a Function's own jvp is told of.
__thread bool pushes_forward = false;

class Application {
 public:
  // `contexts` is context_class(cls).
  Application(PyTypeObject* cls, const Object& contexts, PyObject* const* args, Py_ssize_t count)
      : cls_(cls) {
    inputs_ = checked(PyTuple_New(count));
    for (Py_ssize_t i = 0; i < count; ++i)
      PyTuple_SET_ITEM(inputs_.get(), i, Object::share(args[i]).release());
    Object none = checked(PyTuple_New(0));
    auto* type = reinterpret_cast<PyTypeObject*>(contexts.get());
    context_ = checked(type->tp_new(type, none.get(), nullptr));
    prepare(count);
  }

  PyObject* run() {
    Object results = compute();
    if (__builtin_expect(pushes_forward, 0) && node_) note_arguments();
    // An output among these would keep itself alive through its node.
    Py_CLEAR(context()->to_save);
    Py_CLEAR(context()->dirty_tensors);
    Py_CLEAR(context()->non_differentiable);
    return results.release();
  }

  // (context, results): for forward mode, which reads what forward has left in the context.
  PyObject* run_for_jvp() {
    Object results = compute();
    Py_CLEAR(context()->to_save);
    return PyTuple_Pack(2, context_.get(), results.get());
  }

 private:
  void note_arguments() const {
    static Imported note("rushlight.autograd.function", "_note_arguments");
    checked(PyObject_CallFunctionObjArgs(note.get(), context_.get(), inputs_.get(), nullptr));
  }

  Object compute() {
    observer::Scope event(EventKind::Function, name());
    if (Event* e = event.event()) {
      if (node_) e->sequence = static_cast<int64_t>(node_->sequence);
      e->where = source_here();
    }
    Object output = call_forward();
    const bool single = !PyTuple_Check(output.get());
    Object outputs = single ? checked(PyTuple_Pack(1, output.get())) : std::move(output);
    mark_dirty(outputs.get());
    Object results = checked(PyTuple_New(PyTuple_GET_SIZE(outputs.get())));
    if (node_) declare_outputs(outputs.get());
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(outputs.get()); ++i)
      PyTuple_SET_ITEM(
          results.get(), i,
          link(PyTuple_GET_ITEM(outputs.get(), i), static_cast<uint32_t>(i)).release());
    if (node_) save();
    if (__builtin_expect(mode() & Trapped, 0)) look_at(results.get());
    return single ? Object::share(PyTuple_GET_ITEM(results.get(), 0)) : std::move(results);
  }

  Context* context() const { return cast(context_.get()); }
  const char* name() const { return mode() & Observed ? interned(cls_->tp_name) : ""; }

  // What forward has made outside of ops, by NumPy say, no op was looked at for.
  void look_at(PyObject* results) const {
    TensorList made;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(results); ++i)
      if (is_tensor(PyTuple_GET_ITEM(results, i)))
        made.push_back(tensor_of(PyTuple_GET_ITEM(results, i)));
    trap::check_results(name(), {}, made.data(), made.size(), node_ ? node_->sequence : 0);
  }

  void prepare(Py_ssize_t count) {
    Object needs = checked(PyTuple_New(count));
    bool any = false;
    for (Py_ssize_t i = 0; i < count; ++i) {
      PyObject* o = PyTuple_GET_ITEM(inputs_.get(), i);
      bool wanted = is_tensor(o) && requires_grad(tensor_of(o));
      any = any || wanted;
      PyTuple_SET_ITEM(needs.get(), i, wrap(wanted));
    }
    context()->needs_input_grad = needs.release();
    if (!any || !grad_enabled()) return;
    node_ = make_ref<FunctionNode>(interned(cls_->tp_name), context_.get());
    for (Py_ssize_t i = 0; i < count; ++i) {
      PyObject* o = PyTuple_GET_ITEM(inputs_.get(), i);
      node_->tensor_inputs.push_back(is_tensor(o));
      if (is_tensor(o)) node_->add_input(tensor_of(o));
    }
  }

  // forward(ctx, *args), or forward(*args) and setup_context(ctx, inputs, output).
  Object call_forward() {
    NoGradGuard guard;
    auto* cls = reinterpret_cast<PyObject*>(cls_);
    Object forward = checked(PyObject_GetAttrString(cls, "forward"));
    Object inherited = checked(PyObject_GetAttrString(function_base(), "setup_context"));
    Object setup = checked(PyObject_GetAttrString(cls, "setup_context"));
    if (setup.get() == inherited.get()) {
      Object first = checked(PyTuple_Pack(1, context_.get()));
      Object args = checked(PySequence_Concat(first.get(), inputs_.get()));
      return checked(PyObject_CallObject(forward.get(), args.get()));
    }
    Object output = checked(PyObject_CallObject(forward.get(), inputs_.get()));
    checked(PyObject_CallFunctionObjArgs(setup.get(), context_.get(), inputs_.get(), output.get(),
                                         nullptr));
    return output;
  }

  void mark_dirty(PyObject* outputs) {
    Object dirty = tuple_attribute(context()->dirty_tensors, "dirty_tensors");
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(dirty.get()); ++i) {
      PyObject* o = PyTuple_GET_ITEM(dirty.get(), i);
      check_type(is_tensor(o), "mark_dirty can only accept variables, but argument ", i,
                 " is of type ", type_name(o));
      check(holds(outputs, tensor_of(o)), cls_->tp_name,
            ": Some elements marked as dirty during the forward method were not returned as "
            "output. The inputs that are modified inplace must all be outputs of the Function.");
      check_in_place(tensor_of(o), interned(cls_->tp_name), static_cast<bool>(node_));
      bump_version(tensor_of(o), interned(cls_->tp_name));
    }
  }

  void declare_outputs(PyObject* outputs) {
    auto n = static_cast<size_t>(PyTuple_GET_SIZE(outputs));
    node_->outputs.resize(n);
    node_->materialize = context()->materialize_grads;
    for (size_t i = 0; i < n; ++i) {
      PyObject* o = PyTuple_GET_ITEM(outputs, static_cast<Py_ssize_t>(i));
      node_->tensor_outputs.push_back(is_tensor(o));
      if (is_tensor(o))
        node_->outputs[i] = {tensor_of(o).sizes(), tensor_of(o).dtype(), tensor_of(o).device()};
    }
  }

  // Makes the node the producer of an output.
  Object link(PyObject* output, uint32_t nr) {
    if (!is_tensor(output)) return Object::share(output);
    Tensor t = tensor_of(output);
    const bool input = holds(inputs_.get(), t), dirty = holds(context()->dirty_tensors, t);
    check(!dirty || input, "a tensor that was marked dirty is no input of ", cls_->tp_name,
          ": only inputs may be given to ctx.mark_dirty()");
    Object taken_over;
    if (input && !dirty) {  // a view, so that the input itself keeps its history
      NoGradGuard guard;
      if (subclasses_enabled() && has_torch_function(output)) {
        taken_over = checked(PyObject_CallMethod(output, "view_as", "O", output));
        if (!is_tensor(taken_over.get())) return taken_over;
        t = tensor_of(taken_over.get());
      } else {
        t = make_view(t, alias(t));
      }
    }
    if (!dirty && grad_enabled() && t.is_view()) t.impl()->view_origin = ViewOrigin::CustomFunction;
    const bool fixed =
        !is_differentiable(t.dtype()) || holds(context()->non_differentiable, tensor_of(output));
    if (!node_ || fixed) {
      if (fixed && !dirty && t.impl()->grad_fn) t = alias(t);
      return checked(wrap(std::move(t)));
    }
    if (dirty) {
      rebase_history(t, node_, nr);
    } else {
      set_history(t, node_, nr);
    }
    return checked(wrap(std::move(t)));
  }

  void save() {
    Object list = tuple_attribute(context()->to_save, "to_save");
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(list.get()); ++i) {
      PyObject* o = PyTuple_GET_ITEM(list.get(), i);
      check_type(o == Py_None || is_tensor(o),
                 "save_for_backward can only save variables, but argument ", i, " is of type ",
                 type_name(o));
      Tensor t = o == Py_None ? Tensor() : tensor_of(o);
      const bool is_output = t.defined() && t.impl()->grad_fn.get() == node_.get();
      if (t.defined() && !is_output && !is_exact_tensor(o)) keep_object(o);
      node_->saved.emplace_back();
      node_->saved.back().save(t, is_output);
    }
  }

  void keep_object(PyObject* o) {
    PyObject*& kept = context()->saved_objects;
    if (!kept) kept = checked(PyList_New(0)).release();
    if (PyList_Append(kept, o) < 0) throw PythonError();
  }

  PyTypeObject* cls_;
  Object inputs_, context_;
  Ref<FunctionNode> node_;
};

// Does `forward` take arguments that a call may leave out, next to a setup_context, which is to see
// them too? Then the call is completed first, as it is if arguments are named.
bool may_leave_out(const Object& contexts) {
  static PyObject* const name = PyUnicode_InternFromString("_completes_calls");
  Found known = find_in_type(reinterpret_cast<PyTypeObject*>(contexts.get()), name);
  return known.get() == Py_True;
}

PyObject* apply_complete(PyObject* cls, const Object& contexts, PyObject* const* args,
                         Py_ssize_t count) {
  auto* type = reinterpret_cast<PyTypeObject*>(cls);
  PyObject* result = nullptr;
  if (function_mode_active() && mode_applies(cls, args, count, result)) return result;
  if (volatile_exists() && std::any_of(args, args + count, holds_volatile)) {
    Object all = checked(PyTuple_New(count));
    for (Py_ssize_t i = 0; i < count; ++i)
      PyTuple_SET_ITEM(all.get(), i, Object::share(args[i]).release());
    VolatileScope scope(all.get());
    Object made(Application(type, contexts, args, count).run());
    scope.mark(made.get());
    return made.release();
  }
  return Application(type, contexts, args, count).run();
}

PyObject* apply(PyObject* cls, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&]() -> PyObject* {
    const Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
    const Object contexts = context_class(reinterpret_cast<PyTypeObject*>(cls));
    if (!named && !may_leave_out(contexts)) return apply_complete(cls, contexts, args, count);
    static Imported complete("rushlight.autograd.function", "_complete_call");
    Object positional = checked(PyTuple_New(count + 1));
    PyTuple_SET_ITEM(positional.get(), 0, Object::share(cls).release());
    for (Py_ssize_t i = 0; i < count; ++i)
      PyTuple_SET_ITEM(positional.get(), i + 1, Object::share(args[i]).release());
    Object keywords = checked(PyDict_New());
    for (Py_ssize_t i = 0; i < named; ++i)
      if (PyDict_SetItem(keywords.get(), PyTuple_GET_ITEM(names, i), args[count + i]) < 0)
        throw PythonError();
    Object all = checked(PyObject_Call(complete.get(), positional.get(), keywords.get()));
    return apply_complete(cls, contexts, &PyTuple_GET_ITEM(all.get(), 0),
                          PyTuple_GET_SIZE(all.get()));
  });
}

// _apply_for_jvp(*args): (context, results).
PyObject* apply_for_jvp(PyObject* cls, PyObject* const* args, Py_ssize_t count) {
  return guarded([&] {
    auto* type = reinterpret_cast<PyTypeObject*>(cls);
    return Application(type, context_class(type), args, count).run_for_jvp();
  });
}

// _push_forward(bool): sets `pushes_forward` of this thread, and returns what it was.
PyObject* push_forward(PyObject*, PyObject* on) {
  return PyBool_FromLong(std::exchange(pushes_forward, on == Py_True));
}

// ---- the context
// -----------------------------------------------------------------------------------------

PyObject* construct(PyTypeObject* type, PyObject*, PyObject*) {
  PyObject* o = type->tp_alloc(type, 0);
  if (o) cast(o)->materialize_grads = 1;
  return o;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Context* c = cast(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(c->to_save);
  Py_VISIT(c->dirty_tensors);
  Py_VISIT(c->non_differentiable);
  Py_VISIT(c->needs_input_grad);
  Py_VISIT(c->saved_for_forward);
  Py_VISIT(c->saved_objects);
  return 0;
}

int clear(PyObject* self) {
  Context* c = cast(self);
  Py_CLEAR(c->to_save);
  Py_CLEAR(c->dirty_tensors);
  Py_CLEAR(c->non_differentiable);
  Py_CLEAR(c->needs_input_grad);
  Py_CLEAR(c->saved_for_forward);
  Py_CLEAR(c->saved_objects);
  return 0;
}

void destroy(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (cast(self)->weakrefs) PyObject_ClearWeakRefs(self);
  clear(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* saved_tensors(PyObject* self, void*) {
  return guarded([&]() -> PyObject* {
    if (cast(self)->forward_mode)
      return tuple_attribute(cast(self)->saved_for_forward, "saved_for_forward").release();
    Ref<Node> owner = node_of_context(self);
    if (!owner) return PyTuple_New(0);
    auto* node = static_cast<FunctionNode*>(owner.get());
    RunLock lock(*node);
    node->check_unreleased();
    TensorList tensors;
    for (const SavedTensor& t : node->saved) {
      // An output is of its node whether backward records or not; a hook runs in backward's mode.
      GradModeGuard recorded(grad_enabled() || !t.packed());
      tensors.push_back(t.unpack(*node));
    }
    return wrap(tensors);
  });
}

PyObject* saved_variables(PyObject* self, void*) {
  const char* text = "'saved_variables' is deprecated; use 'saved_tensors', its name today";
  return PyErr_WarnEx(PyExc_DeprecationWarning, text, 1) ? nullptr : saved_tensors(self, nullptr);
}

PyGetSetDef attributes[] = {
    {"saved_tensors", saved_tensors, nullptr, "What save_for_backward was given.", nullptr},
    {"saved_variables", saved_variables, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMemberDef members[] = {
    {"to_save", T_OBJECT, offsetof(Context, to_save), 0, nullptr},
    {"dirty_tensors", T_OBJECT, offsetof(Context, dirty_tensors), 0, nullptr},
    {"non_differentiable", T_OBJECT, offsetof(Context, non_differentiable), 0, nullptr},
    {"needs_input_grad", T_OBJECT, offsetof(Context, needs_input_grad), 0,
     "For each argument of forward, whether its gradient is wanted."},
    {"saved_for_forward", T_OBJECT, offsetof(Context, saved_for_forward), 0, nullptr},
    {"materialize_grads", T_BOOL, offsetof(Context, materialize_grads), 0, nullptr},
    {"_forward_mode", T_BOOL, offsetof(Context, forward_mode), 0, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyMethodDef methods[] = {
    {"apply", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(apply)),
     METH_FASTCALL | METH_KEYWORDS | METH_CLASS,
     "Runs forward and records a node that will run backward."},
    {"_apply_for_jvp", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(apply_for_jvp)),
     METH_FASTCALL | METH_CLASS, nullptr},
    {"_push_forward", push_forward, METH_O | METH_STATIC, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool is_context(PyObject* o) { return PyObject_TypeCheck(o, context_type); }

Ref<Node> node_of_context(PyObject* o) {
  LinkLock lock(o);
  FunctionNode* node = cast(o)->node;
  return node ? share_if_alive(node) : Ref<Node>();
}

int visit_context(Node* node, visitproc visit, void* arg) {
  auto* function = dynamic_cast<FunctionNode*>(node);
  if (function) Py_VISIT(function->context);
  return 0;
}

void init_function_type(PyObject* module, PyTypeObject* node_type) {
  PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(construct)},
                         {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
                         {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                         {Py_tp_clear, reinterpret_cast<void*>(clear)},
                         {Py_tp_getset, attributes},
                         {Py_tp_members, members},
                         {Py_tp_methods, methods},
                         {0, nullptr}};
  context_type =
      make_type(module, "rushlight.autograd._FunctionBase", sizeof(Context),
                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots, node_type);
}

}  // namespace rl::bind
