// Object: an owned Python reference.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <frameobject.h>  // Python.h has it from 3.11 on
#include <structmember.h>

#include <atomic>
#include <utility>

namespace rl::bind {

class Object {
 public:
  Object() = default;
  explicit Object(PyObject* owned) : p_(owned) {}
  Object(Object&& other) noexcept : p_(other.release()) {}
  Object& operator=(Object&& other) noexcept {
    std::swap(p_, other.p_);
    return *this;
  }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  ~Object() { Py_XDECREF(p_); }
  static Object share(PyObject* borrowed) {
    Py_XINCREF(borrowed);
    return Object(borrowed);
  }

  PyObject* get() const { return p_; }
  PyObject* release() { return std::exchange(p_, nullptr); }
  explicit operator bool() const { return p_ != nullptr; }

 private:
  PyObject* p_ = nullptr;
};

// What a dict holds under a name, or nothing; no error is set. Without a GIL another thread may
// take it out of the dict, so that a reference is needed.
#ifdef Py_GIL_DISABLED
inline constexpr bool lists_change = true;  // other threads may change a list while it is read
using Found = Object;
inline Found find(PyObject* dict, PyObject* name) {
  PyObject* value = nullptr;
  if (PyDict_GetItemRef(dict, name, &value) < 0) PyErr_Clear();
  return Found(value);
}
inline Found find_in_type(PyTypeObject* type, PyObject* name) {
  return Found(_PyType_LookupRef(type, name));
}
inline Found dict_of(PyObject* o) {
  Found dict(PyObject_GenericGetDict(o, nullptr));
  if (!dict) PyErr_Clear();
  return dict;
}
#else
inline constexpr bool lists_change = false;
class Found {
 public:
  explicit Found(PyObject* borrowed) : p_(borrowed) {}
  PyObject* get() const { return p_; }
  PyObject* release() const { return Py_XNewRef(p_); }
  explicit operator bool() const { return p_ != nullptr; }

 private:
  PyObject* p_;
};
inline Found find(PyObject* dict, PyObject* name) {
  PyObject* value = PyDict_GetItemWithError(dict, name);
  if (!value && PyErr_Occurred()) PyErr_Clear();
  return Found(value);
}
inline Found find_in_type(PyTypeObject* type, PyObject* name) {
  return Found(_PyType_Lookup(type, name));
}
inline Found dict_of(PyObject* o) {
  PyObject** dict = _PyObject_GetDictPtr(o);
  return Found(dict ? *dict : nullptr);
}
#endif

// Imported when first asked for, and kept: an attribute of a module. No lock is held meanwhile, as
// an import may wait for other threads.
class Imported {
 public:
  constexpr Imported(const char* module, const char* name) : module_(module), name_(name) {}
  PyObject* get() {
    PyObject* found = found_.load(std::memory_order_acquire);
    return found ? found : load();
  }

 private:
  PyObject* load();
  const char *const module_, *const name_;
  std::atomic<PyObject*> found_{nullptr};
};

// Whether this thread has the GIL, or is attached to an interpreter without one. Not so once the
// interpreter has ended, where PyGILState_Check says yes to every thread.
bool has_gil();

// Holds the GIL for a scope, from any thread.
class WithGil {
 public:
  WithGil();
  ~WithGil() { PyGILState_Release(state_); }
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

 private:
  PyGILState_STATE state_;
};

void use_the_gil();  // from here on it guards the reference counts, and long kernels give it up

// Gives the GIL up for a scope in which this thread goes on with tensors, if there is another
// thread that could use it. The one way to do so, because reference counts must know
// (`threads_share`).
class WithoutGil {
 public:
  WithoutGil();
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  void* state_ = nullptr;
};

}  // namespace rl::bind
