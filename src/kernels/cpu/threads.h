// The bundled libraries, which have threads and an end of their own.
#pragma once
#include "core/parallel.h"

namespace rl::kernels {

// Around each use of oneDNN and OpenBLAS, none inside another. The library runs on the calling
// thread alone: kernels cut the work, by its size, and parallel_for shares it out.
class LibraryCall {
 public:
  LibraryCall();
  ~LibraryCall();
  LibraryCall(const LibraryCall&) = delete;
  LibraryCall& operator=(const LibraryCall&) = delete;

 private:
  int openmp_threads_;  // OpenMP keeps the number per calling thread
};

// Of dense products: half a millisecond, from which ScopedGilRelease pays.
inline constexpr double long_operations = 6e7;

}  // namespace rl::kernels
