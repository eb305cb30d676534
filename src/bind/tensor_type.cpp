#include "bind/tensor_type.h"

#include <cstring>

#include "autograd/inplace.h"
#include "autograd/meta.h"
#include "bind/collector.h"
#include "bind/convert.h"
#include "bind/factory.h"
#include "bind/graph.h"
#include "bind/python_link.h"
#include "bind/registry.h"
#include "bind/sparse.h"
#include "bind/torch_function.h"
#include "core/thread_state.h"

namespace rl::bind {

PyTypeObject* tensor_base_type = nullptr;
PyTypeObject* tensor_meta_type = nullptr;
PyTypeObject* tensor_type = nullptr;
PyTypeObject* parameter_type = nullptr;

namespace {

PyTypeObject base_type;

// ---- objects ---------------------------------------------------------------------------------

PyTensor* cast(PyObject* o) { return reinterpret_cast<PyTensor*>(o); }

// Memory of dead objects of exactly Tensor, for the next ones.
constexpr int pool_capacity = 256;
PyTensor* pool[pool_capacity];
int pool_size = 0;
#ifdef Py_GIL_DISABLED
constexpr bool pools_objects = false;  // Python's allocator has a pool for each thread
#else
constexpr bool pools_objects = true;
#endif

PyTensor* allocate(PyTypeObject* type) {
  PyTensor* self;
  if (pools_objects && type == tensor_type && pool_size) {
    self = pool[--pool_size];
    PyObject_Init(reinterpret_cast<PyObject*>(self), type);
  } else {
    self = reinterpret_cast<PyTensor*>(
        type == tensor_type || type == parameter_type
            ? reinterpret_cast<PyObject*>(PyObject_GC_New(PyTensor, type))
            : type->tp_alloc(type, 0));
    if (!self) throw PythonError{};
  }
  self->impl = nullptr;
  self->dict = self->weakrefs = nullptr;
  allow_revival(reinterpret_cast<PyObject*>(self));
  return self;
}

bool has_python_state(PyTensor* self) {
  return Py_TYPE(self) != tensor_type || self->weakrefs ||
         (self->dict && PyDict_GET_SIZE(self->dict));
}

// When Python lets go of an object whose tensor lives on in the graph, the tensor holds the object
// instead, so that its attributes, its class and its identity survive.
bool hand_over_to_impl(PyTensor* self) {
  TensorImpl* impl = self->impl;
  int32_t refs = impl->refs.load(std::memory_order_acquire);
  if (refs == 1) return false;
  const bool owns_itself = may_own_itself(impl);
  if (!owns_itself && !has_python_state(self)) return false;
  auto* o = reinterpret_cast<PyObject*>(self);
  Py_SET_REFCNT(o, 1);
  if (owns_itself) {
    track_history_slow(o);
    free_own_history(o, impl);
    refs = impl->refs.load(std::memory_order_acquire);
  }
  do {
    if (refs == 1) {  // the others have gone meanwhile
      Py_DECREF(o);
      return true;
    }
  } while (!impl->refs.compare_exchange_weak(refs, refs + holds_python, std::memory_order_acq_rel,
                                             std::memory_order_relaxed));
  return true;
}

void release_object(TensorImpl* impl) {
  if (!Py_IsInitialized()) return;
  WithGil gil;
  Py_DECREF(static_cast<PyObject*>(impl->python.load(std::memory_order_relaxed)));
}

// Slots that a subclass declared with __slots__.
void clear_subclass_slots(PyObject* o) {
  for (PyTypeObject* type = Py_TYPE(o); type != tensor_base_type; type = type->tp_base) {
    if (type->tp_basicsize == type->tp_base->tp_basicsize) continue;
    PyObject *name, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(type->tp_dict, &at, &name, &value)) {
      if (!Py_IS_TYPE(value, &PyMemberDescr_Type)) continue;
      PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(value)->d_member;
      if (member->type != T_OBJECT_EX || (member->flags & READONLY)) continue;
      auto slot = reinterpret_cast<PyObject**>(reinterpret_cast<char*>(o) + member->offset);
      Py_CLEAR(*slot);
    }
  }
}

void release_contents(PyTensor* self) {
  PyTypeObject* type = Py_TYPE(self);
  if (!is_exact_tensor(reinterpret_cast<PyObject*>(self)))
    clear_subclass_slots(reinterpret_cast<PyObject*>(self));
  Py_CLEAR(self->dict);
  if (TensorImpl* impl = std::exchange(self->impl, nullptr)) Ref<TensorImpl>::adopt(impl);
  if (pools_objects && type == tensor_type && pool_size < pool_capacity) pool[pool_size++] = self;
  else type->tp_free(self);
  Py_DECREF(type);
}

// A tensor may own the next one by way of an attribute, a hook or a list, and so on for a million.
// Python's own limit to that is a number of objects, 10,000 in 3.13, which is too deep for the
// stack of a thread: with as many tensors inside each other as this, the others wait in a list. It
// is empty again when the innermost of them is done.
constexpr uint32_t deepest_release = 32;

void release_within_limit(PyTensor* self) {
  ThreadState& thread = thread_state();
  if (thread.release_depth == deepest_release) {
    self->weakrefs = static_cast<PyObject*>(std::exchange(thread.dying_objects, self));
    return;
  }
  ++thread.release_depth;
  release_contents(self);
  if (thread.release_depth == deepest_release) {
    while (auto* next = static_cast<PyTensor*>(thread.dying_objects)) {
      thread.dying_objects = std::exchange(next->weakrefs, nullptr);
      release_contents(next);
    }
  }
  --thread.release_depth;
}

void dealloc(PyObject* o) {
  PyTensor* self = cast(o);
  PyTypeObject* type = Py_TYPE(o);
  if (self->impl && hand_over_to_impl(self)) return;
  if (type->tp_finalize && PyObject_CallFinalizerFromDealloc(o) < 0) return;
  if (PyObject_GC_IsTracked(o)) PyObject_GC_UnTrack(o);
  TensorImpl* impl = self->impl;
  if (impl) {  // before any code of the program runs: from here on nothing finds the object
    unlink_object(impl->python, impl, self);
    if ((impl->meta || impl->in_own_history) && !lists_change) forget_kept(o);
  }
  if (self->weakrefs) PyObject_ClearWeakRefs(o);
  const bool owns_objects = self->dict || (impl && impl->meta) || !is_exact_tensor(o);
  if (__builtin_expect(owns_objects, 0)) release_within_limit(self);
  else release_contents(self);
}

// ---- the cyclic collector --------------------------------------------------------------------

int traverse(PyObject* o, visitproc visit, void* arg) {
  PyTensor* self = cast(o);
  Py_VISIT(self->dict);
  return self->impl ? visit_owned(o, self->impl, visit, arg) : 0;
}

int clear(PyObject* o) {
  PyTensor* self = cast(o);
  Py_CLEAR(self->dict);
  if (self->impl) clear_owned(self->impl);
  return 0;
}

// ---- attributes of instances -----------------------------------------------------------------

int set_attribute(PyObject* o, PyObject* name, PyObject* value) {
  int status = PyObject_GenericSetAttr(o, name, value);
  if (cast(o)->dict) {
    track(o);
    if (value) track_captured(value);
  }
  return status;
}

PyObject* get_dict(PyObject* o, void*) {
  PyObject* dict = PyObject_GenericGetDict(o, nullptr);
  if (dict) track(o);
  return dict;
}

int set_dict(PyObject* o, PyObject* value, void*) {
  int status = PyObject_GenericSetDict(o, value, nullptr);
  if (cast(o)->dict) track(o);
  return status;
}

PyGetSetDef dict_attribute[] = {{"__dict__", get_dict, set_dict, nullptr, nullptr},
                                {nullptr, nullptr, nullptr, nullptr, nullptr}};

// ---- construction ----------------------------------------------------------------------------

PyObject* new_tensor(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    check_type(PyType_IsSubtype(type, tensor_type), "cannot create '", type->tp_name,
               "' instances: derive from Tensor");
    return wrap_as(type, construct_legacy(args, kwargs));
  });
}

