#include "kernels/cpu/threads.h"

#include <cblas.h>
#ifdef _OPENMP
#include <omp.h>
#endif
#include <unistd.h>

#include <atomic>

#include "kernels/cpu/libraries.h"

namespace rl::kernels {
namespace {

std::atomic<int> inside{0};
std::atomic<bool> ended{false};

#ifdef _OPENMP
int library_threads() { return omp_get_max_threads(); }
void set_library_threads(int n) { omp_set_num_threads(n); }
#else  // a build without oneDNN
int library_threads() { return 1; }
void set_library_threads(int) {}
#endif

}  // namespace

LibraryCall::LibraryCall() : openmp_threads_(library_threads()) {
  inside.fetch_add(1);
  if (ended.load()) {
    inside.fetch_sub(1);
    for (;;) pause();
  }
  if (openmp_threads_ != 1) set_library_threads(1);
  static const bool done = (scipy_openblas_set_num_threads(1), true);
  static_cast<void>(done);
}

LibraryCall::~LibraryCall() {
  if (openmp_threads_ != 1) set_library_threads(openmp_threads_);
  inside.fetch_sub(1);
}

void end_libraries() {
  set_num_threads(1);
  ended.store(true);
  while (inside.load() > 0) usleep(100);
}

}  // namespace rl::kernels
