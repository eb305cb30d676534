// Graphs: what a stream was given while it was captured, launched again as a whole.
#pragma once
#include "kernels/cuda/runtime.h"

namespace rl::cuda {

class Graph {
 public:
  Graph() = default;
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Captures what the thread's current stream is given, which must not be the default one. Memory
  // that is allocated meanwhile stays with the pool `pool` (0: a new one) while the graph lives.
  void begin(uint64_t pool, int mode);
  void end();
  void replay();
  void reset();
  uint64_t pool() const { return pool_; }

 private:
  int device_ = 0;
  CUstream stream_ = nullptr;
  uint64_t pool_ = 0;
  bool capturing_ = false;
  CUgraphExec executable_ = nullptr;
};

}  // namespace rl::cuda