bool is_nn_parameter(PyTypeObject* type) {
  PyObject* module = PyDict_GetItemString(type->tp_dict, "__module__");
  return std::strcmp(type->tp_name, "Parameter") == 0 && module && PyUnicode_Check(module) &&
         PyUnicode_CompareWithASCIIString(module, "rushlight.nn.parameter") == 0;
}

// Subclasses get Python's own dealloc, which cannot hand an object over: put ours in its place.
int init_meta(PyObject* cls, PyObject* args, PyObject* kwargs) {
  if (PyType_Type.tp_init(cls, args, kwargs) < 0) return -1;
  auto* type = reinterpret_cast<PyTypeObject*>(cls);
  type->tp_dealloc = dealloc;
  if (is_nn_parameter(type)) {  // from here on as quick as Tensor itself
    Py_INCREF(cls);
    parameter_type = type;
  }
  return 0;
}

PyObject* repr(PyObject* self) { return tensor_repr(self); }

PyTypeObject* make_meta_type() {
  PyType_Slot slots[] = {{Py_tp_init, reinterpret_cast<void*>(init_meta)}, {0, nullptr}};
  PyType_Spec spec = {"rushlight._C._TensorMeta", 0, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                      slots};
  Object bases = checked(PyTuple_Pack(1, reinterpret_cast<PyObject*>(&PyType_Type)));
  return reinterpret_cast<PyTypeObject*>(
      checked(PyType_FromSpecWithBases(&spec, bases.get())).release());
}

