#include <unistd.h>

#include "bind/errors.h"
#include "bind/object.h"
#include "core/interpreter.h"
#include "core/refcount.h"
#include "core/thread_state.h"
#include "kernels/cpu/libraries.h"

namespace rl::bind {

namespace {

#ifdef Py_GIL_DISABLED

// Threads always share, and to detach from the interpreter is cheap: who stops all threads, as the
// garbage collector does, need not wait then for a kernel.
bool is_only_thread() { return false; }
void begin_sharing() {}
void end_sharing() {}
void count_without_sharing() {}

#else

// Changes while the GIL is held, so that no thread is in the middle of counting.
int threads_without_gil = 0;

bool is_only_thread() {
  return !PyThreadState_Next(PyInterpreterState_ThreadHead(PyInterpreterState_Get()));
}
void count_without_sharing() { threads_share = false; }
void begin_sharing() {
  if (threads_without_gil++ == 0) threads_share = true;
}
void end_sharing() {
  if (--threads_without_gil == 0) count_without_sharing();
}

#endif

// When the interpreter ends, some of its versions end a thread that comes for the GIL by unwinding
// its stack, through frames that would go on with Python's objects. Later versions let it wait for
// the end of the process, and so do we.
[[noreturn]] void wait_for_the_end() {
  for (;;) pause();
}
bool is_main_thread() { return gettid() == getpid(); }

void take_gil(PyThreadState* state) {
  try {
    PyEval_RestoreThread(state);
  } catch (...) {  // nothing but that unwinding
    wait_for_the_end();
  }
}

// Kernels count no references: `threads_share` stays as it is.
void* leave_for_kernel() {
  if ((mode() & KeepsInterpreter) || !has_gil() || is_only_thread()) return nullptr;
  return PyEval_SaveThread();
}
void come_from_kernel(void* state) { take_gil(static_cast<PyThreadState*>(state)); }

void* leave_to_others() {
  begin_sharing();
  return PyEval_SaveThread();
}
void come_back(void* state) {
  take_gil(static_cast<PyThreadState*>(state));
  end_sharing();
  renew_mode();
}

void* leave_if_useful() {
  if ((mode() & KeepsInterpreter) || !has_gil() || is_only_thread()) return nullptr;
  return leave_to_others();
}

// Signals are handled by the thread whose number is the process's. Where it keeps the interpreter
// it is under a lock, or in the middle of a change that must be finished.
// Other threads have a turn first, for the work may have kept the interpreter until now.
void check_for_interruption() {
  { ScopedGilRelease others_run(true); }
  if ((mode() & KeepsInterpreter) || !is_main_thread() || !Py_IsInitialized()) return;
  WithGil gil;
  if (PyErr_Occurred()) return;
  if (PyErr_CheckSignals() < 0) throw CarriedError::take();
}

}  // namespace

bool has_gil() {
#if PY_VERSION_HEX >= 0x030D0000
  PyThreadState* current = PyThreadState_GetUnchecked();
#else
  PyThreadState* current = _PyThreadState_UncheckedGet();
#endif
  return current && current == PyGILState_GetThisThreadState();
}

WithGil::WithGil() {
  if (!Py_IsInitialized() && !has_gil() && !is_main_thread()) wait_for_the_end();
  try {
    state_ = PyGILState_Ensure();
  } catch (...) {  // as in take_gil
    wait_for_the_end();
  }
}

// A nested backward may go on in a thread of its own, for the sake of its stack.
WithoutGil::WithoutGil() {
  if (is_only_thread() && thread_state().backward_depth == 0) return;
  state_ = leave_to_others();
}

WithoutGil::~WithoutGil() {
  if (state_) come_back(state_);
}

void use_the_gil() {
#ifdef Py_GIL_DISABLED
  interpreter_has_lock = false;
#endif
  count_without_sharing();
  Interruption::check = check_for_interruption;
  ScopedGilRelease::leave = leave_for_kernel;
  ScopedGilRelease::enter = come_from_kernel;
  ScopedGilReleaseWait::leave = leave_if_useful;
  ScopedGilReleaseWait::enter = come_back;
  Py_AtExit(kernels::end_libraries);  // after which daemon threads go on without the GIL
}

}  // namespace rl::bind
