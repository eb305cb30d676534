// KernelLock: a lock under which kernels run. They do not leave the interpreter then (LongWork):
// coming back, they would wait for a thread that has it and waits for the lock. Long work leaves it
// before.
#pragma once
#include "core/fork_mutex.h"
#include "core/parallel.h"
#include "core/thread_state.h"

namespace rl {

// A bit of the mode word: LongWork keeps the interpreter.
inline constexpr uint32_t KeepsInterpreter = 1u << 31;

// Whether the interpreter lets one thread at a time run; set by bind/.
extern bool interpreter_has_lock;

// Like LongWork, but what goes on meanwhile may count references, and wait for other threads.
class WithoutInterpreter {
 public:
  static LongWork::Interpreter interpreter;

  explicit WithoutInterpreter(bool worthwhile)
      : left_(worthwhile && interpreter.leave ? interpreter.leave() : nullptr) {}
  ~WithoutInterpreter() {
    if (left_) interpreter.enter(left_);
  }
  WithoutInterpreter(const WithoutInterpreter&) = delete;
  WithoutInterpreter& operator=(const WithoutInterpreter&) = delete;

 private:
  void* left_;
};

class KernelLock {
 public:
  KernelLock(ForkMutex& mutex, int64_t work)
      : left_(work >= 64 * default_grain), lock_(mutex), kept_(KeepsInterpreter, 0) {}

 private:
  WithoutInterpreter left_;
  ForkLock lock_;
  ModeGuard kept_;
};

}  // namespace rl
