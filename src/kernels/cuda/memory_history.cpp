#include "kernels/cuda/memory_history.h"

#include <atomic>
#include <chrono>

namespace rl::cuda {
namespace {
std::atomic<bool> keeps_entries{false}, of_allocations{false}, of_frees{false};
std::atomic<size_t> most_entries{0};
}  // namespace

void set_history(const HistorySettings& settings) {
  most_entries = settings.most;
  keeps_entries = settings.entries;
  of_allocations = settings.allocations;
  of_frees = settings.frees;
}

Frames frames_of(MemoryEvent event) {
  const auto& wanted = event == MemoryEvent::Allocate ? of_allocations : of_frees;
  if (__builtin_expect(!wanted.load(std::memory_order_relaxed), 1)) return nullptr;
  return program_frames ? program_frames() : nullptr;
}

void MemoryHistory::add(const char* action, const void* address, size_t size, CUstream stream,
                        const Frames& frames) {
  if (__builtin_expect(!keeps_entries.load(std::memory_order_relaxed), 1)) return;
  using namespace std::chrono;
  int64_t now = duration_cast<microseconds>(system_clock::now().time_since_epoch()).count();
  while (!entries_.empty() && entries_.size() >= most_entries) entries_.pop_front();
  entries_.push_back({action, reinterpret_cast<uint64_t>(address), static_cast<int64_t>(size),
                      reinterpret_cast<uint64_t>(stream), now, frames});
}

}  // namespace rl::cuda
