// Errors on their way between Python and C++.
#pragma once
#include <memory>

#include "bind/object.h"
#include "bind/python.h"

namespace rl::bind {

// A Python exception taken out of the interpreter, to cross C++ code that may run without the GIL.
class CarriedError {
 public:
  static CarriedError take();  // the error that is set
  void restore() const;        // with the GIL
  bool is_exception() const;   // and no interruption, such as KeyboardInterrupt

 private:
  struct State {
    PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
    ~State();
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// Runs f with the GIL; a Python error leaves as a CarriedError, which may pass through the engine.
template <class F>
auto with_python(F&& f) {
  WithGil gil;
  try {
    return f();
  } catch (const PythonError&) {
    throw CarriedError::take();
  }
}

void init_errors(PyObject* module);

}  // namespace rl::bind
