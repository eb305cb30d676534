// When the work of GPUs ran, for profiles: from one event to another that are recorded around each
// piece of it. A captured graph is one piece, each time it is replayed.
#pragma once
#include <atomic>
#include <vector>

#include "kernels/cuda/runtime.h"

namespace rl::cuda::timeline {

struct Entry {
  const char* name;
  int64_t start, end, launched;  // nanoseconds of CLOCK_REALTIME
  int64_t thread;                // which launched it
  int device;
  uint64_t stream;
};

extern std::atomic<bool> active;
void start();
// Waits for the devices, and forgets what it returns.
std::vector<Entry> stop();

struct Record;
Record* begin(const char* name, int device, CUstream stream);
void end(Record* record);

// A piece of work: what the stream is given while it lives. `name` lives as long as the process.
class Piece {
 public:
  Piece(const char* name, int device, CUstream stream)
      : record_(__builtin_expect(active.load(std::memory_order_relaxed), 0)
                    ? begin(name, device, stream)
                    : nullptr) {}
  ~Piece() {
    if (__builtin_expect(record_ != nullptr, 0)) end(record_);
  }
  Piece(const Piece&) = delete;
  Piece& operator=(const Piece&) = delete;

 private:
  Record* record_;
};

}  // namespace rl::cuda::timeline
