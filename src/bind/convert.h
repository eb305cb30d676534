// Python numbers, sequences and strings as C++ values, and single elements as Python objects.
#pragma once
#include <string>

#include "bind/object.h"
#include "bind/python.h"

namespace rl::bind {

enum class NumberKind : uint8_t { None, Bool, Int, Float, Complex };

// Of Python's numbers, NumPy's scalars and whatever has __index__; None for all else, tensors too.
NumberKind number_kind_slow(PyObject* o);
inline NumberKind number_kind(PyObject* o) {
  if (PyFloat_CheckExact(o)) return NumberKind::Float;
  if (PyLong_CheckExact(o)) return NumberKind::Int;
  if (PyBool_Check(o)) return NumberKind::Bool;
  return number_kind_slow(o);
}
inline bool is_number(PyObject* o) { return number_kind(o) != NumberKind::None; }

// What an int argument takes: an int that is no bool, or an integer tensor without dims.
bool is_integer(PyObject* o);
bool is_integer_element(const Tensor& t);  // of however many dims

// These throw PythonError or Error where `o` does not fit.
int64_t to_int64(PyObject* o);
double to_double(PyObject* o);
bool to_bool(PyObject* o);
Scalar to_scalar(PyObject* o);     // a number, or a tensor of one element
Dims to_dims(PyObject* sequence);  // a list or tuple of integers
// The items of a sequence as a tuple, which stays as it is whatever Python code runs meanwhile. Of
// a sequence that has a length it reads so many items: some never raise the IndexError that ends
// them.
Object items_of(PyObject* sequence);
std::string to_string(PyObject* o);  // of a str

// One element at `p`.
PyObject* load_object(const void* p, DType t);
// Stores a number; torch's overflow and conversion errors.
void store_scalar(void* p, DType t, const Scalar& value);

// "Tensor", "int", "list": the name of its type as errors give it.
const char* type_name(PyObject* o);

// Throws PythonError for a null result of the C API; else owns it.
inline Object checked(PyObject* result) {
  if (!result) throw PythonError{};
  return Object(result);
}
inline void checked(int status) {
  if (status < 0) throw PythonError{};
}
// After a question that was answered by an error: whether an object has an attribute, or a length.
// For want of memory it was not answered.
inline void clear_error() {
  if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_MemoryError)) throw PythonError{};
  PyErr_Clear();
}
// What a dict holds under a name, or null; borrowed.
inline PyObject* find_item(PyObject* dict, const char* name) {
  Object key = checked(PyUnicode_FromString(name));
  PyObject* found = PyDict_GetItemWithError(dict, key.get());
  if (!found && PyErr_Occurred()) throw PythonError{};
  return found;
}
// An attribute of a module that is imported on first use.
Object import_attribute(const char* module, const char* name);

}  // namespace rl::bind
