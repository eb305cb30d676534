// The bundled library, which has threads and an end of its own.
#pragma once
#include "core/parallel.h"

namespace rl::kernels {

// Around each use of OpenBLAS, none inside another. The library runs on the calling
// thread alone: kernels cut the work, by its size, and parallel_for shares it out.
class LibraryCall {
 public:
  LibraryCall();
  ~LibraryCall();
  LibraryCall(const LibraryCall&) = delete;
  LibraryCall& operator=(const LibraryCall&) = delete;
};

// Of dense products: half a millisecond, from which ScopedGilRelease pays.
inline constexpr double long_operations = 6e7;

}  // namespace rl::kernels
