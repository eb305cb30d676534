#include "bind/errors.h"

#include <new>
#include <stdexcept>

#include "bind/convert.h"
#include "core/warning.h"
#include "tensor/lazy_view.h"

namespace rl::bind {

namespace {

PyObject* out_of_memory = nullptr;   // rushlight.OutOfMemoryError, a RuntimeError as in torch
PyObject* linear_algebra = nullptr;  // rushlight.linalg.LinAlgError, likewise

PyObject* python_class(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::Runtime: return PyExc_RuntimeError;
    case ErrorKind::Value: return PyExc_ValueError;
    case ErrorKind::Type: return PyExc_TypeError;
    case ErrorKind::Index: return PyExc_IndexError;
    case ErrorKind::NotImplemented: return PyExc_NotImplementedError;
    case ErrorKind::OutOfMemory: return out_of_memory;
    case ErrorKind::Overflow: return PyExc_OverflowError;
    case ErrorKind::LinAlg: return linear_algebra;
    case ErrorKind::Assertion: return PyExc_AssertionError;
  }
  return PyExc_RuntimeError;
}

// Of the program's line, as Python's part of the library warns.
void show_warning(const char* text) {
  WithGil gil;
  static Imported warn_program("rushlight._ignored", "warn_program");
  try {
    checked(PyObject_CallFunction(warn_program.get(), "s", text));
  } catch (const PythonError&) {
    throw CarriedError::take();
  }
}

}  // namespace

CarriedError::State::~State() {
  if (!type || !Py_IsInitialized()) return;
  WithGil gil;
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
}

CarriedError CarriedError::take() {
  CarriedError error;
  PyErr_Fetch(&error.state_->type, &error.state_->value, &error.state_->traceback);
  return error;
}

bool CarriedError::is_exception() const {
  WithGil gil;
  return PyErr_GivenExceptionMatches(state_->type, PyExc_Exception);
}

void CarriedError::restore() const {
  Py_XINCREF(state_->type);
  Py_XINCREF(state_->value);
  Py_XINCREF(state_->traceback);
  PyErr_Restore(state_->type, state_->value, state_->traceback);
}

void set_error_from_current_exception() {
  abandon_lazy_writes();
  try {
    throw;
  } catch (const PythonError&) {
  } catch (const CarriedError& e) {
    e.restore();
  } catch (const Error& e) {
    PyErr_SetString(python_class(e.kind()), e.what());
  } catch (const std::bad_alloc&) {
    PyErr_SetString(out_of_memory, "out of memory: an intermediate result does not fit");
  } catch (const std::length_error&) {  // a list of more than all memory
    PyErr_SetString(out_of_memory, "out of memory: an intermediate result does not fit");
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  }
}

void init_errors(PyObject* module) {
  warning_handler = show_warning;
  out_of_memory =
      checked(PyErr_NewException("rushlight.OutOfMemoryError", PyExc_RuntimeError, nullptr))
          .release();
  checked(PyModule_AddObjectRef(module, "OutOfMemoryError", out_of_memory));
  linear_algebra =
      checked(PyErr_NewException("rushlight.linalg.LinAlgError", PyExc_RuntimeError, nullptr))
          .release();
  checked(PyModule_AddObjectRef(module, "LinAlgError", linear_algebra));
}

}  // namespace rl::bind