void make_base_type() {
  PyVarObject head = {PyObject_HEAD_INIT(nullptr) 0};
  base_type.ob_base = head;
  Py_SET_TYPE(reinterpret_cast<PyObject*>(&base_type), tensor_meta_type);
  base_type.tp_name = "rushlight._C._TensorBase";
  base_type.tp_basicsize = sizeof(PyTensor);
  base_type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC;
  base_type.tp_dictoffset = offsetof(PyTensor, dict);
  base_type.tp_weaklistoffset = offsetof(PyTensor, weakrefs);
  base_type.tp_dealloc = dealloc;
  base_type.tp_free = PyObject_GC_Del;
  base_type.tp_traverse = traverse;
  base_type.tp_clear = clear;
  base_type.tp_setattro = set_attribute;
  base_type.tp_repr = repr;
  base_type.tp_new = new_tensor;
  base_type.tp_getset = tensor_attributes();
  base_type.tp_methods = tensor_methods();
  add_number_slots(base_type);
  add_index_slots(base_type);
  add_buffer_slots(base_type);
  checked(PyType_Ready(&base_type));
  tensor_base_type = &base_type;
  Object dict = checked(PyDescr_NewGetSet(tensor_base_type, dict_attribute));
  checked(PyDict_SetItemString(base_type.tp_dict, "__dict__", dict.get()));
}

// A class made as a class statement makes it, so that users can set its attributes.
PyTypeObject* make_class(const char* name, PyTypeObject* base) {
  Object made = checked(PyObject_CallFunction(reinterpret_cast<PyObject*>(tensor_meta_type),
                                              "s(O){s:s}", name, base, "__module__", "rushlight"));
  return reinterpret_cast<PyTypeObject*>(made.release());
}

}  // namespace

PyObject* tensor_repr(PyObject* self) {
  return guarded([&]() -> PyObject* {
    PyObject* result = nullptr;
    if (may_override(self) && overrides_method("__repr__", {self}, result)) return result;
    return PyObject_CallOneArg(import_attribute("rushlight._printing", "tensor_repr").get(), self);
  });
}

PyObject* wrap_as(PyTypeObject* type, Tensor t) {
  PyTensor* self = allocate(type);
  TensorImpl* impl = t.ref().release();
  self->impl = impl;
  impl->python.store(self, std::memory_order_relaxed);
  auto* o = reinterpret_cast<PyObject*>(self);
  if (!is_exact_tensor(o)) note_objects();
  else track_history(o);
  return o;
}

PyObject* wrap(Tensor t) {
  TensorImpl* impl = t.impl();
  if (!impl) Py_RETURN_NONE;
  for (;;) {
    if (PyObject* known = linked_object(impl->python, impl)) {
      track_history(known);  // an in-place op may have given it one
      return known;
    }
    const bool sparse = !impl->contiguous && impl->sparse;  // refresh() sees to the former
    PyTensor* self = allocate(__builtin_expect(sparse, 0) ? sparse_type() : tensor_type);
    self->impl = impl;
    if (__builtin_expect(sparse, 0)) note_objects();
    if (link_object(impl->python, impl, self)) {
      t.ref().release();
      track_history(reinterpret_cast<PyObject*>(self));
      return reinterpret_cast<PyObject*>(self);
    }
    self->impl = nullptr;
    Py_DECREF(reinterpret_cast<PyObject*>(self));
  }
}

void init_tensor_type(PyObject* module) {
  tensor_meta_type = make_meta_type();
  make_base_type();
  tensor_type = make_class("Tensor", tensor_base_type);
  parameter_type = tensor_type;  // until nn.Parameter exists
  release_python = release_object;
  init_collector();
  checked(
      PyModule_AddObjectRef(module, "_TensorMeta", reinterpret_cast<PyObject*>(tensor_meta_type)));
  checked(
      PyModule_AddObjectRef(module, "_TensorBase", reinterpret_cast<PyObject*>(tensor_base_type)));
  checked(PyModule_AddObjectRef(module, "Tensor", reinterpret_cast<PyObject*>(tensor_type)));
}

}  // namespace rl::bind
