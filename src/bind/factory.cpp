// torch.tensor and its kin: nested Python data as tensors.
#include "bind/factory.h"

#include <cstring>

#include "autograd/engine.h"
#include "autograd/inplace.h"
#include "bind/args.h"
#include "bind/convert.h"
#include "bind/storage_type.h"
#include "bind/types.h"
#include "core/device_placement.h"
#include "core/warning.h"
#include "dispatch/sparse.h"
#include "ops_create.h"
#include "ops_shape.h"

namespace rl::bind {

namespace {

// ---- what the data look like
// -----------------------------------------------------------------------

bool is_sequence(PyObject* o) {
  if (PyList_CheckExact(o) || PyTuple_CheckExact(o)) return true;
  if (!PySequence_Check(o) || is_tensor(o) || PyUnicode_Check(o) || PyDict_Check(o)) return false;
  const bool sized = PySequence_Size(o) >= 0;  // an array without dims is a number
  if (!sized) clear_error();
  return sized;
}

// Elements in memory of another library.
bool is_foreign(PyObject* o) {
  if (PyList_CheckExact(o) || PyTuple_CheckExact(o) || is_number(o)) return false;
  return is_array(o) || has_dlpack(o) || is_cuda_array(o);
}
// An UntypedStorage, or a TypedStorage, which is written in Python.
bool is_any_storage(PyObject* o) {
  if (PyList_CheckExact(o) || PyTuple_CheckExact(o) || is_number(o)) return false;
  return is_storage(o) || PyObject_HasAttrString(o, "_untyped_storage");
}
// Its elements as a vector, over the same memory. Without a dtype they are taken, as in torch, for
// whole numbers, those of a TypedStorage for numbers of the default dtype, which they have to be.
Tensor elements_of(PyObject* storage, std::optional<DType> dtype) {
  if (is_storage(storage)) return elements_of_storage(storage, dtype.value_or(DType::Int64));
  Object function = import_attribute("rushlight.storage", "_elements_of");
  Object kind = checked(wrap(dtype.value_or(default_dtype())));
  Object made = checked(PyObject_CallFunctionObjArgs(function.get(), storage, kind.get(), nullptr));
  return tensor_of(made.get());
}
Tensor from_foreign(PyObject* o, ArrayUse use) {
  if (is_array(o)) return from_array(o, use);
  return has_dlpack(o) ? from_dlpack(o) : from_cuda_array(o, use);
}

// A list or tuple of the items. A list is not copied, as that costs as much as reading it; what the
// items' own code does to it meanwhile is seen by check_unchanged.
Object readable(PyObject* sequence) {
  return PyList_Check(sequence) && !lists_change ? Object::share(sequence) : items_of(sequence);
}
void check_unchanged(bool unchanged) {
  check(unchanged, "tensor(): a list became shorter while it was read");
}

// The dtype of a NumPy scalar: np.float64(1) is float64, though also a Python float.
bool numpy_scalar_dtype(PyObject* o, DType& dtype) {
  const char* type = Py_TYPE(o)->tp_name;
  if (std::strncmp(type, "numpy.", 6) != 0) return false;
  type += 6;
  for (int i = 0; i < dtype_count; ++i) {
    const char* known = dtype_infos[i].name;
    if (std::strcmp(type, known) == 0 || (i == 0 && std::strcmp(type, "bool_") == 0)) {
      dtype = static_cast<DType>(i);
      return true;
    }
  }
  return false;
}

DType element_dtype(PyObject* o) {
  DType dtype;
  if (PyFloat_CheckExact(o)) return default_dtype();
  if (PyLong_CheckExact(o)) return DType::Int64;
  if (is_tensor(o)) return tensor_of(o).dtype();
  if (numpy_scalar_dtype(o, dtype)) return dtype;
  switch (number_kind(o)) {
    case NumberKind::Bool: return DType::Bool;
    case NumberKind::Int: return DType::Int64;
    case NumberKind::Float: return default_dtype();
    case NumberKind::Complex: return to_complex(default_dtype());
    case NumberKind::None: break;
  }
  if (is_array(o)) return from_array(o, ArrayUse::Read).dtype();
  check_type(!PyUnicode_Check(o) && !PyBytes_Check(o), "new(): invalid data type '", type_name(o),
             "'");
  fail(ErrorKind::Runtime, "Could not infer dtype of ", type_name(o));
}

// Sizes from the first element of each level; `infer` then visits every element for the dtype.
Dims nested_sizes(PyObject* data) {
  Dims sizes;
  Object level = Object::share(data);
  while (is_sequence(level.get())) {
    Py_ssize_t n = PySequence_Size(level.get());
    if (n < 0) throw PythonError{};
    check_value(sizes.size() < max_dims, "too many dimensions: nested more than ", max_dims,
                " deep");
    sizes.push_back(n);
    if (n == 0) return sizes;
    Object first(PySequence_GetItem(level.get(), 0));
    if (!first) clear_error();
    check_value(static_cast<bool>(first), "could not determine the shape of object type '",
                type_name(level.get()), "': it gives no item 0");
    level = std::move(first);
    check_value(!PyUnicode_Check(level.get()), "too many dimensions 'str'");
  }
  return sizes;
}

class Inference {
 public:
  void visit(PyObject* o, int depth = 0) {
    if (!is_sequence(o) || PyBytes_Check(o)) return add(element_dtype(o));
    check_value(depth < max_dims, "too many dimensions: nested more than ", max_dims, " deep");
    Object items = readable(o);
    Py_ssize_t n = PySequence_Fast_GET_SIZE(items.get());
    for (Py_ssize_t i = 0; i < n; ++i) {
      check_unchanged(i < PySequence_Fast_GET_SIZE(items.get()));
      check_type(PySequence_Fast_GET_ITEM(items.get(), i) != o,
                 "tensor(): self-referential lists are incompatible with tensors");
      visit(Object::share(PySequence_Fast_GET_ITEM(items.get(), i)).get(), depth + 1);
    }
  }
  DType result() const { return found_ ? dtype_ : default_dtype(); }

