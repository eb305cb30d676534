#include "autograd/meta.h"
#include "bind/collector.h"
#include "bind/convert.h"
#include "bind/errors.h"
#include "bind/graph.h"
#include "bind/python_link.h"

namespace rl::bind {

namespace {

// The OrderedDict {id: callable} behind a list of hooks.
class HookDict {
 public:
  explicit HookDict(Object dict) : dict_(std::move(dict)) {}
  ~HookDict() {
    if (!dict_) return;
    if (!Py_IsInitialized()) {
      dict_.release();
      return;
    }
    WithGil gil;
    dict_ = Object();
  }
  HookDict(const HookDict&) = delete;
  HookDict& operator=(const HookDict&) = delete;

  PyObject* get() const { return dict_.get(); }
  void replace(Object dict) { std::swap(dict_, dict); }
  // A list of its callables now: hooks may add and remove hooks.
  Object callables() const { return checked(PyMapping_Values(dict_.get())); }
  bool empty() const { return PyDict_GET_SIZE(dict_.get()) == 0; }

 private:
  Object dict_;
};

// The gradient that a hook returns in place of `grad`, which it must resemble.
Tensor returned_in_place_of(const Tensor& grad, PyObject* result) {
  check_type(is_tensor(result), "expected Variable, but hook returned '", type_name(result), "'");
  Tensor by = tensor_of(result);
  check(grad.defined(), "a hook can't replace a None gradient with a non-None value");
  check(by.dtype() == grad.dtype() && by.device() == grad.device(),
        "a hook has changed the type of value (was ", grad.dtype(), " on ", grad.device(), ", got ",
        by.dtype(), " on ", by.device(), ")");
  check(by.sizes() == grad.sizes(), "a hook has changed the size of value (was ", grad.sizes(),
        ", got ", by.sizes(), ")");
  return by;
}

struct PythonTensorHook : TensorHook {
  HookDict hooks;
  explicit PythonTensorHook(Object dict) : hooks(std::move(dict)) {}

  Tensor call(const Tensor& grad) override {
    return with_python([&] {
      Tensor current = grad;
      bool changed = false;
      if (hooks.empty()) return Tensor();
      Object list = hooks.callables();
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i) {
        Object argument = checked(wrap(current));
        Object result =
            checked(PyObject_CallOneArg(PyList_GET_ITEM(list.get(), i), argument.get()));
        if (result.get() == Py_None) continue;
        current = returned_in_place_of(current, result.get());
        if (!is_exact_tensor(result.get())) keep_gradient(result.get());
        changed = true;
      }
      return changed ? current : Tensor();
    });
  }
};

struct PythonAccumulateHook : TensorHook {
  HookDict hooks;
  explicit PythonAccumulateHook(Object dict) : hooks(std::move(dict)) {}

  Tensor call(const Tensor& leaf) override {
    return with_python([&] {
      if (hooks.empty()) return Tensor();
      Object list = hooks.callables(), argument = checked(wrap(leaf));
      bool changed = false;
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i) {
        Object result =
            checked(PyObject_CallOneArg(PyList_GET_ITEM(list.get(), i), argument.get()));
        if (result.get() == Py_None || result.get() == argument.get()) continue;
        returned_in_place_of(leaf, result.get());
        argument = std::move(result);
        changed = true;
      }
      check(!changed, "Tensor post accumulate grad hooks should return None.");
      return Tensor();
    });
  }
};

Object pack(const Gradients& grads) {
  Object packed = checked(PyTuple_New(static_cast<Py_ssize_t>(grads.size())));
  for (size_t i = 0; i < grads.size(); ++i)
    PyTuple_SET_ITEM(packed.get(), static_cast<Py_ssize_t>(i), wrap(grads[i]));
  return packed;
}

void unpack(PyObject* result, Gradients& into) {
  check_type(PyTuple_Check(result) || (is_tensor(result) && into.size() == 1),
             "expected tuple, but hook returned '", type_name(result), "'");
  Object all = PyTuple_Check(result) ? Object::share(result) : checked(PyTuple_Pack(1, result));
  auto n = static_cast<size_t>(PyTuple_GET_SIZE(all.get()));
  check(n == into.size(), "hook returned an incorrect number of values (got ", n, ", but expected ",
        into.size(), ")");
  for (size_t i = 0; i < n; ++i) {
    PyObject* o = PyTuple_GET_ITEM(all.get(), static_cast<Py_ssize_t>(i));
    into[i] = o == Py_None ? Tensor() : returned_in_place_of(into[i], o);
  }
}

