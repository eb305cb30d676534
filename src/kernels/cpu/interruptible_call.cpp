#include "kernels/cpu/interruptible_call.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>

#include "core/after_fork.h"
#include "core/denormals.h"
#include "core/ended_loop.h"
#include "core/error.h"
#include "core/interpreter.h"

namespace rl::kernels {
namespace {

constexpr std::chrono::milliseconds between_polls{50};

std::atomic<int> under_way{0};    // calls that run
std::atomic<int> left_behind{0};  // those of them that nobody waits for

#ifdef __GLIBC__
// At the end of the process its libraries take down the memory that such a call works with. To wait
// for it would make the user wait after all: the process ends without them.
void end_without_libraries(int status, void*) {
  if (left_behind.load() == 0) return;
  std::fflush(nullptr);
  _exit(status);
}
#endif

void prepare_end() {
  static const bool done = [] {
    // In a child no call runs; but what one has locked in the libraries stays locked.
    pthread_atfork(nullptr, nullptr, [] { left_behind.store(under_way.exchange(0)); });
#ifdef __GLIBC__
    on_exit(end_without_libraries, nullptr);
#endif
    return true;
  }();
  static_cast<void>(done);
}

// Signals go to the threads of the program.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

void DetachedCall::make() {
  try {
    code_ = run();
  } catch (...) {
    error_ = std::current_exception();
  }
  std::lock_guard<std::mutex> lock(mutex_);
  done_ = true;
  under_way.fetch_sub(1);
  if (abandoned_) left_behind.fetch_sub(1);
  finished_.notify_one();
}

bool DetachedCall::start(const std::shared_ptr<DetachedCall>& self) {
  prepare_end();
  SignalsBlocked blocked;
  under_way.fetch_add(1);
  try {
    std::thread([self, denormals = denormal_mode()] {
      set_denormal_mode(denormals);
      self->make();
    }).detach();
  } catch (const std::exception&) {  // the system has no more threads to give, or no memory
    under_way.fetch_sub(1);
    return false;
  }
  return true;
}

void DetachedCall::abandon() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (done_) return;
  abandoned_ = true;
  left_behind.fetch_add(1);
}

int DetachedCall::wait(const std::shared_ptr<DetachedCall>& call) {
  DetachedCall& c = *call;
  if (!c.start(call)) return c.run();
  const uint64_t forks = fork_count();
  for (;;) {
    {
      std::unique_lock<std::mutex> lock(c.mutex_);
      if (c.finished_.wait_for(lock, between_polls, [&] { return c.done_; })) break;
    }
    try {
      Interruption::ask();
      check(!loop_has_ended(), "the other parts of this loop have failed");
      check(fork_count() == forks,
            "linear algebra cannot go on in the child of a fork that a signal handler made "
            "meanwhile: its thread stayed in the parent");
    } catch (...) {
      if (fork_count() == forks) c.abandon();
      throw;
    }
  }
  if (c.error_) std::rethrow_exception(c.error_);
  return c.code_;
}

}  // namespace rl::kernels
