// PythonLink: the Python object that stands for a C++ one, which knows it without owning a count.
// On free-threaded Python that object may be dying in another thread; a GIL would exclude that.
#pragma once
#include <atomic>

#include "bind/object.h"
#include "core/fork_mutex.h"

namespace rl::bind {

#ifdef Py_GIL_DISABLED

// Held for a few instructions that neither run Python code nor wait.
class LinkLock {
 public:
  explicit LinkLock(const void* owner) : lock_(mutex_of(owner)) {}

 private:
  static ForkMutex& mutex_of(const void* owner);  // one of a few
  ForkLock lock_;
};

void allow_revival(PyObject* fresh);  // before the object is linked: `revive` may meet it
bool revive(PyObject* o);             // a new reference, unless it is dying; with the LinkLock held
void wait_for_dying();                // lets the thread go on in which the object is dying

#else

struct LinkLock {
  explicit LinkLock(const void*) {}
  ~LinkLock() {}
};
inline void allow_revival(PyObject*) {}
inline bool revive(PyObject* o) {
  Py_INCREF(o);
  return true;
}
inline void wait_for_dying() {}

#endif

// A new reference to the object of `owner`, of which the caller holds a count; or null.
inline PyObject* linked_object(const std::atomic<void*>& link, const void* owner) {
  for (;; wait_for_dying()) {
    LinkLock lock(owner);
    auto* o = static_cast<PyObject*>(link.load(std::memory_order_relaxed));
    if (!o || revive(o)) return o;
  }
}

// Makes `o` the object of `owner`; false if another thread was quicker.
inline bool link_object(std::atomic<void*>& link, const void* owner, void* o) {
  LinkLock lock(owner);
  if (link.load(std::memory_order_relaxed)) return false;
  link.store(o, std::memory_order_relaxed);
  return true;
}

// `o` dies: from here on its memory is looked at no more.
inline void unlink_object(std::atomic<void*>& link, const void* owner, void* o) {
  LinkLock lock(owner);
  if (link.load(std::memory_order_relaxed) == o) link.store(nullptr, std::memory_order_relaxed);
}

}  // namespace rl::bind
