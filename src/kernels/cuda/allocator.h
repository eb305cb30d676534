// The caching allocator of device memory.
//
// Requests are rounded to 512 bytes and cut from segments that the driver gave: of 2 MiB for
// requests up to 1 MiB, of 20 MiB for those below 10 MiB, and of multiples of 2 MiB beyond. A free
// block serves the stream that it was taken on; one that other streams used (record_stream) is
// reused only after they have passed the events that were recorded when it was freed: the stream
// that takes it waits for them, the host does not. Neighbours that are free are one block.
//
// Where expandable segments are asked for, a pool has one segment of addresses for all of the
// device's memory, whose pages are mapped as they are needed: free memory is then in one piece.
#pragma once
#include <string>
#include <vector>

#include "kernels/cuda/memory_history.h"
#include "kernels/cuda/runtime.h"

namespace rl::cuda {

struct Counter {
  int64_t current = 0, peak = 0, allocated = 0, freed = 0;
  void add(int64_t n) {
    current += n;
    (n > 0 ? allocated : freed) += n > 0 ? n : -n;
    if (current > peak) peak = current;
  }
};
// Each of all blocks, of those in small segments, and of the others.
struct PoolStats {
  Counter allocations, segments, active, inactive_split;
  Counter allocated_bytes, reserved_bytes, active_bytes, inactive_split_bytes, requested_bytes;
};
struct AllocatorStats {
  PoolStats pools[3];
  int64_t retries = 0, out_of_memory = 0, driver_allocations = 0, driver_frees = 0;
};

struct BlockInfo {
  uint64_t address;
  int64_t size, requested;
  bool allocated, pending;
  Frames frames;
};
struct SegmentInfo {
  int device;
  uint64_t address, stream;
  int64_t size;
  bool small, expandable;
  uint64_t pool;  // 0, or that of a private pool
  std::vector<BlockInfo> blocks;
};

void* allocate_device(size_t bytes, int device);
void free_device(void* data, int device);
// The block is used by `stream` too; it is not reused before what that stream was given until the
// block is freed has run.
void record_stream(void* data, int device, CUstream stream);

void empty_device_cache(int device);
AllocatorStats allocator_stats(int device);
void reset_peak(int device);
void reset_accumulated(int device);
void set_memory_fraction(int device, double fraction);
double memory_fraction(int device);
std::vector<SegmentInfo> memory_snapshot(int device);
// What the history kept, oldest first.
std::vector<MemoryEntry> memory_trace(int device, bool clear);
// Those of torch's variable PYTORCH_CUDA_ALLOC_CONF, of which "expandable_segments:True" has an
// effect.
void set_allocator_settings(const std::string& settings);
bool is_expandable(const void* data, int device);

// Allocations of `stream`, and of those that are captured with it, come from the private pool `id`
// (not 0) until end_private_pool; its memory stays with it until nobody holds it.
uint64_t new_private_pool();
void begin_private_pool(int device, CUstream stream, uint64_t id);
void end_private_pool(int device, CUstream stream);
void release_private_pool(int device, uint64_t id);

// ---- host memory that the device reads and writes by itself

void* allocate_pinned(size_t bytes);
void free_pinned(void* data);
bool is_pinned(const void* data);
// An asynchronous copy to or from `data` was put on the stream: it is not reused before that ends.
void record_pinned(const void* data, int device, CUstream stream);
void empty_pinned_cache();

}  // namespace rl::cuda
