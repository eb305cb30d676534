#include "bind/object.h"
#include "core/refcount.h"
#include "core/thread_state.h"

namespace rl::bind {

namespace {

// Changes while the GIL is held, so that no thread is in the middle of counting.
int threads_without_gil = 0;

bool is_only_thread() {
  return !PyThreadState_Next(PyInterpreterState_ThreadHead(PyInterpreterState_Get()));
}

}  // namespace

// A nested backward may go on in a thread of its own, for the sake of its stack.
WithoutGil::WithoutGil() {
  if (is_only_thread() && thread_state().backward_depth == 0) return;
  ++threads_without_gil;
  threads_share = true;
  state_ = PyEval_SaveThread();
}

WithoutGil::~WithoutGil() {
  if (!state_) return;
  PyEval_RestoreThread(state_);
  if (--threads_without_gil == 0) count_without_sharing();
}

void count_without_sharing() {
#ifndef Py_GIL_DISABLED
  threads_share = false;
#endif
}

}  // namespace rl::bind
