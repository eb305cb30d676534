#include "bind/storage_type.h"

#include <atomic>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "autograd/geometry.h"
#include "bind/convert.h"
#include "bind/errors.h"
#include "bind/python_link.h"
#include "bind/types.h"
#include "core/alignment.h"
#include "core/device_memory.h"
#include "core/device_placement.h"
#include "core/mapped_file.h"
#include "core/shared_memory.h"
#include "ops_shape.h"
#include "tensor/physical_layout.h"

namespace rl::bind {

namespace {

struct PyStorage {
  PyObject_HEAD Storage* storage;  // owns a count
  PyObject* tensor;                // weak reference to the tensor that was last asked for it
  PyObject* dict;
  PyObject* weakrefs;
};

PyTypeObject* storage_type = nullptr;

Storage* storage_of(PyObject* o) { return reinterpret_cast<PyStorage*>(o)->storage; }
unsigned char* bytes_of(PyObject* o) { return static_cast<unsigned char*>(storage_of(o)->data); }

void destroy(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  auto* o = reinterpret_cast<PyStorage*>(self);
  PyObject_GC_UnTrack(self);
  // Before any code of the program runs: from here on nothing finds the object.
  if (o->storage) unlink_object(o->storage->python, o->storage, self);
  if (o->weakrefs) PyObject_ClearWeakRefs(self);
  Py_CLEAR(o->dict);
  Py_CLEAR(o->tensor);
  if (o->storage) Ref<Storage>::adopt(o->storage);
  type->tp_free(self);
  Py_DECREF(type);
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(reinterpret_cast<PyStorage*>(self)->dict);
  return 0;
}

int clear(PyObject* self) {
  Py_CLEAR(reinterpret_cast<PyStorage*>(self)->dict);
  return 0;
}

PyObject* wrap_fresh(Ref<Storage> storage, PyTypeObject* type = storage_type) {
  Object fresh = checked(type->tp_alloc(type, 0));  // zeros
  auto* o = reinterpret_cast<PyStorage*>(fresh.get());
  allow_revival(fresh.get());
  o->storage = storage.release();
  if (link_object(o->storage->python, o->storage, o)) return fresh.release();
  return linked_object(o->storage->python, o->storage);  // of another thread, for the same storage
}

// UntypedStorage(size, device) with bytes not set, or of a buffer, with a copy of its bytes.
PyObject* construct(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"size", "device", nullptr};
  PyObject *source = nullptr, *where = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO:UntypedStorage", const_cast<char**>(names),
                                   &source, &where))
    return nullptr;
  return guarded([&] {
    Device device = where && where != Py_None ? placed(to_device(where)) : Device();
    Object bytes;  // of a sequence of ints
    if (source && (PyList_Check(source) || PyTuple_Check(source))) {
      bytes = checked(PyBytes_FromObject(source));
      source = bytes.get();
      if (device.is_meta())
        return wrap_fresh(Storage::create(PyBytes_GET_SIZE(source), device), type);
    }
    if (source && PyObject_CheckBuffer(source)) {
      Object view = checked(PyMemoryView_GetContiguous(source, PyBUF_READ, 'C'));
      const Py_buffer* buffer = PyMemoryView_GET_BUFFER(view.get());
      Ref<Storage> storage = Storage::create(buffer->len, device);
      copy_bytes(storage->data, device, buffer->buf, Device(), static_cast<size_t>(buffer->len));
      return wrap_fresh(std::move(storage), type);
    }
    int64_t size = source ? to_int64(source) : 0;
    check(size >= 0, "UntypedStorage: negative size ", size);
    return wrap_fresh(Storage::create(size, device), type);
  });
}

Py_ssize_t length(PyObject* self) { return storage_of(self)->nbytes; }

int64_t checked_index(PyObject* self, PyObject* index) {
  int64_t i = to_int64(index);  // may run Python code, which may resize the storage
  int64_t n = storage_of(self)->nbytes;
  check_index(i >= -n && i < n, "index ", i, " out of range for storage of size ", n);
  check_implemented(!storage_of(self)->device.is_meta(),
                    "a storage of the meta device has no bytes");
  return i < 0 ? i + n : i;
}

