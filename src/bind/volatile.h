// Volatile tensors, the interface of 2017: what is computed from one is volatile, whatever else it
// is computed from, and is not recorded. The flag is a bit of the tensor (TensorImpl::is_volatile).
// Calls look for it only once a volatile tensor has been made: the test rides on that for modes.
#pragma once
#include <vector>

#include "bind/object.h"
#include "bind/python.h"
#include "core/thread_state.h"

namespace rl::bind {

inline bool volatile_exists() { return mode() & VolatileExists; }

// A volatile tensor, or a list or tuple that holds one.
bool holds_volatile(PyObject* o);
// Of a function whose other arguments give nothing but a shape, a type or a place, such as view_as,
// the first alone decides.
bool first_decides(const char* function);
template <class List>
bool any_volatile(const char* function, const List& args) {
  for (PyObject* o : args) {
    if (o && holds_volatile(o)) return true;
    if (first_decides(function)) return false;
  }
  return false;
}

// Calls a function of which some argument is volatile. What it returns is volatile then, and what
// it changes in place, which loses its history.
PyObject* call_volatile(PyObject* function, PyObject* args, PyObject* kwargs);

// For a call that is made by other means: what its scope runs is not recorded, and `mark` is given
// the result.
class VolatileScope {
 public:
  explicit VolatileScope(PyObject* args) { note(args); }
  void note(PyObject* argument);  // a tensor that may be changed in place, or a list of such
  void mark(PyObject* result) const;

 private:
  struct Argument {
    TensorImpl* tensor;  // borrowed
    uint32_t version;
  };
  const Argument* find(const TensorImpl* t) const;
  void mark_tensor(const Tensor& t) const;
  // The calls of a scope are not looked at again. A ModeGuard leaves bits of all threads alone.
  struct Inside {
    Inside() { mode() &= ~uint32_t(VolatileExists); }
    ~Inside() { mode() |= VolatileExists; }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
  };
  const bool recording_ = grad_enabled();
  std::vector<Argument> arguments_;
  ModeGuard guard_{VolatileCall, 0};
  Inside inside_;
};

// Of a leaf that requires no gradient.
void set_volatile(const Tensor& t, bool value);

}  // namespace rl::bind
