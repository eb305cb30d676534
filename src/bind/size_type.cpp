#include "bind/convert.h"
#include "bind/types.h"

namespace rl::bind {

PyTypeObject* size_type = nullptr;

namespace {

PyObject* construct(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  Object made(PyTuple_Type.tp_new(type, args, kwargs));
  if (!made) return nullptr;
  return guarded([&]() -> PyObject* {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(made.get()); ++i) {
      PyObject* item = PyTuple_GET_ITEM(made.get(), i);
      if (PyLong_Check(item)) continue;
      check_type(is_integer(item), "torch.Size() takes an iterable of 'int' (item ", i, " is '",
                 type_name(item), "')");
      PyTuple_SET_ITEM(made.get(), i, wrap(to_int64(item)));
      Py_DECREF(item);
    }
    return made.release();
  });
}

PyObject* repr(PyObject* self) {
  Object list(PySequence_List(self));
  return list ? PyUnicode_FromFormat("torch.Size(%R)", list.get()) : nullptr;
}

// The result of a tuple operation as a Size.
PyObject* as_size(PyObject* tuple) {
  if (!tuple || !PyTuple_CheckExact(tuple)) return tuple;
  Object owned(tuple);
  Object args(PyTuple_Pack(1, tuple));
  return args ? PyTuple_Type.tp_new(size_type, args.get(), nullptr) : nullptr;
}

PyObject* subscript(PyObject* self, PyObject* index) {
  return as_size(PyTuple_Type.tp_as_mapping->mp_subscript(self, index));
}

// Size + tuple and tuple + Size are Sizes; a number slot sees both orders, a sequence slot only
// one.
PyObject* add(PyObject* a, PyObject* b) {
  if (!PyTuple_Check(a) || !PyTuple_Check(b)) Py_RETURN_NOTIMPLEMENTED;
  return as_size(PyTuple_Type.tp_as_sequence->sq_concat(a, b));
}
PyObject* concatenate(PyObject* a, PyObject* b) {
  return as_size(PyTuple_Type.tp_as_sequence->sq_concat(a, b));
}
PyObject* repeat(PyObject* self, Py_ssize_t n) {
  return as_size(PyTuple_Type.tp_as_sequence->sq_repeat(self, n));
}

PyObject* numel(PyObject* self, PyObject*) {
  return guarded([&] { return wrap(product(to_dims(self))); });
}
PyObject* reduce(PyObject* self, PyObject*) {
  Object items(PyList_AsTuple(Object(PySequence_List(self)).get()));
  return items ? Py_BuildValue("O(N)", size_type, items.release()) : nullptr;
}

PyMethodDef methods[] = {{"numel", numel, METH_NOARGS, "The product of the sizes."},
                         {"__reduce__", reduce, METH_NOARGS, nullptr},
                         {nullptr, nullptr, 0, nullptr}};

}  // namespace

PyObject* wrap_size(IntSpan sizes) {
  PyObject* made = size_type->tp_alloc(size_type, sizes.size());
  if (!made) throw PythonError{};
  for (int64_t i = 0; i < sizes.size(); ++i)
    PyTuple_SET_ITEM(made, i, PyLong_FromLongLong(sizes[i]));
  return made;
}
PyObject* wrap(const Dims& v) { return wrap_size(v); }

void init_size(PyObject* module) {
  PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(construct)},
                         {Py_tp_repr, reinterpret_cast<void*>(repr)},
                         {Py_mp_subscript, reinterpret_cast<void*>(subscript)},
                         {Py_nb_add, reinterpret_cast<void*>(add)},
                         {Py_sq_concat, reinterpret_cast<void*>(concatenate)},
                         {Py_sq_repeat, reinterpret_cast<void*>(repeat)},
                         {Py_tp_methods, methods},
                         {0, nullptr}};
  size_type = make_type(module, "rushlight.Size", 0, Py_TPFLAGS_DEFAULT, slots, &PyTuple_Type);
}

}  // namespace rl::bind
