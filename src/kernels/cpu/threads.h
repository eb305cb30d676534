// The thread counts that the bundled libraries see.
#pragma once
#include <omp.h>

#include "core/parallel.h"

namespace rl::kernels {

// How many threads oneDNN may use in this scope. OpenMP keeps that number per calling thread, so
// a thread the user started would otherwise have another one than set_num_threads asked for.
class LibraryThreads {
 public:
  explicit LibraryThreads(int n) : saved_(omp_get_max_threads()), changed_(n != saved_) {
    if (changed_) omp_set_num_threads(n);
  }
  ~LibraryThreads() {
    if (changed_) omp_set_num_threads(saved_);
  }
  LibraryThreads(const LibraryThreads&) = delete;
  LibraryThreads& operator=(const LibraryThreads&) = delete;

 private:
  int saved_;
  bool changed_;
};

// OpenBLAS has its own threads, which know nothing of ours: it runs on one, and kernels split the
// work. Call before any use of it.
void single_threaded_openblas();

}  // namespace rl::kernels
