// Profiles and the NaN trap, as Python starts and reads them; the paths of modules for both.
#pragma once
#include "bind/python.h"
#include "core/observer.h"

namespace rl::bind {

// While it lives, `module` is the innermost whose forward runs. Asked for where the mode has
// Observed.
class ModuleScope {
 public:
  explicit ModuleScope(PyObject* module);
  ~ModuleScope();
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;

 private:
  const char* outer_;
  Event* event_ = nullptr;
};

void init_profiler(PyObject* module);

}  // namespace rl::bind