PyObject* get_item(PyObject* self, PyObject* index) {
  return guarded([&] {
    int64_t at = checked_index(self, index);
    unsigned char byte = 0;
    copy_bytes(&byte, Device(), bytes_of(self) + at, storage_of(self)->device, 1);
    return wrap(int64_t(byte));
  });
}

int set_item(PyObject* self, PyObject* index, PyObject* value) {
  Object done(guarded([&]() -> PyObject* {
    check_type(value != nullptr, "UntypedStorage does not support deleting bytes");
    check(!storage_of(self)->read_only, "UntypedStorage: the memory is read-only");
    int64_t byte = to_int64(value);
    check_value(byte >= 0 && byte < 256, "UntypedStorage: a byte must be in [0, 255], got ", byte);
    int64_t at = checked_index(self, index);
    auto given = static_cast<unsigned char>(byte);
    copy_bytes(bytes_of(self) + at, storage_of(self)->device, &given, Device(), 1);
    count_up(storage_of(self)->version, 1u);
    Py_RETURN_NONE;
  }));
  return done ? 0 : -1;
}

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  Storage* s = storage_of(self);
  if (!s->device.is_cpu()) {
    PyErr_SetString(PyExc_BufferError,
                    s->device.is_meta() ? "a storage of the meta device has no bytes"
                                        : "a storage of a GPU has no buffer; clone it to the CPU");
    return -1;
  }
  s->resizable = false;
  return PyBuffer_FillInfo(view, self, s->data, s->nbytes, s->read_only, flags);
}

PyObject* nbytes(PyObject* self, PyObject*) { return wrap(storage_of(self)->nbytes); }
PyObject* data_ptr(PyObject* self, PyObject*) { return PyLong_FromVoidPtr(storage_of(self)->data); }
PyObject* resizable(PyObject* self, PyObject*) { return wrap(storage_of(self)->resizable); }

// ---- shared memory ---------------------------------------------------------------------------

PyObject* get_is_shared(PyObject* self, PyObject*) { return wrap(is_shared(*storage_of(self))); }
PyObject* get_descriptor(PyObject* self, PyObject*) {
  return wrap(int64_t(shared_descriptor(*storage_of(self))));
}

int32_t count_of(const Storage* s) { return s->refs.load(std::memory_order_acquire); }

// Moves the bytes of `storage`, and with them the tensors that are known to look at them: `t` and
// the base it is a view of. Tensors keep the address of their first element, so if there are
// others, which cannot be found, nothing moves: false.
bool move_with(TensorImpl* t, Storage* storage, bool in_use) {
  Storage* root = storage->alias_of ? storage->alias_of.get() : storage;
  int32_t here = storage->python ? 1 : 0, at_root = root->python ? 1 : 0;
  std::vector<TensorImpl*> users;
  for (; t; t = t->base.get()) {
    if (t->storage.get() == storage) ++here;
    else if (t->storage.get() == root) ++at_root;
    else continue;
    users.push_back(t);
  }
  if (count_of(storage) != here) return false;
  if (root != storage && count_of(root) != at_root + 1) return false;
  move_to_shared(*root, in_use);
  storage->data = root->data;
  storage->read_only = false;
  for (TensorImpl* user : users) user->refresh();
  return true;
}

// What a weak reference refers to, or nothing.
Object referent(PyObject* reference) {
  PyObject* found = nullptr;
#if PY_VERSION_HEX >= 0x030D0000
  if (PyWeakref_GetRef(reference, &found) < 0) throw PythonError{};
#else
  found = Py_NewRef(PyWeakref_GetObject(reference));
#endif
  return Object(found);
}

