// Object: an owned Python reference.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

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

// Holds the GIL for a scope, from any thread.
class WithGil {
 public:
  WithGil() : state_(PyGILState_Ensure()) {}
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
  PyThreadState* state_ = nullptr;
};

}  // namespace rl::bind
