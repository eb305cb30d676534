// The interpreter above the core, which a thread leaves while it works so that others may run.
#pragma once

namespace rl {

// Whether it lets one thread at a time run; set by bind/.
inline bool interpreter_has_lock = true;

enum class Meanwhile {
  Computes,  // and touches nothing that the interpreter guards
  Waits,     // perhaps for other threads, and may count references
};

// While one is alive, this thread has left the interpreter, if that is worthwhile.
template <Meanwhile what> class OutsideInterpreter {
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
using LongWork = OutsideInterpreter<Meanwhile::Computes>;
using LongWait = OutsideInterpreter<Meanwhile::Waits>;

}  // namespace rl