struct PythonNodeHook : NodeHook {
  HookDict hooks;
  bool before;
  PythonNodeHook(Object dict, bool runs_before) : hooks(std::move(dict)), before(runs_before) {}

  void call(Gradients& changed, const Gradients& grad_outputs) override {
    with_python([&] {
      if (hooks.empty()) return;
      Object list = hooks.callables();
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i) {
        PyObject* hook = PyList_GET_ITEM(list.get(), i);
        Object first = pack(changed);
        Object result = before ? checked(PyObject_CallOneArg(hook, first.get()))
                               : checked(PyObject_CallFunctionObjArgs(
                                     hook, first.get(), pack(grad_outputs).get(), nullptr));
        if (result.get() != Py_None) unpack(result.get(), changed);
      }
    });
  }
};

Object new_dict() {
  static Imported type("collections", "OrderedDict");
  return checked(PyObject_CallNoArgs(type.get()));
}

PyObject* add_to(PyObject* dict, PyObject* callable) {
  track_captured(callable);
  static Imported type("rushlight.utils.hooks", "RemovableHandle");
  check_type(PyCallable_Check(callable), "a hook must be callable, not ", type_name(callable));
  Object handle = checked(PyObject_CallOneArg(type.get(), dict));
  Object id = checked(PyObject_GetAttrString(handle.get(), "id"));
  checked(PyObject_SetItem(dict, id.get(), callable));
  return handle.release();
}

// The last hook of a list if it is a Python one, so that a new callable runs after all others.
template <class Hook, class Pointer>
Hook* last_of(const std::vector<Pointer>& list) {
  return list.empty() ? nullptr : dynamic_cast<Hook*>(list.back().get());
}

PythonTensorHook* tensor_hook(const Tensor& t) {
  Node* node = grad_fn(t);
  if (!node) {
    AutogradMeta* m = meta_or_null(t);
    return m ? last_of<PythonTensorHook>(m->hooks) : nullptr;
  }
  if (!node->hook_lists) return nullptr;
  const auto& list = node->hook_lists->tensor;
  for (size_t i = list.size(); i-- > 0;)
    if (list[i].nr == t.impl()->output_nr)
      return dynamic_cast<PythonTensorHook*>(list[i].hook.get());
  return nullptr;
}

PythonAccumulateHook* accumulate_hook(const Tensor& t) {
  AutogradMeta* m = meta_or_null(t);
  return m ? last_of<PythonAccumulateHook>(m->after_accumulate) : nullptr;
}

// The dict of the hook that `find` finds, or else of a new one, which `add` is given. Hooks are
// made without the lock, as Python code runs then.
template <class Hook, class Find, class Add, class... Rest>
Object dict_of_hook(const void* owner, Find find, Add add, Rest... rest) {
  auto known = [&] {
    Hook* hook = find();
    return hook ? Object::share(hook->hooks.get()) : Object();
  };
  {
    LinkLock lock(owner);
    if (Object dict = known()) return dict;
  }
  auto fresh = std::make_shared<Hook>(new_dict(), rest...);
  LinkLock lock(owner);
  if (Object dict = known()) return dict;
  add(fresh);
  return Object::share(fresh->hooks.get());
}

PyObject* dict_or_none(const HookDict* hooks) {
  return Object::share(hooks ? hooks->get() : Py_None).release();
}

// A tensor that has come to own hooks.
void show_to_collector(const Tensor& t) {
  track(Object(wrap(t)).get());
  if (!grad_fn(t)) hold_hooked_leaf(t.impl());
}

Object as_dict(PyObject* given) {
  check_type(PyDict_Check(given), "hooks must be an OrderedDict, not ", type_name(given));
  return Object::share(given);
}

}  // namespace

PyObject* get_tensor_hooks(const Tensor& t) {
  auto* hook = tensor_hook(t);
  return dict_or_none(hook ? &hook->hooks : nullptr);
}