// UntypedStorage._try_share(in_use): are the bytes in shared memory now?
PyObject* try_share(PyObject* self, PyObject* in_use) {
  return guarded([&] {
    Storage* s = storage_of(self);
    check(!s->device.is_meta(), "share_memory_: a storage of the meta device has no bytes");
    if (is_shared(*s)) return wrap(true);
    Object reference;
    {
      LinkLock lock(self);
      reference = Object::share(reinterpret_cast<PyStorage*>(self)->tensor);
    }
    Object tensor = reference ? referent(reference.get()) : Object();
    bool known = tensor && is_tensor(tensor.get());
    TensorImpl* user = known ? tensor_of(tensor.get()).impl() : nullptr;
    return wrap(move_with(user, s, in_use == Py_True));
  });
}

// UntypedStorage._new_shared(size, *, device): in shared memory, or that of a GPU.
PyObject* new_shared(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"size", "device", nullptr};
  long long n = 0;
  PyObject* where = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "L|$O:_new_shared", const_cast<char**>(names), &n,
                                   &where))
    return nullptr;
  return guarded([&] {
    check(n >= 0, "UntypedStorage._new_shared: negative size ", n);
    Device device = where && where != Py_None ? placed(to_device(where)) : Device();
    return wrap_fresh(device.is_cpu() ? create_shared(n) : Storage::create(n, device));
  });
}

// UntypedStorage._from_descriptor(descriptor, nbytes, keep)
PyObject* from_descriptor(PyObject*, PyObject* args) {
  int descriptor, keep;
  long long n;
  if (!PyArg_ParseTuple(args, "iLp:_from_descriptor", &descriptor, &n, &keep)) return nullptr;
  return guarded([&] { return wrap_fresh(map_shared(descriptor, n, keep)); });
}

// ---- files -----------------------------------------------------------------------------------

std::atomic<bool> loss_pending{false};  // and only who sets it writes the name
char lost_name[256];

int raise_lost_page(void*) {
  std::string name = lost_name;
  loss_pending = false;
  PyErr_Format(PyExc_RuntimeError,
               "the file '%s' has been truncated, or can no longer be read, while its tensors are "
               "mapped into memory (load(..., mmap=True) or from_file): what is missing reads as "
               "zeros. To write a file anew that others map, write another and rename it, as "
               "save() does.",
               name.c_str());
  return -1;
}

// In a signal handler. The access that failed is one of ours or of Python's to the elements of a
// tensor, so that this thread is not inside of Py_AddPendingCall itself.
void report_lost_page(const char* name) {
  if (loss_pending.exchange(true)) return;
  std::memcpy(lost_name, name, sizeof lost_name);
  if (Py_AddPendingCall(raise_lost_page, nullptr) < 0) loss_pending = false;
}

// UntypedStorage._map_file(descriptor, nbytes, shared, name)
PyObject* map(PyObject*, PyObject* args) {
  int descriptor, shared;
  long long n;
  const char* name;
  if (!PyArg_ParseTuple(args, "iLps:_map_file", &descriptor, &n, &shared, &name)) return nullptr;
  return guarded([&] {
    on_lost_page = report_lost_page;
    return wrap_fresh(map_file(descriptor, n, shared, name));
  });
}

// UntypedStorage._lease(nbytes, flag)
PyObject* lease(PyObject* self, PyObject* args) {
  long long n, flag;
  if (!PyArg_ParseTuple(args, "LL:_lease", &n, &flag)) return nullptr;
  return guarded(
      [&] { return wrap_fresh(lease_shared(Ref<Storage>::share(storage_of(self)), n, flag)); });
}

PyObject* clone(PyObject* self, PyObject*) {
  return guarded([&] {
    Storage* s = storage_of(self);
    Ref<Storage> copy = Storage::create(s->nbytes, s->device);
    if (copy->data)
      copy_bytes(copy->data, s->device, s->data, s->device, static_cast<size_t>(s->nbytes));
    return wrap_fresh(std::move(copy), Py_TYPE(self));
  });
}

