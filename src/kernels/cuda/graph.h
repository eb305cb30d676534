// Graphs: what a stream was given while it was captured, launched again as a whole.
#pragma once
#include <memory>
#include <vector>

#include "kernels/cuda/fault.h"
#include "kernels/cuda/philox.h"
#include "kernels/cuda/runtime.h"

namespace rl::cuda {

class Graph {
 public:
  Graph() = default;
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Captures what the thread's current stream is given, which must not be the default one, and what
  // streams are that wait for it meanwhile. Memory that is allocated on them stays with the pool
  // `pool` (0: a new one) while the graph lives.
  void begin(uint64_t pool, int mode);
  void end();
  void replay();
  void reset();
  uint64_t pool() const { return pool_; }
  int device() const { return device_; }

  // A draw of `count` numbers a thread: each replay goes on where the generator then is.
  PhiloxSeed draw(const std::shared_ptr<PhiloxState>& state, uint64_t count);
  bool captures(int device, CUstream stream) const {
    return capturing_ && device == device_ && stream == stream_;
  }

 private:
  // What one generator gave: `used` numbers in all; `words` are its seed and offset on the device.
  struct Drawn {
    std::shared_ptr<PhiloxState> state;
    CUdeviceptr words;
    uint64_t used;
  };
  void write_seeds(CUstream stream);

  int device_ = 0;
  CUstream stream_ = nullptr;
  uint64_t pool_ = 0;
  bool capturing_ = false;
  CUgraphExec executable_ = nullptr;
  std::vector<Drawn> drawn_;
  CapturedCalls calls_;
};

// For a kernel that is launched on the current stream while that is captured.
PhiloxSeed draw_in_capture(int device, const std::shared_ptr<PhiloxState>& state, uint64_t count);

}  // namespace rl::cuda
