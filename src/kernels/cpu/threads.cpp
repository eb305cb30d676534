#include "kernels/cpu/threads.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>

#include "kernels/cpu/libraries.h"

#ifndef RL_WITHOUT_LAPACK
#include <cblas.h>
#endif

namespace rl::kernels {
namespace {

std::atomic<int> inside{0};
std::atomic<bool> ended{false};
thread_local int inside_here = 0;  // this thread's part of `inside`

}  // namespace

LibraryCall::LibraryCall() {
  static const int forgets = pthread_atfork(nullptr, nullptr, [] { inside.store(inside_here); });
  static_cast<void>(forgets);
  ++inside_here;
  inside.fetch_add(1);
  if (ended.load()) {
    inside.fetch_sub(1);
    for (;;) pause();
  }
#ifndef RL_WITHOUT_LAPACK
  static const bool done = (scipy_openblas_set_num_threads(1), true);
  static_cast<void>(done);
#endif
}

LibraryCall::~LibraryCall() {
  --inside_here;
  inside.fetch_sub(1);
}

void end_libraries() {
  set_num_threads(1);
  ended.store(true);
  while (inside.load() > 0) usleep(100);
}

}  // namespace rl::kernels