// Tensors that shared a storage share its copy.
PyObject* deep_copy(PyObject* self, PyObject* memo) {
  return guarded([&]() -> PyObject* {
    Object key = checked(PyLong_FromVoidPtr(self));
    if (Found known = find(memo, key.get())) return known.release();
    Object copy = checked(clone(self, nullptr));
    checked(PyDict_SetItem(memo, key.get(), copy.get()));
    return copy.release();
  });
}

PyObject* reduce(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    Storage* s = storage_of(self);
    Py_ssize_t size = s->data ? s->nbytes : 0;
    Object bytes = checked(PyBytes_FromStringAndSize(nullptr, size));
    copy_bytes(PyBytes_AS_STRING(bytes.get()), Device(), s->data, s->device,
               static_cast<size_t>(size));
    if (s->device.is_cpu() || !s->data) return Py_BuildValue("O(O)", storage_type, bytes.get());
    Object device = checked(wrap(s->device));
    return Py_BuildValue("O(OO)", storage_type, bytes.get(), device.get());
  });
}

PyObject* resize(PyObject* self, PyObject* size) {
  return guarded([&] {
    int64_t n = to_int64(size);
    check(n >= 0, "resize_: negative size ", n);
    Storage* storage = storage_of(self);
    // Tensors keep the address of their first element, which must not move under them.
    if (storage->refs.load() == 1) storage->resize(n);
    else if (n != storage->nbytes) storage->resize_in_place(n);
    return Object::share(self).release();
  });
}

PyObject* to_list(PyObject* self, PyObject*) {
  return guarded([&] {
    const Storage* from = storage_of(self);
    Object bytes = checked(PyBytes_FromStringAndSize(nullptr, from->nbytes));
    copy_bytes(PyBytes_AS_STRING(bytes.get()), Device(), from->data, from->device,
               static_cast<size_t>(from->nbytes));
    return PySequence_List(bytes.get());
  });
}

PyObject* get_device(PyObject* self, void*) {
  return guarded([&] { return wrap(storage_of(self)->device); });
}
PyObject* get_cdata(PyObject* self, void*) { return PyLong_FromVoidPtr(storage_of(self)); }

PyObject* repr(PyObject* self) {
  return PyUnicode_FromFormat("[torch.storage.UntypedStorage(device=%s) of size %zd]",
                              to_string(storage_of(self)->device).c_str(),
                              static_cast<Py_ssize_t>(storage_of(self)->nbytes));
}

PyGetSetDef attributes[] = {
    {"device", get_device, nullptr, nullptr, nullptr},
    {"_cdata", get_cdata, nullptr, nullptr, nullptr},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMethodDef methods[] = {
    {"nbytes", nbytes, METH_NOARGS, "The number of bytes."},
    {"size", nbytes, METH_NOARGS, "The number of bytes."},
    {"data_ptr", data_ptr, METH_NOARGS, "The address of the first byte."},
    {"resizable", resizable, METH_NOARGS, "Whether it owns its memory."},
    {"is_shared", get_is_shared, METH_NOARGS, "Whether it is in shared memory."},
    {"_try_share", try_share, METH_O, nullptr},
    {"_shared_descriptor", get_descriptor, METH_NOARGS, nullptr},
    {"_lease", lease, METH_VARARGS, nullptr},
    {"_new_shared", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(new_shared)),
     METH_VARARGS | METH_KEYWORDS | METH_STATIC, nullptr},
    {"_from_descriptor", from_descriptor, METH_VARARGS | METH_STATIC, nullptr},
    {"_map_file", map, METH_VARARGS | METH_STATIC, nullptr},
    {"__deepcopy__", deep_copy, METH_O, nullptr},
    {"__reduce__", reduce, METH_NOARGS, nullptr},
    {"clone", clone, METH_NOARGS, "A copy."},
    {"resize_", resize, METH_O, "Changes the number of bytes."},
    {"tolist", to_list, METH_NOARGS, "The bytes as ints."},
    {nullptr, nullptr, 0, nullptr}};

