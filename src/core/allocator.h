// The caching CPU allocator: blocks of up to 2 KB from per-thread lists, larger ones from size
// classes (8 per power of two) that stay warm. live + cached never exceeds 1.1 x the high-water
// mark of live + 64 MiB; beyond that the block that waited longest is released.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/thread_state.h"

namespace rl {

struct MemoryStats {
  int64_t allocated = 0;           // bytes in live blocks above small_limit
  int64_t peak = 0;                // its maximum since the last reset
  int64_t cached = 0;              // bytes kept for reuse
  int64_t allocations = 0;         // calls so far, large blocks
  int64_t system_allocations = 0;  // of those, how many asked the system
};

void* allocate_large(size_t bytes);
void free_large(void* p, size_t bytes);

inline constexpr size_t small_limit = 64 * small_class_count;

// 64-byte aligned; OutOfMemory error on failure. `bytes` must be given back to deallocate.
inline void* allocate(size_t bytes) {
  if (bytes <= small_limit) {
    size_t index = bytes ? (bytes - 1) >> 6 : 0;
    return pool_allocate(thread_state().small[index], pooled ? (index + 1) << 6 : bytes);
  }
  return allocate_large(bytes);
}
inline void deallocate(void* p, size_t bytes) {
  if (bytes <= small_limit) return pool_free(thread_state().small[bytes ? (bytes - 1) >> 6 : 0], p);
  free_large(p, bytes);
}

// Gives the whole pages among these bytes of a block back to the system, while the block lives.
// They read as zeros until they are written, the rest as before.
void release_pages(void* p, size_t bytes);

MemoryStats memory_stats();
void reset_peak_memory();
void empty_cache();

}  // namespace rl
