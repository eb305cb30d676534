// The interpreter above the core, which a thread leaves while it works so that others may run.
#pragma once

#include <cstdint>

#include "core/processor.h"

namespace rl {

// Whether it lets one thread at a time run; set by bind/.
inline bool interpreter_has_lock = true;

enum class GilReleased {
  Computes,  // and touches nothing that the interpreter guards
  Waits,     // perhaps for other threads, and may count references
};

// While one is alive, this thread has left the interpreter, if that is worthwhile.
template <GilReleased what> class OutsideInterpreter {
 public:
  // Set by bind/.
  inline static void* (*leave)() = nullptr;  // gives null if nobody waits for the interpreter
  inline static void (*enter)(void* left) = nullptr;

  explicit OutsideInterpreter(bool worthwhile) : left_(worthwhile && leave ? leave() : nullptr) {}
  ~OutsideInterpreter() {
    if (left_) enter(left_);
  }
  OutsideInterpreter(const OutsideInterpreter&) = delete;
  OutsideInterpreter& operator=(const OutsideInterpreter&) = delete;

 private:
  void* left_;
};
// Lets the user stop long work, as by Ctrl-C: a loop that may take longer than a second polls one
// between parts of its work.
class Interruption {
 public:
  // Throws if the program is to be interrupted, which only the thread that handles signals learns.
  // Set by bind/.
  inline static void (*check)() = nullptr;

  void poll() {
    if (is_due()) ask();
  }
  bool is_due() {
    uint64_t now = ticks();
    bool due = now - last_ >= period;
    if (due) last_ = now;
    return due;
  }
  static void ask() {  // runs handlers of signals, so that the caller holds no lock
    if (check) check();
  }

 private:
  static constexpr uint64_t period = uint64_t(1) << 27;  // 50 ms or so
  uint64_t last_ = ticks();
};

using ScopedGilRelease = OutsideInterpreter<GilReleased::Computes>;
using ScopedGilReleaseWait = OutsideInterpreter<GilReleased::Waits>;

}  // namespace rl