// The dict takes the place of the one there was; None empties it. A tensor that requires no
// gradient may have hooks too, for when it will: pickles of frozen parameters assign them.
void set_tensor_hooks(const Tensor& t, PyObject* dict) {
  auto* hook = tensor_hook(t);
  if (dict == Py_None) {
    if (hook) PyDict_Clear(hook->hooks.get());
    return;
  }
  Object given = as_dict(dict);
  if (hook) {
    hook->hooks.replace(std::move(given));
  } else {
    auto fresh = std::make_shared<PythonTensorHook>(std::move(given));
    if (grad_fn(t)) add_tensor_hook(t, std::move(fresh));
    else meta(t).hooks.push_back(std::move(fresh));
  }
  show_to_collector(t);
  track_captured(dict);
}

PyObject* get_accumulate_hooks(const Tensor& t) {
  auto* hook = accumulate_hook(t);
  return dict_or_none(hook ? &hook->hooks : nullptr);
}

void set_accumulate_hooks(const Tensor& t, PyObject* dict) {
  auto* hook = accumulate_hook(t);
  if (dict == Py_None) {
    if (hook) PyDict_Clear(hook->hooks.get());
    return;
  }
  Object given = as_dict(dict);
  if (hook) hook->hooks.replace(std::move(given));
  else meta(t).after_accumulate.push_back(std::make_shared<PythonAccumulateHook>(std::move(given)));
  show_to_collector(t);
  track_captured(dict);
}

PyObject* add_python_hook(const Tensor& t, PyObject* callable) {
  check(requires_grad(t), "cannot register a hook on a tensor that doesn't require gradient");
  if (!grad_fn(t)) meta(t);  // made without the lock
  const void* owner = grad_fn(t) ? static_cast<const void*>(grad_fn(t)) : t.impl();
  Object dict = dict_of_hook<PythonTensorHook>(
      owner, [&] { return tensor_hook(t); }, [&](auto hook) { add_tensor_hook(t, hook); });
  show_to_collector(t);
  return add_to(dict.get(), callable);
}

PyObject* add_accumulate_hook(const Tensor& t, PyObject* callable) {
  check(requires_grad(t), "cannot register a hook on a tensor that doesn't require gradient");
  check(!grad_fn(t), "post accumulate grad hooks cannot be registered on non-leaf tensors");
  auto& list = meta(t).after_accumulate;
  Object dict = dict_of_hook<PythonAccumulateHook>(
      t.impl(), [&] { return accumulate_hook(t); }, [&](auto hook) { list.push_back(hook); });
  show_to_collector(t);
  return add_to(dict.get(), callable);
}

PyObject* add_node_hook(Node* node, PyObject* callable, bool before) {
  auto list = [&]() -> auto& { return before ? node->hooks().before : node->hooks().after; };
  Object dict = dict_of_hook<PythonNodeHook>(
      node, [&] { return last_of<PythonNodeHook>(list()); },
      [&](auto hook) { list().push_back(hook); }, before);
  return add_to(dict.get(), callable);
}

namespace {

// The dict of a hook that has one owner; a backward pass that calls the hooks has copies of them.
template <class Hook, class Pointer>
int visit_dict(const Pointer& hook, visitproc visit, void* arg) {
  auto* python = hook.use_count() == 1 ? dynamic_cast<Hook*>(hook.get()) : nullptr;
  if (python) Py_VISIT(python->hooks.get());
  return 0;
}

}  // namespace

int visit_hooks(TensorImpl* t, visitproc visit, void* arg) {
  auto* m = static_cast<AutogradMeta*>(t->meta.get());
  if (!m) return 0;
  int stop = 0;
  for (const auto& hook : m->hooks)
    if ((stop = visit_dict<PythonTensorHook>(hook, visit, arg))) return stop;
  for (const auto& hook : m->after_accumulate)
    if ((stop = visit_dict<PythonAccumulateHook>(hook, visit, arg))) return stop;
  return 0;
}

int visit_hooks(const Node& node, visitproc visit, void* arg) {
  if (!node.hook_lists) return 0;
  int stop = 0;
  for (const auto& on_output : node.hook_lists->tensor)
    if ((stop = visit_dict<PythonTensorHook>(on_output.hook, visit, arg))) return stop;
  for (const auto* list : {&node.hook_lists->before, &node.hook_lists->after})
    for (const auto& hook : *list)
      if ((stop = visit_dict<PythonNodeHook>(hook, visit, arg))) return stop;
  return 0;
}

void clear_hooks(const Tensor& t) {
  AutogradMeta* m = meta_or_null(t);
  if (!m) return;
  auto hooks = std::move(m->hooks);
  auto after = std::move(m->after_accumulate);
}

}  // namespace rl::bind