 private:
  void add(DType t) {
    if (!found_) dtype_ = t;
    else if (t != dtype_) dtype_ = promote(dtype_, t);
    found_ = true;
  }
  DType dtype_ = DType::Float32;
  bool found_ = false;
};

// ---- copying elements
// ------------------------------------------------------------------------------

void store(char* at, DType dtype, PyObject* o) {
  if (is_tensor(o)) {
    check_value(tensor_of(o).numel() == 1,
                "only one element tensors can be converted to Python scalars");
  } else if (!is_number(o)) {
    check_type(!is_sequence(o), "'", type_name(o), "' object cannot be interpreted as a number");
    if (is_array(o)) return store_scalar(at, dtype, item(from_array(o, ArrayUse::Read)));
    const PyNumberMethods* number = Py_TYPE(o)->tp_as_number;
    if (number && number->nb_float && (rl::is_floating(dtype) || is_complex(dtype))) {
      double value = PyFloat_AsDouble(o);
      if (value == -1.0 && PyErr_Occurred()) throw PythonError{};
      return store_scalar(at, dtype, Scalar(value));
    }
    fail(ErrorKind::Type, "must be real number, not ", type_name(o));
  }
  if (PyLong_Check(o) && (dtype == DType::Bool || !is_integral_or_bool(dtype))) {
    int overflow = 0;
    PyLong_AsLongLongAndOverflow(o, &overflow);
    if (overflow) {
      double value = dtype == DType::Bool ? 1 : PyLong_AsDouble(o);
      if (value == -1.0 && PyErr_Occurred()) throw PythonError{};
      return store_scalar(at, dtype, Scalar(value));
    }
  }
  Scalar value = to_scalar(o);
  check_type(!value.is_complex() || is_complex(dtype) || dtype == DType::Bool,
             "must be real number, not complex");
  store_scalar(at, dtype, value);
}

void store_row(char* at, DType dtype, PyObject* items, Py_ssize_t n) {
  int64_t step = itemsize(dtype);
  for (Py_ssize_t i = 0; i < n; ++i, at += step) {
    check_unchanged(i < PySequence_Fast_GET_SIZE(items));
    PyObject* o = PySequence_Fast_GET_ITEM(items, i);
    if (dtype == DType::Float32 && PyFloat_CheckExact(o)) {
      *reinterpret_cast<float*>(at) = static_cast<float>(PyFloat_AS_DOUBLE(o));
    } else if (dtype == DType::Int64 && PyLong_CheckExact(o)) {
      *reinterpret_cast<int64_t*>(at) = to_int64(o);
    } else {
      store(at, dtype, Object::share(o).get());
    }
  }
}

void store_nested(const Tensor& t, int64_t dim, char* at, PyObject* data) {
  if (dim == t.dim()) return store(at, t.dtype(), data);
  const bool rows = is_tensor(data) && tensor_of(data).dim();  // among lists, after the first
  check_type(rows || is_sequence(data), "not a sequence");
  Object items = readable(data);
  Py_ssize_t n = PySequence_Fast_GET_SIZE(items.get());
  check_value(n == t.sizes()[dim], "expected sequence of length ", t.sizes()[dim], " at dim ", dim,
              " (got ", n, ")");
  if (dim + 1 == t.dim()) return store_row(at, t.dtype(), items.get(), n);
  for (Py_ssize_t i = 0; i < n; ++i) {
    check_unchanged(i < PySequence_Fast_GET_SIZE(items.get()));
    store_nested(t, dim + 1, at + i * t.strides()[dim] * itemsize(t.dtype()),
                 Object::share(PySequence_Fast_GET_ITEM(items.get(), i)).get());
  }
}

Tensor to_device_of(Tensor t, Device device) {
  if (!device.is_meta()) return device.is_cpu() ? t : ops::to(t, device, std::nullopt);
  return empty_strided(t.sizes(), t.strides(), {t.dtype(), device});
}

Tensor copy_of(const Tensor& t, DType dtype, Device device) {
  NoGradGuard guard;
  if (device.is_meta() || t.is_meta()) {
    check_implemented(device.is_meta(), "Cannot copy out of meta tensor; no data!");
    return to_device_of(t, device);
  }
  if (!is_same_device(device, t.device())) return ops::to(t, placed(device), dtype);
  return t.dtype() == dtype ? ops::clone(t) : ops::to_dtype(t, dtype);
}

void set_requires_grad(const Tensor& t, bool requires_grad) {
  check(!requires_grad || is_differentiable(t.dtype()),
        "Only Tensors of floating point and complex dtype can require gradients");
  t.impl()->requires_grad = requires_grad;
}

}  // namespace

Tensor tensor_from(PyObject* data, std::optional<DType> dtype, std::optional<Device> device) {
  if (is_tensor(data)) {
    const Tensor& t = tensor_of(data);
    if (t.is_sparse()) {
      check_implemented(dtype.value_or(t.dtype()) == t.dtype() &&
                            is_same_device(device.value_or(t.device()), t.device()),
                        "tensor: a sparse tensor as another dtype or on another device: use to()");
      NoGradGuard guard;
      return sparse::clone(t);
    }
    return copy_of(t, dtype.value_or(t.dtype()), device.value_or(t.device()));
  }
  Device place = placed(device.value_or(Device{}));
  if (is_foreign(data)) {
    Tensor shared = from_foreign(data, ArrayUse::Read);
    return copy_of(shared, dtype.value_or(shared.dtype()), place);
  }
  check_type(!PyUnicode_Check(data) && !PyBytes_Check(data), "new(): invalid data type '",
             type_name(data), "'");
  if (is_any_storage(data)) {  // shared, as in torch
    Tensor shared = elements_of(data, dtype);
    if (!device || is_same_device(place, shared.device())) return shared;
    return copy_of(shared, shared.dtype(), place);
  }
  Dims sizes = nested_sizes(data);
  if (!dtype) {
    Inference inference;
    inference.visit(data);
    dtype = inference.result();
  }
  Tensor t = empty(sizes, {*dtype, Device{}});
  if (t.numel() || t.dim() > 1) store_nested(t, 0, t.data<char>(), data);
  return to_device_of(std::move(t), place);
}

Tensor as_tensor_from(PyObject* data, std::optional<DType> dtype, std::optional<Device> device,
                      ArrayUse use) {
  const bool tensor = is_tensor(data), foreign = !tensor && is_foreign(data);
  if (!tensor && !foreign && !is_any_storage(data)) return tensor_from(data, dtype, device);
  Tensor t = tensor    ? tensor_of(data)
             : foreign ? from_foreign(data, use)
                       : elements_of(data, dtype);
  Device place = placed(device.value_or(t.device()));
  if (place != t.device()) return copy_of(t, dtype.value_or(t.dtype()), place);
  return dtype && *dtype != t.dtype() ? ops::to_dtype(t, *dtype) : t;
}

// ---- the functions
// ---------------------------------------------------------------------------------

namespace {

constexpr Parameter data_parameter = {"data", Kind::Object, true, false, false, -1};
constexpr Parameter dtype_parameter = {"dtype", Kind::DType, true, true, true, -1};
constexpr Parameter device_parameter = {"device", Kind::Device, true, true, true, -1};
constexpr Parameter grad_parameter = {"requires_grad", Kind::Bool, false, true, true, -1};
constexpr Parameter pin_parameter = {"pin_memory", Kind::Bool, false, true, true, -1};

void warn_of_tensor_as_data() {
  warn(
      "To copy construct from a tensor, it is recommended to use source.detach().clone(): here "
      "it is taken for data.");
}

bool flag(const Arguments& a, int i) { return a.given(i) && a.boolean(i); }

// Arrays of uint16, uint32 and uint64, whose tensors are made in Python.
bool is_carried_array(PyObject* o) {
  if (PyList_CheckExact(o) || PyTuple_CheckExact(o) || is_tensor(o) || !is_array(o)) return false;
  return is_unsigned_array(o);
}
PyObject* from_carried_array(PyObject* array, PyObject* dtype, bool copy) {
  Object function = import_attribute("rushlight._carried._tensor", "from_array");
  return PyObject_CallFunctionObjArgs(function.get(), array, dtype ? dtype : Py_None,
                                      copy ? Py_True : Py_False, nullptr);
}

// Complex numbers of Python are complex32 where float16 is the default; its tensors are made in
// Python, of those of complex64.
bool is_half_complex(PyObject* data, bool has_dtype, const Tensor& t) {
  return !has_dtype && t.dtype() == DType::Complex64 && default_dtype() == DType::Float16 &&
         (PyComplex_CheckExact(data) || PyList_CheckExact(data) || PyTuple_CheckExact(data));
}
PyObject* half_complex(Tensor t, bool requires_grad) {
  Object dtype = import_attribute("rushlight._absent_dtypes", "complex32");
  Object wide = checked(wrap(std::move(t)));
  Object made = checked(PyObject_CallMethod(wide.get(), "to", "O", dtype.get()));
  return PyObject_CallMethod(made.get(), "requires_grad_", "O", requires_grad ? Py_True : Py_False);
}

// torch.tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False)
PyObject* make_tensor(PyObject*, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  static const Parameter parameters[] = {data_parameter, dtype_parameter, device_parameter,
                                         grad_parameter, pin_parameter};
  static const Overload overloads[] = {
      {"tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False)",
       parameters, 5, 1}};
  static const Spec spec = {"tensor", "tensor", overloads, 1};
  return guarded([&]() -> PyObject* {
    Arguments a;
    if (a.parse(spec, nullptr, args, count, names) < 0) return a.result();
    if (is_tensor(a.object(0))) warn_of_tensor_as_data();
    if (is_carried_array(a.object(0))) return from_carried_array(a.object(0), a.object(1), true);
    Tensor t = tensor_from(a.object(0), a.dtype_or_none(1), a.device_or_none(2));
    if (is_half_complex(a.object(0), a.dtype_or_none(1).has_value(), t))
      return half_complex(std::move(t), flag(a, 3));
    set_requires_grad(t, flag(a, 3));
    return wrap(a.pinned_if_asked(4, std::move(t)));
  });
}

PyObject* make_as_tensor(PyObject*, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  static const Parameter parameters[] = {data_parameter,
                                         {"dtype", Kind::DType, true, true, false, -1},
                                         {"device", Kind::Device, true, true, false, -1}};
  static const Overload overloads[] = {
      {"as_tensor(data, dtype=None, device=None)", parameters, 3, 3}};
  static const Spec spec = {"as_tensor", "as_tensor", overloads, 1};
  return guarded([&]() -> PyObject* {
    Arguments a;
    if (a.parse(spec, nullptr, args, count, names) < 0) return a.result();
    if (is_carried_array(a.object(0))) return from_carried_array(a.object(0), a.object(1), false);
    Tensor t = as_tensor_from(a.object(0), a.dtype_or_none(1), a.device_or_none(2));
    if (is_half_complex(a.object(0), a.dtype_or_none(1).has_value(), t))
      return half_complex(std::move(t), false);
    return wrap(std::move(t));
  });
}

PyObject* make_new_tensor(PyObject* self, PyObject* const* args, Py_ssize_t count,
                          PyObject* names) {
  static const Parameter parameters[] = {{"self", Kind::Tensor, false, false, false, -1},
                                         data_parameter,
                                         dtype_parameter,
                                         device_parameter,
                                         grad_parameter,
                                         pin_parameter};
  static const Overload overloads[] = {
      {"new_tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False)",
       parameters, 6, 2}};
  static const Spec spec = {"new_tensor", "Tensor.new_tensor", overloads, 1};
  return guarded([&]() -> PyObject* {
    Arguments a;
    if (a.parse(spec, self, args, count, names) < 0) return a.result();
    if (is_tensor(a.object(1))) warn_of_tensor_as_data();
    const Tensor& like = tensor_of(self);
    Tensor t = tensor_from(a.object(1), a.dtype_or_none(2).value_or(like.dtype()),
                           a.device_or_none(3).value_or(like.device()));
    set_requires_grad(t, flag(a, 4));
    return wrap(a.pinned_if_asked(5, std::move(t)));
  });
}

// asarray of a tensor: itself where nothing is to be changed, else a copy with its history.
Tensor asarray_of(const Tensor& given, DType dtype, Device device, std::optional<bool> copy,
                  std::optional<bool> requires_grad) {
  Tensor t = given;
  const bool differs = dtype != t.dtype() || device != t.device();
  check_value(!differs || copy.value_or(true), "can't alias tensor with dtype '", t.dtype(),
              "' into dtype '", dtype, "', from device ", t.device(), " to ", device);
  if (device != t.device()) t = copy_of(t, dtype, device);
  else if (dtype != t.dtype()) t = ops::to_dtype(t, dtype);
  else if (copy.value_or(false)) t = ops::clone(t);
  if (requires_grad && t.is_leaf()) set_requires_grad(t, *requires_grad);
  else if (requires_grad && !*requires_grad) t = ops::detach(t);
  return t;
}

// torch.asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=None)
PyObject* make_asarray(PyObject*, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  static const Parameter parameters[] = {{"obj", Kind::Object, true, false, false, -1},
                                         dtype_parameter,
                                         device_parameter,
                                         {"copy", Kind::Bool, true, true, true, -1},
                                         {"requires_grad", Kind::Bool, true, true, true, -1}};
  static const Overload overloads[] = {
      {"asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=None)", parameters, 5,
       1}};
  static const Spec spec = {"asarray", "asarray", overloads, 1};
  return guarded([&]() -> PyObject* {
    Arguments a;
    if (a.parse(spec, nullptr, args, count, names) < 0) return a.result();
    PyObject* o = a.object(0);
    std::optional<DType> dtype = a.dtype_or_none(1);
    std::optional<Device> device = a.device_or_none(2);
    std::optional<bool> copy = a.boolean_or_none(3), requires_grad = a.boolean_or_none(4);
    Tensor t;
    if (is_carried_array(o)) {
      Object made(from_carried_array(o, a.object(1), copy.value_or(false)));
      if (!made || !requires_grad.value_or(false)) return made.release();
      return PyObject_CallMethod(made.get(), "requires_grad_", nullptr);
    }
    if (is_tensor(o) || PyCapsule_CheckExact(o)) {
      t = is_tensor(o) ? tensor_of(o) : from_dlpack(o);
      return wrap(asarray_of(t, dtype.value_or(t.dtype()), device.value_or(t.device()), copy,
                             requires_grad));
    }
    if (is_any_storage(o)) {  // one without elements is no empty buffer
      t = tensor_from(o, dtype, device);
      if (copy.value_or(false)) t = copy_of(t, t.dtype(), t.device());
      // A number of NumPy has a buffer too, but is a number.
    } else if (!is_number(o) && !is_array(o) && !PyUnicode_Check(o) && PyObject_CheckBuffer(o)) {
      t = share_buffer(o, dtype.value_or(default_dtype()), -1, 0);
      if (copy.value_or(false)) t = copy_of(t, t.dtype(), t.device());
    } else if (copy.value_or(false) || !is_foreign(o)) {
      DType of_number;
      check(copy.value_or(true) || !numpy_scalar_dtype(o, of_number),
            "can't alias NumPy scalars; leave out copy=False, or make an array of it");
      check_value(copy.value_or(true), "can't alias arbitrary sequence into a tensor.");
      t = tensor_from(o, dtype, device);
    } else {
      t = as_tensor_from(o, dtype, device,
                         copy.value_or(true) ? ArrayUse::ShareOrCopy : ArrayUse::Share);
      check_value(copy.value_or(true) || !t.storage()->owned,
                  "can't alias array: its dtype or device differs");
    }
    set_requires_grad(t, requires_grad.value_or(false));
    return wrap(std::move(t));
  });
}

PyObject* make_from_numpy(PyObject*, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  static const Parameter parameters[] = {{"ndarray", Kind::Object, true, false, false, -1}};
  static const Overload overloads[] = {{"from_numpy(ndarray)", parameters, 1, 1}};
  static const Spec spec = {"from_numpy", "from_numpy", overloads, 1};
  return guarded([&]() -> PyObject* {
    Arguments a;
    if (a.parse(spec, nullptr, args, count, names) < 0) return a.result();
    check_type(is_array(a.object(0)) && PySequence_Check(a.object(0)), "expected np.ndarray (got ",
               type_name(a.object(0)), ")");
    if (is_carried_array(a.object(0))) return from_carried_array(a.object(0), nullptr, false);
    return wrap(from_array(a.object(0), ArrayUse::Share));
  });
}

PyObject* make_frombuffer(PyObject*, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  static const Parameter parameters[] = {{"buffer", Kind::Object, true, false, false, -1},
                                         {"dtype", Kind::DType, false, false, true, -1},
                                         {"count", Kind::Int, false, true, true, -1},
                                         {"offset", Kind::Int, false, true, true, -1},
                                         grad_parameter};
  static const Overload overloads[] = {
      {"frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False)", parameters, 5, 1}};
  static const Spec spec = {"frombuffer", "frombuffer", overloads, 1};
  return guarded([&]() -> PyObject* {
    Arguments a;
    if (a.parse(spec, nullptr, args, count, names) < 0) return a.result();
    Tensor t = share_buffer(a.object(0), *a.dtype_or_none(1), a.given(2) ? a.integer(2) : -1,
                            a.given(3) ? a.integer(3) : 0);
    set_requires_grad(t, flag(a, 4));
    return wrap(std::move(t));
  });
}

}  // namespace

Tensor view_of_all(const Tensor& t) {
  return records(t) ? ops::expand(t, t.sizes()) : make_view(t, alias(t));
}

// Tensor(), Tensor(2, 3), Tensor(size), Tensor([1, 2]), Tensor(other)
Tensor construct_legacy(PyObject* args, PyObject* kwargs) {
  if (kwargs) {
    PyObject* device = find_item(kwargs, "device");
    PyObject* size = find_item(kwargs, "size");
    check_type(PyDict_GET_SIZE(kwargs) == (device != nullptr) + (size != nullptr),
               "Tensor(): only the keyword arguments 'size' and 'device' are accepted");
    if (size) {
      check_type(PyTuple_GET_SIZE(args) == 0, "Tensor(): expected a size or data, got both");
      return empty(to_dims(size), {default_dtype(), {}});
    }
    check(!device || device == Py_None || to_device(device) == Device{},
          "legacy constructor expects device type: cpu but device type: ",
          device && device != Py_None ? to_device(device) : Device{}, " was passed");
  }
  Py_ssize_t n = PyTuple_GET_SIZE(args);
  PyObject* first = n ? PyTuple_GET_ITEM(args, 0) : nullptr;
  if (!first) return empty(Dims{0}, {default_dtype(), {}});
  if (is_integer(first) && !is_tensor(first)) {
    for (Py_ssize_t i = 0; i < n; ++i)
      check_type(is_integer(PyTuple_GET_ITEM(args, i)), "Tensor(): sizes must be ints, not ",
                 type_name(PyTuple_GET_ITEM(args, i)));
    return empty(to_dims(args), {default_dtype(), {}});
  }
  check_type(n == 1, "Tensor() takes sizes, or one tensor or sequence; ", n,
             " arguments were given");
  if (PyObject_TypeCheck(first, size_type)) return empty(to_dims(first), {default_dtype(), {}});
  if (is_tensor(first)) return view_of_all(tensor_of(first));
  if (is_any_storage(first)) return elements_of(first, default_dtype());
  check_type(is_sequence(first) || is_array(first), "new(): data must be a sequence (got ",
             type_name(first), ")");
  return tensor_from(first, default_dtype(), std::nullopt);
}

void register_factory(Registry& registry) {
  registry.function(
      "", "tensor", make_tensor,
      "tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False)\n--\n\n"
      "A tensor with a copy of the data: numbers, nested sequences, arrays.");
  registry.function("", "as_tensor", make_as_tensor,
                    "as_tensor(data, dtype=None, device=None)\n--\n\nThe data as a tensor, sharing "
                    "memory where possible.");
  registry.function(
      "", "asarray", make_asarray,
      "asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=None)\n--\n\n"
      "obj as a tensor; copy=True always copies, copy=False never does.");
  registry.function("", "from_numpy", make_from_numpy,
                    "from_numpy(ndarray)\n--\n\nA tensor that shares the memory of a NumPy array.");
  registry.function("", "frombuffer", make_frombuffer,
                    "frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False)\n--\n\n"
                    "A 1-D tensor that shares the memory of an object with the buffer protocol.");
  registry.method("new_tensor", make_new_tensor,
                  "new_tensor($self, data, *, dtype=None, device=None, requires_grad=False, "
                  "pin_memory=False)\n--\n\n"
                  "A tensor with a copy of the data, of this tensor's dtype and device.");
}

}  // namespace rl::bind
