#include "core/allocator.h"

#include <sys/mman.h>

#include <cstdlib>
#include <list>
#include <unordered_map>
#include <vector>

#include "core/error.h"
#include "core/fork_mutex.h"

namespace rl {
namespace {

// Rounds up to one of 8 sizes per power of two: at most 12.5 % of a block is unused.
size_t class_size(size_t bytes) {
  if (!pooled) return bytes;
  int top = 63 - __builtin_clzll(bytes);
  size_t step = size_t(1) << (top - 3);
  return (bytes + step - 1) & ~(step - 1);
}

class BlockCache {
 public:
  void* take(size_t bytes) {
    size_t size = class_size(bytes);
    ForkLock lock(mutex_);
    ++stats_.allocations;
    void* p = reuse(size);
    if (!p) p = from_system(size);
    stats_.allocated += static_cast<int64_t>(size);
    if (stats_.allocated > stats_.peak) stats_.peak = stats_.allocated;
    if (stats_.allocated > high_water_) high_water_ = stats_.allocated;
    return p;
  }

  void give(void* p, size_t bytes) {
    size_t size = class_size(bytes);
    ForkLock lock(mutex_);
    stats_.allocated -= static_cast<int64_t>(size);
    stats_.cached += static_cast<int64_t>(size);
    order_.push_back({p, size});
    free_[size].push_back(std::prev(order_.end()));
    trim(pooled ? high_water_ + high_water_ / 10 + (int64_t(64) << 20) - stats_.allocated : 0);
  }

  void flush() {
    ForkLock lock(mutex_);
    trim(0);
    high_water_ = stats_.allocated;
  }

  MemoryStats stats() {
    ForkLock lock(mutex_);
    return stats_;
  }

  void reset_peak() {
    ForkLock lock(mutex_);
    stats_.peak = stats_.allocated;
  }

 private:
  struct Block {
    void* data;
    size_t size;
  };
  using Position = std::list<Block>::iterator;

  void* reuse(size_t size) {
    auto found = free_.find(size);
    if (found == free_.end() || found->second.empty()) return nullptr;
    Position at = found->second.back();  // the warmest one
    found->second.pop_back();
    void* p = at->data;
    order_.erase(at);
    stats_.cached -= static_cast<int64_t>(size);
    return p;
  }

  void* from_system(size_t size) {
    ++stats_.system_allocations;
    constexpr size_t huge_page = size_t(2) << 20;
    size_t alignment = size >= 2 * huge_page ? huge_page : 64;
    void* p = nullptr;
    if (posix_memalign(&p, alignment, size) != 0) {
      trim(0);
      if (posix_memalign(&p, alignment, size) != 0)
        fail(ErrorKind::OutOfMemory, "out of memory: tried to allocate ", size, " bytes; ",
             stats_.allocated, " bytes are in use");
    }
    if (alignment == huge_page) madvise(p, size, MADV_HUGEPAGE);
    return p;
  }

  // Releases the blocks that waited longest until at most `limit` bytes are cached.
  void trim(int64_t limit) {
    while (stats_.cached > limit && !order_.empty()) {
      Block oldest = order_.front();
      auto& list = free_[oldest.size];
      list.erase(list.begin());  // positions of one class are in the order of their freeing
      order_.pop_front();
      stats_.cached -= static_cast<int64_t>(oldest.size);
      std::free(oldest.data);
    }
  }

  ForkMutex mutex_{ForkRank::Allocator};
  std::list<Block> order_;
  std::unordered_map<size_t, std::vector<Position>> free_;
  MemoryStats stats_;
  int64_t high_water_ = 0;
};

BlockCache& cache() {
  static BlockCache* instance = new BlockCache;  // tensors may outlive static destruction
  return *instance;
}

}  // namespace

void* allocate_large(size_t bytes) {
  if (bytes > (size_t(1) << 62))
    fail(ErrorKind::OutOfMemory, "out of memory: tried to allocate ", bytes, " bytes");
  return cache().take(bytes);
}
void free_large(void* p, size_t bytes) { cache().give(p, bytes); }
MemoryStats memory_stats() { return cache().stats(); }
void reset_peak_memory() { cache().reset_peak(); }
void empty_cache() { cache().flush(); }

}  // namespace rl
