// One call of a library that takes seconds, which the user can stop.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <tuple>
#include <utility>

namespace rl::kernels {

// A call that runs in a thread of its own. Nothing ends a thread in the middle of a library: when
// the user interrupts the one that waits, the call goes on, and nobody looks at what it leaves.
class DetachedCall {
 public:
  virtual ~DetachedCall() = default;
  // Makes the call and waits for it. What it throws comes here, and so does an interruption.
  static int wait(const std::shared_ptr<DetachedCall>& call);

 private:
  virtual int run() = 0;
  void make();
  bool start(const std::shared_ptr<DetachedCall>& self);
  void abandon();

  std::mutex mutex_;
  std::condition_variable finished_;
  bool done_ = false, abandoned_ = false;
  int code_ = 0;
  std::exception_ptr error_;
};

// In multiply-adds: some hundredths of a second, beside which starting a thread is nothing.
inline constexpr double long_call = 2e8;

// A code of LAPACKE, which has two of its own for work memory that it cannot have.
inline int with_memory(int code) {
  if (code == -1010 || code == -1011) throw std::bad_alloc();
  return code;
}

// call(memory...), within a LibraryCall. From `long_call` on the memory belongs to the call while
// it runs, as an interruption may leave it behind: so `call` may refer to nothing else of its
// caller's.
template <class F, class... Memory>
int interruptible_call(double work, F call, Memory&... memory) {
#ifndef __EMSCRIPTEN__
  if (work >= long_call) {
    struct Owner final : DetachedCall {
      Owner(F&& f, Memory&... m) : function(std::move(f)), memory(std::move(m)...) {}
      int run() override { return std::apply(function, memory); }
      F function;
      std::tuple<Memory...> memory;
    };
    auto owner = std::make_shared<Owner>(std::move(call), memory...);
    int code = DetachedCall::wait(owner);
    std::tie(memory...) = std::move(owner->memory);
    return with_memory(code);
  }
#endif
  return with_memory(call(memory...));
}

}  // namespace rl::kernels
