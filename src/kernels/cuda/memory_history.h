// What became of memory, event by event, and where the program asked for it: for
// cuda.memory._record_memory_history.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/api.h"

namespace rl::cuda {

struct Frame {
  std::string function, file;
  int line;
};
using Frames = std::shared_ptr<const std::vector<Frame>>;  // the innermost first

struct MemoryEntry {
  const char* action;
  uint64_t address;
  int64_t size;
  uint64_t stream;
  int64_t microseconds;  // since 1970
  Frames frames;
};

enum class MemoryEvent { Allocate, Free };

struct HistorySettings {
  bool entries = false;                     // events are kept, not frames of live blocks alone
  bool allocations = false, frees = false;  // whose frames are taken
  size_t most = 0;                          // entries of a device
};
void set_history(const HistorySettings& settings);
// The frames of the program as it is now, or null where these are not wanted. It may take the
// interpreter's lock, so no other may be held.
Frames frames_of(MemoryEvent event);
// Set by bind/.
inline Frames (*program_frames)() = nullptr;

// The events of one device; its owner guards it.
class MemoryHistory {
 public:
  void add(const char* action, const void* address, size_t size, CUstream stream,
           const Frames& frames);
  std::vector<MemoryEntry> entries() const { return {entries_.begin(), entries_.end()}; }
  void clear() { entries_.clear(); }

 private:
  std::deque<MemoryEntry> entries_;
};

}  // namespace rl::cuda
