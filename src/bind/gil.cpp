#include <unistd.h>

#include "bind/object.h"
#include "core/parallel.h"
#include "core/refcount.h"
#include "core/thread_state.h"
#include "kernels/libraries.h"

namespace rl::bind {

namespace {

// Changes while the GIL is held, so that no thread is in the middle of counting.
int threads_without_gil = 0;

bool is_only_thread() {
  return !PyThreadState_Next(PyInterpreterState_ThreadHead(PyInterpreterState_Get()));
}

// When the interpreter ends, some of its versions end a thread that comes for the GIL by unwinding
// its stack, through frames that would go on with Python's objects. Later versions let it wait for
// the end of the process, and so do we.
void take_gil(PyThreadState* state) {
  try {
    PyEval_RestoreThread(state);
  } catch (...) {  // nothing but that unwinding
    for (;;) pause();
  }
}

// Kernels count no references: `threads_share` stays as it is.
void* leave_to_others() {
  if (!PyGILState_Check() || is_only_thread()) return nullptr;
  return PyEval_SaveThread();
}
void come_back(void* state) { take_gil(static_cast<PyThreadState*>(state)); }

void count_without_sharing() {
#ifndef Py_GIL_DISABLED
  threads_share = false;
#endif
}

}  // namespace

// A nested backward may go on in a thread of its own, for the sake of its stack.
WithoutGil::WithoutGil() {
  if (is_only_thread() && thread_state().backward_depth == 0) return;
  if (threads_without_gil++ == 0) threads_share = true;
  state_ = PyEval_SaveThread();
}

WithoutGil::~WithoutGil() {
  if (!state_) return;
  take_gil(state_);
  if (--threads_without_gil == 0) count_without_sharing();
}

void use_the_gil() {
  count_without_sharing();
  LongWork::interpreter = {leave_to_others, come_back};
  Py_AtExit(kernels::end_libraries);  // after which daemon threads go on without the GIL
}

}  // namespace rl::bind
