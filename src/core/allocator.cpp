#include "core/allocator.h"

#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <unordered_map>
#include <vector>

#include "core/error.h"
#include "core/fork_mutex.h"
#include "core/memory_blocks.h"
#include "core/system.h"

namespace rl {

namespace {

std::atomic<size_t> blocks_from{usual_block_limit};

// Beyond are sizes that no address reaches, and counts that were negative.
constexpr size_t most_bytes = SIZE_MAX / (sizeof(size_t) == 8 ? 4 : 2);

// Rounds up to one of 8 sizes per power of two: at most 12.5 % of a block is unused.
size_t class_size(size_t bytes) {
  if (!pooled) return bytes;
  int top = 63 - __builtin_clzll(uint64_t(bytes));
  size_t step = size_t(1) << (top - 3);
  return (bytes + step - 1) & ~(step - 1);
}
size_t next_class(size_t size) { return class_size(size + 1); }

// From 4 MB on, blocks are mappings of their own, on huge pages: malloc would keep what is freed
// below what is still in use.
constexpr size_t huge_page = size_t(2) << 20;
// Blocks of several pages begin on one, as mappings do: a load waits for a store shortly before it
// to the same place of another page, and a loop over a part of a larger array met that in each
// vector where its result began 64 bytes into a page. -x[:, 1:] of 2 MB took 68 us, not 58.
constexpr size_t page_aligned_from = size_t(64) << 10;
bool is_mapped(size_t size) { return has_virtual_memory && pooled && size >= 2 * huge_page; }

void* from_system_or_null(size_t size) {
  void* p = nullptr;
  if (!is_mapped(size))
    return posix_memalign(&p, size >= page_aligned_from ? 4096 : 64, size) == 0 ? p : nullptr;
  p = mmap(nullptr, size + huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  size_t before = -reinterpret_cast<uintptr_t>(p) % huge_page;
  char* block = static_cast<char*>(p) + before;
  if (before) munmap(p, before);
  munmap(block + size, huge_page - before);
  madvise(block, size, MADV_HUGEPAGE);
  return block;
}
void to_system(void* p, size_t size) { is_mapped(size) ? void(munmap(p, size)) : std::free(p); }

// A block that waits for reuse. This lies in the block itself: to free memory takes none.
struct CachedBlock {
  size_t size;
  CachedBlock *older, *newer;              // of all that wait
  CachedBlock *older_alike, *newer_alike;  // of those of its class
};

// Blocks in the order of their freeing, linked by two of their members.
template <CachedBlock* CachedBlock::* older, CachedBlock* CachedBlock::* newer>
struct BlockQueue {
  CachedBlock *oldest = nullptr, *newest = nullptr;

  void push(CachedBlock* block) {
    block->*older = newest;
    block->*newer = nullptr;
    (newest ? newest->*newer : oldest) = block;
    newest = block;
  }
  void remove(CachedBlock* block) {
    CachedBlock *before = block->*older, *after = block->*newer;
    (before ? before->*newer : oldest) = after;
    (after ? after->*older : newest) = before;
  }
};

class BlockCache {
 public:
  void* take(size_t bytes) {
    size_t size = class_size(bytes);
    const bool known = size >= blocks_from.load(std::memory_order_relaxed);
    SourceLocation where;  // asked for before the lock: this looks into the interpreter
    if (known) where = source_of_work();
    try {
      void* p = take_for(size, known, where);
      if (!p)
        fail(ErrorKind::OutOfMemory, "out of memory: tried to allocate ", bytes, " bytes; ",
             stats().allocated, " bytes are in use");
      return p;
    } catch (...) {
      forget(where);
      throw;
    }
  }

  void give(void* p, size_t bytes) {
    SourceLocation where = give_back(p, class_size(bytes));
    forget(where);
  }

  std::vector<MemoryBlock> blocks() {
    ForkLock lock(mutex_);
    std::vector<MemoryBlock> all;
    for (const auto& [data, owner] : owners_)
      all.push_back({data, owner.size, owner.where, owner.in_backward});
    return all;
  }

  void flush() {
    ForkLock lock(mutex_);
    trim(0);
    high_water_ = stats_.allocated;
#ifdef __GLIBC__
    malloc_trim(0);
#endif
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
  struct Owner {
    size_t size;
    SourceLocation where;
    bool in_backward;
  };

  // A block of at least this size, or null where the system has none.
  void* take_for(size_t wanted, bool known, const SourceLocation& where) {
    ForkLock lock(mutex_);
    size_t size = wanted;
    void* p = reuse(size);
    if (!p && wanted >= lends_from && pooled) p = reuse_larger(size);
    const bool fresh = !p;
    if (fresh) p = from_system(size);
    if (!p) return nullptr;
    try {
      if (size != wanted) larger_[p] = size;
      if (known) owners_[p] = {wanted, where, bool(mode() & InBackward)};
    } catch (...) {
      larger_.erase(p);
      keep(p, size);
      throw;
    }
    ++stats_.allocations;
    stats_.allocated += static_cast<int64_t>(size);
    if (stats_.allocated > stats_.peak) stats_.peak = stats_.allocated;
    if (stats_.allocated > high_water_) high_water_ = stats_.allocated;
    if (fresh) trim(allowance());
    if (known) least_known_ = std::min(least_known_, wanted);
    return p;
  }

  SourceLocation give_back(void* p, size_t size) {
    ForkLock lock(mutex_);
    SourceLocation where;
    if (!larger_.empty()) {
      auto found = larger_.find(p);
      if (found != larger_.end()) {
        size = found->second;
        larger_.erase(found);
      }
    }
    if (size >= least_known_) {
      auto found = owners_.find(p);
      if (found != owners_.end()) {
        where = found->second.where;
        owners_.erase(found);
      }
    }
    stats_.allocated -= static_cast<int64_t>(size);
    keep(p, size);
    trim(allowance());
    return where;
  }

  auto& alike(size_t size) {  // the blocks of a class
    const int top = 63 - __builtin_clzll(uint64_t(size));
    return by_class_[size_t(top) * 8 + ((size >> (top - 3)) & 7)];
  }
  void keep(void* p, size_t size) {
    auto* block = static_cast<CachedBlock*>(p);
    block->size = size;
    all_.push(block);
    alike(size).push(block);
    stats_.cached += static_cast<int64_t>(size);
  }
  void leave(CachedBlock* block) {
    all_.remove(block);
    alike(block->size).remove(block);
    stats_.cached -= static_cast<int64_t>(block->size);
  }

  // Bytes that may wait for reuse.
  int64_t allowance() const {
    return pooled ? high_water_ + high_water_ / 10 + (int64_t(64) << 20) - stats_.allocated : 0;
  }

  void* reuse(size_t size) {
    CachedBlock* warmest = alike(size).newest;
    if (warmest) leave(warmest);
    return warmest;
  }

  // In place of a large block that is not there, one of the next classes: the system clears each
  // page that it hands out, which takes as long as an operation that reads it. `size` becomes its.
  void* reuse_larger(size_t& size) {
    size_t larger = size;
    for (int i = 0; i < larger_classes; ++i) {
      larger = next_class(larger);
      if (void* p = reuse(larger)) {
        size = larger;
        return p;
      }
    }
    return nullptr;
  }

  void* from_system(size_t size) {
    void* p = from_system_or_null(size);
    if (!p) {
      trim(0);
      p = from_system_or_null(size);
    }
    if (p) ++stats_.system_allocations;
    return p;
  }

  // Releases the blocks that waited longest until at most `limit` bytes are cached.
  void trim(int64_t limit) {
    while (stats_.cached > limit && all_.oldest) {
      CachedBlock* oldest = all_.oldest;
      leave(oldest);
      to_system(oldest, oldest->size);
    }
  }

  ForkMutex mutex_{ForkRank::Allocator};
  BlockQueue<&CachedBlock::older, &CachedBlock::newer> all_;
  BlockQueue<&CachedBlock::older_alike, &CachedBlock::newer_alike> by_class_[64 * 8];
  static constexpr size_t lends_from = size_t(1) << 18;
  static constexpr int larger_classes = 4;    // 1.5 times the size
  std::unordered_map<void*, size_t> larger_;  // what blocks are that were given in place of less
  std::unordered_map<void*, Owner> owners_;   // of the blocks that are known by their lines
  size_t least_known_ = SIZE_MAX;
  MemoryStats stats_;
  int64_t high_water_ = 0;
};

BlockCache& cache() {
  static BlockCache* instance = new BlockCache;  // tensors may outlive static destruction
  return *instance;
}

// The lines that hold most memory, for an error. Nothing under a kernel's lock, where nobody may
// wait for the interpreter.
std::string largest_owners() {
  if (mode() & KeepsInterpreter) return "";
  struct Line {
    SourceLocation where;
    bool in_backward;
    size_t bytes, count;
  };
  std::vector<Line> lines;
  for (const MemoryBlock& b : cache().blocks()) {
    auto same = [&](const Line& l) {
      return l.where.code == b.where.code && l.where.instruction == b.where.instruction &&
             l.in_backward == b.in_backward;
    };
    auto found = std::find_if(lines.begin(), lines.end(), same);
    if (found == lines.end()) found = lines.insert(found, {b.where, b.in_backward, 0, 0});
    found->bytes += b.size;
    ++found->count;
  }
  std::sort(lines.begin(), lines.end(),
            [](const Line& a, const Line& b) { return a.bytes > b.bytes; });
  if (lines.empty()) return "";
  std::string text = "\nMost of it is held by";
  for (size_t i = 0; i < lines.size() && i < 5; ++i) {
    const Line& l = lines[i];
    std::string where = describe(l.where);
    text += "\n  " + std::to_string(l.bytes) + " bytes in " + std::to_string(l.count) +
            (l.count == 1 ? " block: " : " blocks: ") + (l.in_backward ? "backward of " : "") +
            (where.empty() ? "no line of the program" : where);
  }
  return text + "\nrushlight.debug.memory_report() tells more.";
}

}  // namespace

void* allocate_large(size_t bytes) {
  if (bytes > most_bytes)
    fail(ErrorKind::OutOfMemory, "out of memory: tried to allocate ", bytes, " bytes",
         largest_owners());
  try {
    return cache().take(bytes);
  } catch (const Error& error) {  // without the lock: lines are asked of the interpreter
    throw Error(error.kind(), error.what() + largest_owners());
  }
}

size_t set_block_limit(size_t bytes) {
  return blocks_from.exchange(std::max(bytes, small_limit + 1));
}
std::vector<MemoryBlock> live_blocks() { return cache().blocks(); }
void free_large(void* p, size_t bytes) { cache().give(p, bytes); }
void release_pages(void* p, size_t bytes) {
  if (!has_virtual_memory) return;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t end = (reinterpret_cast<uintptr_t>(p) + bytes) & ~(page - 1);
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(p) + page - 1) & ~(page - 1);
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

MemoryStats memory_stats() { return cache().stats(); }
void reset_peak_memory() { cache().reset_peak(); }
void empty_cache() { cache().flush(); }

}  // namespace rl
