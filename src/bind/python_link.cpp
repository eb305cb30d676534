#include "bind/python_link.h"

#include <sched.h>

#include <memory>

#ifdef Py_GIL_DISABLED

namespace rl::bind {

namespace {

constexpr int lock_count = 64;

struct Locks {
  std::unique_ptr<ForkMutex> all[lock_count];
  Locks() {
    for (auto& mutex : all) mutex = std::make_unique<ForkMutex>(ForkRank::PythonLinks);
  }
};

}  // namespace

ForkMutex& LinkLock::mutex_of(const void* owner) {
  static auto* locks = new Locks;  // objects may outlive static ones
  return *locks->all[reinterpret_cast<uintptr_t>(owner) / 64 % lock_count];
}

void wait_for_dying() {
  Py_BEGIN_ALLOW_THREADS;  // to die it may have to wait for the world, which waits for us
  sched_yield();
  Py_END_ALLOW_THREADS;
}

#if PY_VERSION_HEX >= 0x030E0000

void allow_revival(PyObject* fresh) { PyUnstable_EnableTryIncRef(fresh); }
bool revive(PyObject* o) { return PyUnstable_TryIncRef(o); }

#else

// What 3.14 made public. The count of the owning thread is its own affair; that of the others says
// by a flag that a count of zero must be told to them before the object dies.
void allow_revival(PyObject* fresh) {
  Py_ssize_t none = 0;
  __atomic_compare_exchange_n(&fresh->ob_ref_shared, &none, Py_ssize_t(_Py_REF_MAYBE_WEAKREF),
                              false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

bool revive(PyObject* o) {
  uint32_t local = __atomic_load_n(&o->ob_ref_local, __ATOMIC_RELAXED);
  if (local == _Py_IMMORTAL_REFCNT_LOCAL) return true;
  if (__atomic_load_n(&o->ob_tid, __ATOMIC_RELAXED) == _Py_ThreadId()) {
    __atomic_store_n(&o->ob_ref_local, local + 1, __ATOMIC_RELAXED);
    return true;
  }
  Py_ssize_t shared = __atomic_load_n(&o->ob_ref_shared, __ATOMIC_RELAXED);
  do {
    if (shared == 0 || shared == _Py_REF_MERGED) return false;
  } while (!__atomic_compare_exchange_n(&o->ob_ref_shared, &shared,
                                        shared + (Py_ssize_t(1) << _Py_REF_SHARED_SHIFT), false,
                                        __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
  return true;
}

#endif

}  // namespace rl::bind

#endif
