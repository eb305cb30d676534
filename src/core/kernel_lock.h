// KernelLock: a lock under which kernels run. They do not leave the interpreter then
// (ScopedGilRelease): coming back, they would wait for a thread that has it and waits for the lock.
// Long work leaves it before.
#pragma once
#include "core/fork_mutex.h"
#include "core/parallel.h"
#include "core/thread_state.h"

namespace rl {

class KernelLock {
 public:
  KernelLock(ForkMutex& mutex, int64_t work)
      : left_(work >= 64 * default_grain), lock_(mutex), kept_(KeepsInterpreter, 0) {}

 private:
  ScopedGilReleaseWait left_;
  ForkLock lock_;
  ModeGuard kept_;
};

}  // namespace rl
