// The thread counts that the bundled libraries see.
#pragma once
#include <omp.h>

#include "core/parallel.h"

namespace rl::kernels {

// Lets oneDNN use the calling thread alone in this scope: kernels cut the work, by its size, and
// parallel_for shares it out. (OpenMP keeps the number per calling thread.)
class OneThread {
 public:
  OneThread() : saved_(omp_get_max_threads()) {
    if (saved_ != 1) omp_set_num_threads(1);
  }
  ~OneThread() {
    if (saved_ != 1) omp_set_num_threads(saved_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int saved_;
};

// Of dense products: half a millisecond, from which LongWork pays.
inline constexpr double long_operations = 6e7;

// OpenBLAS has its own threads, which know nothing of ours: it runs on one, and kernels split the
// work. Call before any use of it.
void single_threaded_openblas();

}  // namespace rl::kernels
