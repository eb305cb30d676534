// The __torch_function__ protocol: subclasses and other objects that take over the functions they
// are passed to, and modes that take over all of them.
#pragma once
#include <vector>

#include "bind/object.h"
#include "bind/python.h"
#include "core/thread_state.h"

namespace rl::bind {

// A bit of the mode word: of the subclasses, only those with a __torch_dispatch__ take over, by it,
// and what `_is_of_core`: the library's own kinds of tensors and dtypes.
inline constexpr uint32_t DispatchAlone = 32;

// Not exactly a Tensor or Parameter, and its __torch_function__ is not the disabled one.
bool has_torch_function(PyObject* o);

// May an argument that is not exactly a Tensor, or a mode, take over calls now?
inline bool subclasses_enabled() { return !(mode() & NoTorchFunction); }
inline bool function_mode_active() { return mode() & FunctionMode; }
// Do all active modes only watch calls, whatever these are, as the profiler's does? Their class
// says so by a true `_observes_only`.
bool function_modes_only_observe();
// Must calls be looked at before they are made: is there a mode, or may an argument be volatile?
inline constexpr uint32_t WatchesCalls = FunctionMode | VolatileExists;
inline bool calls_are_watched() { return mode() & WatchesCalls; }

// The arguments (or members of lists) that take over, subclasses before their bases; borrowed.
using Overriding = std::vector<PyObject*>;
void collect_overriding(PyObject* o, Overriding& found);

// Asks the active mode, then each of `found`. New reference; throws PythonError.
PyObject* call_torch_function(PyObject* function, const Overriding& found, PyObject* args,
                              PyObject* kwargs);

// For methods, slots and attributes of Tensor. True if the call was taken over, or made for
// volatile arguments: then `result` is set.
bool overrides_method(const char* name, std::initializer_list<PyObject*> args, PyObject*& result);
bool overrides_attribute(PyObject* self, const char* name, const char* accessor, PyObject* value,
                         PyObject*& result);
// A custom Function is no tensor function, but a mode may take over its apply: one with a method
// apply_function(cls, args) is asked. True if it was: then `result` is set.
bool mode_applies(PyObject* cls, PyObject* const* args, Py_ssize_t count, PyObject*& result);
inline bool may_override(PyObject* self) {
  return __builtin_expect(!is_exact_tensor(self) || calls_are_watched(), 0);
}

void init_torch_function(PyObject* module);

}  // namespace rl::bind
