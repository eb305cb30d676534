#include <algorithm>
#include <string>

#include "bind/convert.h"
#include "bind/types.h"

namespace rl::bind {

PyTypeObject* device_type = nullptr;

namespace {

struct PyDevice {
  PyObject_HEAD Device value;
};

Device value_of(PyObject* self) { return reinterpret_cast<PyDevice*>(self)->value; }

Device from_index(PyObject* index) {
  int64_t i = to_int64(index);
  check(i >= 0 && i < 128, "Device index must be in [0, 127], got ", i);
  return {DeviceType::CUDA, static_cast<int8_t>(i)};
}

// A device that torch knows and no build here has, such as mps: an object to compare with. Null
// for what is no such device.
Object absent(PyObject* type, PyObject* index) {
  if (!PyUnicode_Check(type)) return {};
  std::string kind = to_string(type);
  kind.resize(std::min(kind.find(':'), kind.size()));
  for (DeviceType t : {DeviceType::CPU, DeviceType::Meta, DeviceType::CUDA})
    if (kind == name(t)) return {};
  Object make = import_attribute("rushlight._device", "absent_device");
  Object found = checked(PyObject_CallFunctionObjArgs(make.get(), type, index, nullptr));
  return found.get() == Py_None ? Object() : std::move(found);
}

PyObject* construct(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"type", "index", nullptr};
  PyObject *type, *index = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:device", const_cast<char**>(names), &type,
                                   &index))
    return nullptr;
  return guarded([&]() -> PyObject* {
    check_type(is_device_like(type),
               "device(): argument 'type' must be str, int or torch.device, not ", type_name(type));
    if (Object other = absent(type, index)) return other.release();
    Device device = to_device(type);
    if (index != Py_None) {
      check(
          device.index < 0,
          "device(): type (string) must not include an index because index was passed explicitly: ",
          device);
      device.index = from_index(index).index;
    }
    return wrap(device);
  });
}

void destroy(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* repr(PyObject* self) {
  Device d = value_of(self);
  if (d.index < 0) return PyUnicode_FromFormat("device(type='%s')", name(d.type));
  return PyUnicode_FromFormat("device(type='%s', index=%d)", name(d.type), d.index);
}
PyObject* str(PyObject* self) { return PyUnicode_FromString(to_string(value_of(self)).c_str()); }

PyObject* compare(PyObject* a, PyObject* b, int op) {
  if (Py_TYPE(a) != device_type || Py_TYPE(b) != device_type || (op != Py_EQ && op != Py_NE))
    Py_RETURN_NOTIMPLEMENTED;
  return PyBool_FromLong((value_of(a) == value_of(b)) == (op == Py_EQ));
}
Py_hash_t hash(PyObject* self) {
  Device d = value_of(self);
  return static_cast<Py_hash_t>(d.type) * 256 + d.index + 1;
}

PyObject* get_type(PyObject* self, void*) {
  return PyUnicode_FromString(name(value_of(self).type));
}
PyObject* get_index(PyObject* self, void*) {
  if (value_of(self).index < 0) Py_RETURN_NONE;
  return PyLong_FromLong(value_of(self).index);
}

PyObject* reduce(PyObject* self, PyObject*) {
  Device d = value_of(self);
  if (d.index < 0) return Py_BuildValue("O(s)", device_type, name(d.type));
  return Py_BuildValue("O(si)", device_type, name(d.type), d.index);
}

// `with device:` sets where factories put their tensors; the front keeps that stack.
PyObject* call_front(PyObject* self, const char* function) {
  return guarded([&]() -> PyObject* {
    Object call = import_attribute("rushlight._device", function);
    checked(PyObject_CallFunctionObjArgs(call.get(), self, nullptr));
    return Object::share(self).release();
  });
}
PyObject* enter(PyObject* self, PyObject*) { return call_front(self, "enter_device"); }
PyObject* leave(PyObject* self, PyObject*) {
  Object done(call_front(self, "leave_device"));
  if (!done) return nullptr;
  Py_RETURN_NONE;
}

PyGetSetDef attributes[] = {
    {"type", get_type, nullptr, "\"cpu\", \"meta\" or \"cuda\".", nullptr},
    {"index", get_index, nullptr, "Its number among devices of the type, or None.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMethodDef methods[] = {{"__reduce__", reduce, METH_NOARGS, nullptr},
                         {"__enter__", enter, METH_NOARGS, nullptr},
                         {"__exit__", leave, METH_VARARGS, nullptr},
                         {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool is_device_like(PyObject* o) {
  return Py_TYPE(o) == device_type || PyUnicode_Check(o) || number_kind(o) == NumberKind::Int;
}

Device to_device(PyObject* o) {
  if (Py_TYPE(o) == device_type) return value_of(o);
  return PyUnicode_Check(o) ? parse_device(to_string(o)) : from_index(o);
}

PyObject* wrap(Device d) {
  static std::atomic<PyObject*> cpu{nullptr};
  const bool plain = d == Device{};
  if (plain && cpu.load(std::memory_order_acquire))
    return Object::share(cpu.load(std::memory_order_relaxed)).release();
  auto* o = PyObject_New(PyDevice, device_type);
  if (!o) throw PythonError{};
  o->value = d;
  PyObject* none = nullptr;
  if (plain && cpu.compare_exchange_strong(none, reinterpret_cast<PyObject*>(o))) Py_INCREF(o);
  return reinterpret_cast<PyObject*>(o);
}

void init_device(PyObject* module) {
  PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(construct)},
                         {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
                         {Py_tp_repr, reinterpret_cast<void*>(repr)},
                         {Py_tp_str, reinterpret_cast<void*>(str)},
                         {Py_tp_richcompare, reinterpret_cast<void*>(compare)},
                         {Py_tp_hash, reinterpret_cast<void*>(hash)},
                         {Py_tp_getset, attributes},
                         {Py_tp_methods, methods},
                         {0, nullptr}};
  device_type = make_type(module, "rushlight.device", sizeof(PyDevice), Py_TPFLAGS_DEFAULT, slots);
}

}  // namespace rl::bind
