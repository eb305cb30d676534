// Where generated and hand-written functions become Python ones.
#pragma once
#include "bind/python.h"

namespace rl::bind {

using FastFunction = PyObject* (*)(PyObject* self, PyObject* const* args, Py_ssize_t count,
                                   PyObject* names);

// `doc` opens with "name(signature)\n--\n\n", from which Python makes __text_signature__.
// Names and docs must outlive the module: literals.
class Registry {
 public:
  explicit Registry(PyObject* module) : module_(module) {}
  // A method of Tensor; `name` may be "__add__"-like only for what the number slots do not cover.
  void method(const char* name, FastFunction fn, const char* doc);
  // A builtin function of `module`: "" for rushlight itself, else "linalg", ... Those of
  // "nn.functional" take attributes (bind/function_type.h).
  // It is kept in the dict _C._functions[module] and pickles by its public name
  // rushlight.<module>.<name>.
  void function(const char* module, const char* name, FastFunction fn, const char* doc);
  PyObject* module() const { return module_; }

 private:
  PyObject* namespace_of(const char* module);
  PyObject* module_;
};

}  // namespace rl::bind
