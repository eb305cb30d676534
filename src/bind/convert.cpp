#include "bind/convert.h"

#include <cstdlib>
#include <cstring>
#include <limits>

namespace rl::bind {

namespace {

bool starts_with(const char* text, const char* prefix) {
  return std::strncmp(text, prefix, std::strlen(prefix)) == 0;
}

// By name, so that NumPy need not be imported: "numpy.float32", "numpy.bool" ...
NumberKind numpy_scalar_kind(const char* name) {
  if (starts_with(name, "bool")) return NumberKind::Bool;
  if (starts_with(name, "float") || starts_with(name, "longdouble") || starts_with(name, "half"))
    return NumberKind::Float;
  if (starts_with(name, "complex") || starts_with(name, "clongdouble")) return NumberKind::Complex;
  for (const char* prefix : {"int", "uint", "longlong", "ulonglong"})
    if (starts_with(name, prefix)) return NumberKind::Int;
  return NumberKind::None;
}

}  // namespace

NumberKind number_kind_slow(PyObject* o) {
  if (PyLong_Check(o)) return NumberKind::Int;
  if (PyFloat_Check(o)) return NumberKind::Float;
  if (PyComplex_Check(o)) return NumberKind::Complex;
  if (is_tensor(o)) return NumberKind::None;
  if (starts_with(Py_TYPE(o)->tp_name, "numpy.")) return numpy_scalar_kind(Py_TYPE(o)->tp_name + 6);
  return PyIndex_Check(o) && !PySequence_Check(o) ? NumberKind::Int : NumberKind::None;
}

bool is_integer_element(const Tensor& t) { return t.numel() == 1 && rl::is_integral(t.dtype()); }

bool is_integer(PyObject* o) {
  if (PyLong_CheckExact(o)) return true;
  if (is_tensor(o)) return tensor_of(o).dim() == 0 && is_integer_element(tensor_of(o));
  NumberKind kind = number_kind(o);
  if (kind != NumberKind::None) return kind == NumberKind::Int;
  if (!PyIndex_Check(o)) return false;
  Object index(PyNumber_Index(o));  // arrays of NumPy have it, but only those of one integer answer
  if (!index) clear_error();
  return static_cast<bool>(index);
}

int64_t to_int64(PyObject* o) {
  if (is_tensor(o)) return item(tensor_of(o)).to<int64_t>();
  Object index;
  if (!PyLong_Check(o)) {
    index = checked(PyNumber_Index(o));
    o = index.get();
  }
  int overflow = 0;
  int64_t value = PyLong_AsLongLongAndOverflow(o, &overflow);
  check_value(!overflow, "an integer does not fit into 64 bits");
  if (value == -1 && PyErr_Occurred()) throw PythonError{};
  return value;
}

double to_double(PyObject* o) {
  if (PyFloat_Check(o)) return PyFloat_AS_DOUBLE(o);
  if (is_tensor(o)) return item(tensor_of(o)).to<double>();
  double value = PyFloat_AsDouble(o);
  if (value == -1.0 && PyErr_Occurred()) throw PythonError{};
  return value;
}

bool to_bool(PyObject* o) {
  int truth = PyObject_IsTrue(o);
  checked(truth);
  return truth != 0;
}

Scalar to_scalar(PyObject* o) {
  switch (number_kind(o)) {
    case NumberKind::Float: return Scalar(to_double(o));
    case NumberKind::Int: return Scalar(to_int64(o));
    case NumberKind::Bool: return Scalar(to_bool(o));
    case NumberKind::Complex: {
      Py_complex c = PyComplex_AsCComplex(o);
      if (c.real == -1.0 && PyErr_Occurred()) throw PythonError{};
      return Scalar(complex128(c.real, c.imag));
    }
    case NumberKind::None: break;
  }
  check_type(is_tensor(o), "a number was expected, not ", type_name(o));
  return item(tensor_of(o));
}

Dims to_dims(PyObject* sequence) {
  Object items = items_of(sequence);
  Py_ssize_t n = PyTuple_GET_SIZE(items.get());
  Dims dims(n);
  for (Py_ssize_t i = 0; i < n; ++i) dims[i] = to_int64(PyTuple_GET_ITEM(items.get(), i));
  return dims;
}

// Free-threaded Python's allocator reserves more than there is memory, and a tuple of 10^12 items
// would fill it all: malloc refuses.
static void check_memory(Py_ssize_t items) {
  if (items < (1 << 27)) return;
  void* probe = std::malloc(static_cast<size_t>(items) * sizeof(PyObject*));
  std::free(probe);
  if (probe) return;
  PyErr_NoMemory();
  throw PythonError{};
}

Object items_of(PyObject* sequence) {
  if (PyTuple_Check(sequence)) return Object::share(sequence);
  if (PyList_Check(sequence)) return checked(PyList_AsTuple(sequence));
  if (!PySequence_Check(sequence) || !PyObject_HasAttrString(sequence, "__len__"))
    return checked(PySequence_Tuple(sequence));
  Py_ssize_t n = PySequence_Size(sequence);
  if (n < 0) throw PythonError{};
  check_memory(n);
  Object items = checked(PyTuple_New(n));
  for (Py_ssize_t i = 0; i < n; ++i)
    PyTuple_SET_ITEM(items.get(), i, checked(PySequence_GetItem(sequence, i)).release());
  return items;
}

std::string to_string(PyObject* o) {
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(o, &size);
  if (!text) throw PythonError{};
  return {text, static_cast<size_t>(size)};
}

PyObject* load_object(const void* p, DType t) { return wrap(load_scalar(p, t)); }

namespace {

// As torch: a negative number may wrap into an unsigned type, as far as its magnitude fits.
template <class T>
bool fits(const Scalar& value) {
  constexpr auto most = static_cast<double>(std::numeric_limits<T>::max());
  constexpr auto least =
      std::is_unsigned_v<T> ? -most : static_cast<double>(std::numeric_limits<T>::min());
  if (sizeof(T) == 8 && !value.is_floating() && !value.is_complex()) return true;
  double v = value.real();
  return v > least - 1 && (sizeof(T) == 8 ? v < most : v < most + 1);
}

}  // namespace

void store_scalar(void* p, DType t, const Scalar& value) {
  check(!value.is_complex() || is_complex(t) || t == DType::Bool ||
            value.to<complex128>().imag() == 0,
        "value cannot be converted to type ", name(t), " without overflow");
  visit_all("fill", t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<T>)
      check(fits<T>(value), "value cannot be converted to type ", name(t), " without overflow");
    *static_cast<T*>(p) = value.to<T>();
  });
}

const char* type_name(PyObject* o) {
  const char* name = Py_TYPE(o)->tp_name;
  const char* dot = std::strrchr(name, '.');
  return dot && !starts_with(name, "numpy.") ? dot + 1 : name;
}

Object import_attribute(const char* module, const char* name) {
  Object m = checked(PyImport_ImportModule(module));
  return checked(PyObject_GetAttrString(m.get(), name));
}

PyObject* Imported::load() {
  Object fresh = import_attribute(module_, name_);
  PyObject* found = nullptr;
  return found_.compare_exchange_strong(found, fresh.get()) ? fresh.release() : found;
}

PyObject* wrap(bool v) { return PyBool_FromLong(v); }
PyObject* wrap(int64_t v) { return PyLong_FromLongLong(v); }
PyObject* wrap(double v) { return PyFloat_FromDouble(v); }
PyObject* wrap(const Scalar& v) {
  if (v.is_bool()) return wrap(v.to<bool>());
  if (v.is_integral()) return wrap(v.to<int64_t>());
  if (v.is_floating()) return wrap(v.to<double>());
  complex128 c = v.to<complex128>();
  return PyComplex_FromDoubles(c.real(), c.imag());
}

}  // namespace rl::bind