PyMemberDef members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(PyStorage, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(PyStorage, weakrefs), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

Tensor window_on(Storage& storage, DType dtype, int64_t offset, const Dims& sizes,
                 const Dims& strides) {
  check_aligned(storage.data, dtype);
  Tensor root = empty(Dims{0}, {dtype, storage.device});
  root.impl()->storage = Ref<Storage>::share(&storage);
  return alias(ops::as_strided(root, sizes, strides, offset));  // which checks the bounds
}

// _tensor_on_storage(storage, dtype, offset, size, stride)
PyObject* tensor_on_storage(PyObject*, PyObject* args) {
  PyObject *storage, *dtype, *size, *stride;
  long long offset;
  if (!PyArg_ParseTuple(args, "O!O!LOO", storage_type, &storage, dtype_type, &dtype, &offset, &size,
                        &stride))
    return nullptr;
  return guarded([&] {
    return wrap(
        window_on(*storage_of(storage), to_dtype(dtype), offset, to_dims(size), to_dims(stride)));
  });
}

// _without_base(view): what a function written in Python returns that made the elements itself.
PyObject* forget_base(PyObject*, PyObject* view) {
  return guarded([&] {
    check_type(is_tensor(view), "_without_base: expected a tensor, not ", type_name(view));
    return wrap(without_base(tensor_of(view)));
  });
}

// For tests of the transparent layout, which nothing else lets a program see.
PyObject* is_in_physical_layout(PyObject*, PyObject* o) {
  return PyBool_FromLong(is_tensor(o) && has_physical_layout(tensor_of(o)));
}

}  // namespace

Storage& checked_storage(PyObject* storage) {
  check_type(PyObject_TypeCheck(storage, storage_type), "expected an UntypedStorage, got ",
             Py_TYPE(storage)->tp_name);
  return *storage_of(storage);
}

PyObject* wrap(Ref<Storage> storage) { return wrap_fresh(std::move(storage)); }

bool is_storage(PyObject* o) { return PyObject_TypeCheck(o, storage_type); }

Tensor elements_of_storage(PyObject* storage, DType dtype) {
  Storage& bytes = checked_storage(storage);
  return window_on(bytes, dtype, 0, Dims{bytes.nbytes / itemsize(dtype)}, Dims{1});
}

PyObject* storage_object(PyObject* tensor) {
  const Ref<Storage>& s = tensor_of(tensor).storage();
  s->materialize();  // from now on programs may read the bytes without asking a tensor
  Object storage(linked_object(s->python, s.get()));
  while (!storage) storage = Object(wrap_fresh(s));
  Object reference = checked(PyWeakref_NewRef(tensor, nullptr));
  Object old;
  {
    LinkLock lock(storage.get());
    PyObject*& slot = reinterpret_cast<PyStorage*>(storage.get())->tensor;
    old = Object(std::exchange(slot, reference.release()));
  }
  return storage.release();
}

void init_storage_type(PyObject* module) {
  PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(construct)},
                         {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
                         {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                         {Py_tp_clear, reinterpret_cast<void*>(clear)},
                         {Py_tp_members, members},
                         {Py_tp_repr, reinterpret_cast<void*>(repr)},
                         {Py_mp_length, reinterpret_cast<void*>(length)},
                         {Py_mp_subscript, reinterpret_cast<void*>(get_item)},
                         {Py_mp_ass_subscript, reinterpret_cast<void*>(set_item)},
                         {Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
                         {Py_tp_getset, attributes},
                         {Py_tp_methods, methods},
                         {0, nullptr}};
  static PyMethodDef functions[] = {
      {"_tensor_on_storage", tensor_on_storage, METH_VARARGS, nullptr},
      {"_without_base", forget_base, METH_O, nullptr},
      {"_has_physical_layout", is_in_physical_layout, METH_O, nullptr},
      {nullptr, nullptr, 0, nullptr}};
  checked(PyModule_AddFunctions(module, functions));
  storage_type = make_type(module, "rushlight.storage.UntypedStorage", sizeof(PyStorage),
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots);
}

}  // namespace rl::bind
