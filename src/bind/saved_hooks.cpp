// torch.autograd.graph.saved_tensors_hooks: pack and unpack functions of the user.
#include "autograd/saved_tensor.h"
#include "bind/collector.h"
#include "bind/convert.h"
#include "bind/errors.h"
#include "bind/graph.h"
#include "bind/thread_stack.h"

namespace rl::bind {

namespace {

constexpr const char* disabled_key = "rushlight.saved_tensors_hooks_disabled";

// Pairs (pack, unpack) of this thread.
ThreadStack stack("rushlight.saved_tensors_hooks");

struct PythonPacked : PackedTensor {
  PyObject *packed, *unpacker;  // owned
  PythonPacked(Object p, Object u) : packed(p.release()), unpacker(u.release()) {}
  ~PythonPacked() override {
    if (!Py_IsInitialized()) return;
    WithGil gil;
    Py_DECREF(packed);
    Py_DECREF(unpacker);
  }

  Tensor unpack() override {
    WithGil gil;
    Object result(PyObject_CallOneArg(unpacker, packed));
    if (!result) throw CarriedError::take();
    check_type(is_tensor(result.get()),
               "Output of saved tensor unpack_hook expected to be a Tensor but got result of type ",
               type_name(result.get()));
    return tensor_of(result.get());
  }
};

std::unique_ptr<PackedTensor> pack(const Tensor& t) {
  WithGil gil;
  Object pair = Object::share(stack.top());
  if (!pair) return nullptr;
  return pack_with(t, PyTuple_GET_ITEM(pair.get(), 0), PyTuple_GET_ITEM(pair.get(), 1));
}

PyObject* push(PyObject*, PyObject* args) {
  PyObject *packer, *unpacker;
  if (!PyArg_ParseTuple(args, "OO", &packer, &unpacker)) return nullptr;
  return guarded([&]() -> PyObject* {
    if (PyObject* why = find_item(thread_dict(), disabled_key))
      fail(ErrorKind::Runtime, to_string(why));
    check_type(PyCallable_Check(packer) && PyCallable_Check(unpacker),
               "saved_tensors_hooks: both hooks must be callable");
    Object pair = checked(PyTuple_Pack(2, packer, unpacker));
    stack.push(pair.get());
    mode() |= SavedHooks;
    ++SavedHooksScope::entries;
    Py_RETURN_NONE;
  });
}

PyObject* pop(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* {
    check(stack.pairs() != nullptr, "no saved_tensors_hooks are active");
    Object hooks = stack.pop();
    if (!stack.pairs()) mode() &= ~SavedHooks;
    ++SavedHooksScope::entries;
    Py_RETURN_NONE;
  });
}

PyObject* disable(PyObject*, PyObject* message) {
  return guarded([&]() -> PyObject* {
    check(!stack.pairs(), to_string(message));
    checked(PyDict_SetItemString(thread_dict(), disabled_key, message));
    Py_RETURN_NONE;
  });
}

PyObject* enable(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* {
    if (find_item(thread_dict(), disabled_key))
      checked(PyDict_DelItemString(thread_dict(), disabled_key));
    Py_RETURN_NONE;
  });
}

PyObject* disabled(PyObject*, PyObject*) {
  return guarded([&] {
    PyObject* why = find_item(thread_dict(), disabled_key);
    return Object::share(why ? why : Py_None).release();
  });
}

PyMethodDef functions[] = {{"push_saved_tensors_hooks", push, METH_VARARGS, nullptr},
                           {"pop_saved_tensors_hooks", pop, METH_NOARGS, nullptr},
                           {"disable_saved_tensors_hooks", disable, METH_O, nullptr},
                           {"enable_saved_tensors_hooks", enable, METH_NOARGS, nullptr},
                           {"saved_tensors_hooks_disabled", disabled, METH_NOARGS, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

std::unique_ptr<PackedTensor> pack_with(const Tensor& t, PyObject* packer, PyObject* unpacker) {
  const uint32_t version = t.version();
  Object argument(wrap(t));
  Object packed(argument ? PyObject_CallOneArg(packer, argument.get()) : nullptr);
  if (!packed) throw CarriedError::take();
  track_captured(packed.get());
  check(t.version() == version,
        "A saved tensor pack hook is modifying its input in place: others use that tensor too. "
        "Change a clone() of it.");
  return std::make_unique<PythonPacked>(std::move(packed), Object::share(unpacker));
}

__thread uint32_t SavedHooksScope::entries = 0;

Object SavedHooksScope::now() { return Object::share(stack.pairs()); }

void SavedHooksScope::restore() {
  stack.set(before_.get());
  if (before_) mode() |= SavedHooks;
  else mode() &= ~SavedHooks;
}

int visit_packed(const PackedTensor& packed, visitproc visit, void* arg) {
  const auto& python = static_cast<const PythonPacked&>(packed);
  Py_VISIT(python.packed);
  Py_VISIT(python.unpacker);
  return 0;
}

void init_saved_hooks(PyObject* module) {
  pack_saved = pack;
  stack.init();
  checked(PyModule_AddFunctions(module, functions));
}

}  // namespace rl::bind
