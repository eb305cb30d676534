// What kernels report, in both worlds.
#pragma once
#include <cstdint>

namespace rl::cuda {

// Memory of the host that kernels see: the first thread that finds something writes it.
struct Fault {
  unsigned claimed;
  int kind;           // FaultKind
  uint64_t op, call;  // those of a FaultPlace: the address of the op's name, the call's number
  int64_t value, size, dim;
};

// The texts are in kernels/cuda/fault.cpp.
enum FaultKind : int {
  IndexOutOfRange,      // IndexError: value, dim, size
  IndexOutOfBounds,     // RuntimeError of gather and scatter: value, dim, size
  TargetOutOfRange,     // IndexError: value, size classes
  EmbeddingOutOfRange,  // IndexError: value, size rows
  TooFewElements,       // RuntimeError of masked_scatter: size elements
  InvalidProbability,   // RuntimeError
  InvalidRate,          // RuntimeError of poisson
  NegativeCount,        // RuntimeError of bincount: value
  InvalidOffset,        // RuntimeError of embedding_bag: value, size indices, dim bag
};

}  // namespace rl::cuda
