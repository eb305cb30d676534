#include "kernels/cuda/allocator.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <unordered_map>

#include "core/warning.h"
#include "kernels/cuda/address_range.h"
#include "kernels/cuda/memory_history.h"

namespace rl::cuda {
namespace {

constexpr size_t granule = 512, small_size = size_t(1) << 20, small_segment = size_t(2) << 20;
constexpr size_t medium_size = size_t(10) << 20, medium_segment = size_t(20) << 20;
constexpr size_t large_granule = size_t(2) << 20;

struct Segment;

struct Block {
  char* data;
  size_t size;
  size_t requested = 0;
  Segment* segment;
  Block *before = nullptr, *after = nullptr;            // neighbours in the segment
  bool used = false, mapped = true;                     // not mapped: addresses alone
  std::vector<CUstream> users{};                        // streams besides its own
  std::vector<std::pair<CUstream, CUevent>> pending{};  // what a free block waits for
  Frames frames{};                                      // of the program that allocated it
};

struct BySize {
  bool operator()(const Block* a, const Block* b) const {
    return a->size != b->size ? a->size < b->size : a->data < b->data;
  }
};

struct Pool {
  CUstream stream;
  bool small;
  uint64_t id;  // 0, or that of a private pool
  std::set<Block*, BySize> free;
};

struct Segment {
  CUdeviceptr base;
  size_t size;
  Pool* pool;
  Block* first;
  std::unique_ptr<AddressRange> range{};  // of one that grows: its blocks may not be mapped
};

// Where what a graph captures allocates: that of the stream whose capture was begun.
struct PrivatePool {
  CUstream origin;
  uint64_t id;
};

using PoolKey = std::tuple<CUstream, bool, uint64_t>;

std::string shown(size_t bytes) {
  std::ostringstream text;
  text.precision(2);
  text << std::fixed;
  if (bytes >= size_t(1) << 30) text << static_cast<double>(bytes) / (1 << 30) << " GiB";
  else if (bytes >= size_t(1) << 20) text << static_cast<double>(bytes) / (1 << 20) << " MiB";
  else if (bytes >= 1024) text << static_cast<double>(bytes) / 1024 << " KiB";
  else text << bytes << " bytes";
  return text.str();
}

class Allocator {
 public:
  explicit Allocator(int device) : device_(device) {
    const char* off = std::getenv("RUSHLIGHT_NO_CUDA_MEMORY_CACHING");
    if (!off) off = std::getenv("PYTORCH_NO_CUDA_MEMORY_CACHING");
    caching_ = !off || *off != '1';
  }
  void set_expandable(bool expandable) {
    std::lock_guard<std::mutex> lock(mutex_);
    expandable_ = expandable;
  }

  void* allocate(size_t bytes) {
    use(device_);
    Frames frames = frames_of(MemoryEvent::Allocate);
    std::lock_guard<std::mutex> lock(mutex_);
    CUstream stream = current_stream(device_);
    if (!deferred_.empty() && private_.empty()) record_deferred();
    size_t size = bytes ? (bytes + granule - 1) / granule * granule : granule;
    Pool& pool = pool_of(stream, size <= small_size);
    Block* block = find(pool, size, stream);
    if (!block) block = grow(pool, size, bytes, frames);
    split(block, size);
    block->used = true;
    block->requested = bytes;
    live_[block->data] = block;
    count(*block, +1);
    history_.add("alloc", block->data, size, stream, frames);
    block->frames = std::move(frames);
    return block->data;
  }

  void free(void* data) {
    Frames frames = frames_of(MemoryEvent::Free);
    std::lock_guard<std::mutex> lock(mutex_);
    auto it = live_.find(static_cast<char*>(data));
    if (it == live_.end()) return;  // what the process keeps to its end
    Block* block = it->second;
    live_.erase(it);
    count(*block, -1);
    block->used = false;
    block->requested = 0;
    block->frames.reset();
    history_.add("free_requested", data, block->size, block->segment->pool->stream, frames);
    if (block->users.empty()) return put_back(block);
    if (!private_.empty()) {  // an event recorded during a capture could not be asked
      deferred_.push_back(block);
      return;
    }
    record_users(block);
    put_back(block);
  }

  void record(void* data, CUstream stream) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto it = live_.find(static_cast<char*>(data));
    check(it != live_.end(), "record_stream: the tensor's memory is not the allocator's");
    Block* block = it->second;
    if (stream == block->segment->pool->stream) return;
    if (std::find(block->users.begin(), block->users.end(), stream) == block->users.end())
      block->users.push_back(stream);
  }

  void empty() {
    use(device_);
    std::lock_guard<std::mutex> lock(mutex_);
    release_cached();
  }

  AllocatorStats stats() {
    std::lock_guard<std::mutex> lock(mutex_);
    return stats_;
  }
  void reset_peaks() {
    std::lock_guard<std::mutex> lock(mutex_);
    each_counter([](Counter& c) { c.peak = c.current; });
  }
  void reset_totals() {
    std::lock_guard<std::mutex> lock(mutex_);
    each_counter([](Counter& c) { c.allocated = c.freed = 0; });
    stats_.retries = stats_.out_of_memory = 0;
  }
  void set_fraction(double fraction) {
    std::lock_guard<std::mutex> lock(mutex_);
    fraction_ = fraction;
  }
  double fraction() const { return fraction_; }

  // What is mapped of a segment that grows counts as segments.
  std::vector<SegmentInfo> snapshot() {
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<SegmentInfo> result;
    for (const auto& [base, segment] : segments_)
      for (Block* b = segment->first; b; b = b->after) {
        if (!b->mapped) continue;
        if (!b->before || !b->before->mapped)
          result.push_back({device_,
                            reinterpret_cast<uint64_t>(b->data),
                            reinterpret_cast<uint64_t>(segment->pool->stream),
                            0,
                            segment->pool->small,
                            segment->range != nullptr,
                            segment->pool->id,
                            {}});
        result.back().size += static_cast<int64_t>(b->size);
        result.back().blocks.push_back(
            {reinterpret_cast<uint64_t>(b->data), static_cast<int64_t>(b->size),
             static_cast<int64_t>(b->requested), b->used, !b->pending.empty(), b->frames});
      }
    return result;
  }
  std::vector<MemoryEntry> trace(bool clear) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<MemoryEntry> entries = history_.entries();
    if (clear) history_.clear();
    return entries;
  }
  bool is_expandable(const void* data) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto at = segments_.upper_bound(reinterpret_cast<CUdeviceptr>(data));
    if (at == segments_.begin()) return false;
    const Segment& segment = *(--at)->second;
    return segment.range && reinterpret_cast<CUdeviceptr>(data) < segment.base + segment.size;
  }

  void begin_private(CUstream stream, uint64_t id) {
    std::lock_guard<std::mutex> lock(mutex_);
    private_[stream] = {stream, id};
    ++holders_[id];
  }
  void end_private(CUstream stream) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (auto it = private_.begin(); it != private_.end();)
      it = it->second.origin == stream ? private_.erase(it) : std::next(it);
    if (private_.empty()) record_deferred();
  }
  void release_private(uint64_t id) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto it = holders_.find(id);
    if (it != holders_.end() && --it->second == 0) holders_.erase(it);  // empty() may free it now
  }

 private:
  Pool& pool_of(CUstream stream, bool small) {
    uint64_t id = private_.empty() ? 0 : private_pool_of(stream);
    std::unique_ptr<Pool>& pool = pools_[{stream, small, id}];
    if (!pool) pool.reset(new Pool{stream, small, id, {}});
    return *pool;
  }

  // That of the graph that captures the stream, or 0. The stream may have become part of a capture
  // after that began, by waiting for one that was.
  uint64_t private_pool_of(CUstream stream) {
    auto it = private_.find(stream);
    if (it != private_.end()) return it->second.id;
    if (!is_capturing(device_)) return 0;
    const PrivatePool first = private_.begin()->second;
    for (const auto& [other, pool] : private_)
      check(pool.id == first.id,
            "CUDAGraph: memory was asked for on a stream that one of two graphs captures at once; "
            "only the streams whose captures were begun may allocate then");
    private_[stream] = first;
    return first.id;
  }

  // Has the device passed all that the block waits for? Forgets what it has passed.
  bool ready(Block* block) {
    auto& pending = block->pending;
    for (size_t i = pending.size(); i-- > 0;) {
      CUresult status = driver().cuEventQuery(pending[i].second);
      if (status == CUDA_ERROR_NOT_READY) continue;
      check_call(status, "cuEventQuery");
      give_back_event(device_, pending[i].second);
      pending.erase(pending.begin() + static_cast<long>(i));
    }
    return pending.empty();
  }

  // The smallest free block of the size. One that others still use is taken only where a ready one
  // of less than twice the size is not there: its stream has to wait.
  Block* find(Pool& pool, size_t size, CUstream stream) {
    if (!caching_) return nullptr;
    Block key{nullptr, size, 0, nullptr};
    Block* waiting = nullptr;
    for (auto it = pool.free.lower_bound(&key); it != pool.free.end(); ++it) {
      Block* block = *it;
      if (block->size > 2 * size && waiting) break;
      // A large remainder would be lost to requests as large as the block.
      if (!pool.small && !block->segment->range && size < medium_size &&
          block->size >= medium_segment + medium_size)
        break;
      if (block->pending.empty() || (private_.empty() && ready(block))) {
        take(pool, block);
        return block;
      }
      if (!waiting && private_.empty()) waiting = block;
    }
    if (!waiting) return nullptr;
    for (auto& [user, event] : waiting->pending) {
      RL_CUDA(cuStreamWaitEvent, stream, event, 0);
      give_back_event(device_, event);
    }
    waiting->pending.clear();
    take(pool, waiting);
    return waiting;
  }

  void take(Pool& pool, Block* block) { pool.free.erase(block); }

  Block* grow(Pool& pool, size_t size, size_t bytes, const Frames& frames) {
    Block* block = expandable_ && caching_ ? extend(pool, size) : new_segment(pool, size);
    if (block) return block;
    ++stats_.retries;
    if (private_.empty()) release_cached();
    block = expandable_ && caching_ ? extend(pool, size) : new_segment(pool, size);
    if (block) return block;
    history_.add("oom", nullptr, bytes, pool.stream, frames);
    fail_out_of_memory(bytes);
  }

  // A segment of its own, or null if memory is out.
  Block* new_segment(Pool& pool, size_t size) {
    size_t wanted = !caching_    ? size
                    : pool.small ? small_segment
                    : size < medium_size
                        ? medium_segment
                        : (size + large_granule - 1) / large_granule * large_granule;
    CUdeviceptr base = 0;
    if (!ask_driver(wanted, base)) return nullptr;
    auto* segment = new Segment{base, wanted, &pool, nullptr};
    auto* block = new Block{reinterpret_cast<char*>(base), wanted, 0, segment};
    segment->first = block;
    segments_[base] = segment;
    each_pool(pool.small, [&](PoolStats& s) {
      s.segments.add(1);
      s.reserved_bytes.add(static_cast<int64_t>(wanted));
    });
    history_.add("segment_alloc", block->data, wanted, pool.stream, nullptr);
    return block;
  }

  // ---- segments that grow: one for each pool, addresses for all of the device's memory

  Segment* range_of(Pool& pool) {
    for (auto& [base, segment] : segments_)
      if (segment->pool == &pool && segment->range) return segment;
    size_t page = pool.small ? small_segment : medium_segment;
    size_t bytes = (properties(device_).total_memory + page - 1) / page * page;
    std::unique_ptr<AddressRange> range = AddressRange::reserve(device_, bytes, page);
    auto* segment = new Segment{range->base(), bytes, &pool, nullptr, std::move(range)};
    segment->first = new Block{reinterpret_cast<char*>(segment->base), bytes, 0, segment};
    segment->first->mapped = false;
    segments_[segment->base] = segment;
    each_pool(pool.small, [&](PoolStats& s) { s.segments.add(1); });
    return segment;
  }

  // Maps as many pages as the request needs beside the free block before them; null if memory is
  // out.
  Block* extend(Pool& pool, size_t size) {
    Segment* segment = range_of(pool);
    size_t page = segment->range->page();
    for (Block* hole = segment->first; hole; hole = hole->after) {
      if (hole->mapped) continue;
      Block* left = hole->before;
      size_t have = left && pool.free.count(left) && left->pending.empty() ? left->size : 0;
      size_t wanted = (size - have + page - 1) / page * page;
      if (hole->size < wanted) continue;
      if (!within_limit(wanted) || !segment->range->map(offset_of(*hole), wanted)) return nullptr;
      ++stats_.driver_allocations;
      count_mapped(pool, static_cast<int64_t>(wanted));
      history_.add("segment_map", hole->data, wanted, pool.stream, nullptr);
      if (hole->size > wanted) cut(hole, wanted)->mapped = false;
      hole->mapped = true;
      Block* block = join(pool, join(pool, hole, hole->before), hole->after);
      return block;
    }
    return nullptr;
  }

  // Gives the whole pages of a free block back; what is left of it stays free.
  void unmap_pages(Pool& pool, Block* block) {
    Segment* segment = block->segment;
    size_t page = segment->range->page(), at = offset_of(*block);
    size_t begin = (at + page - 1) / page * page, end = (at + block->size) / page * page;
    if (end <= begin) return;
    pool.free.erase(block);
    if (end < at + block->size) pool.free.insert(cut(block, end - at));
    Block* hole = block;
    if (begin > at) {
      hole = cut(block, begin - at);
      pool.free.insert(block);
    }
    RL_CUDA(cuCtxSynchronize);  // of what still runs there; cuMemFree waits by itself
    segment->range->unmap(begin, end - begin);
    ++stats_.driver_frees;
    count_mapped(pool, -static_cast<int64_t>(end - begin));
    history_.add("segment_unmap", hole->data, end - begin, pool.stream, nullptr);
    hole->mapped = false;
    if (hole->after && !hole->after->mapped) absorb(hole);
    if (hole->before && !hole->before->mapped) absorb(hole->before);
  }

  static size_t offset_of(const Block& block) {
    return reinterpret_cast<CUdeviceptr>(block.data) - block.segment->base;
  }
  void count_mapped(const Pool& pool, int64_t bytes) {
    each_pool(pool.small, [&](PoolStats& s) { s.reserved_bytes.add(bytes); });
  }
  // Shortens the block; the rest becomes its neighbour.
  static Block* cut(Block* block, size_t size) {
    auto* rest =
        new Block{block->data + size, block->size - size, 0, block->segment, block, block->after};
    if (block->after) block->after->before = rest;
    block->after = rest;
    block->size = size;
    return rest;
  }
  // Makes the block and its right neighbour one.
  static void absorb(Block* left) {
    Block* right = left->after;
    left->size += right->size;
    left->after = right->after;
    if (right->after) right->after->before = left;
    delete right;
  }

  bool within_limit(size_t size) {
    double limit = fraction_ * static_cast<double>(properties(device_).total_memory);
    double reserved = static_cast<double>(stats_.pools[0].reserved_bytes.current);
    return fraction_ >= 1 || reserved + static_cast<double>(size) <= limit;
  }
  bool ask_driver(size_t size, CUdeviceptr& base) {
    if (!within_limit(size)) return false;
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED;  // allowed while another stream is captured
    RL_CUDA(cuThreadExchangeStreamCaptureMode, &mode);
    CUresult status = driver().cuMemAlloc_v2(&base, size);
    RL_CUDA(cuThreadExchangeStreamCaptureMode, &mode);
    if (status == CUDA_ERROR_OUT_OF_MEMORY) return false;
    check_call(status, "cuMemAlloc_v2");
    ++stats_.driver_allocations;
    return true;
  }

  void split(Block* block, size_t size) {
    size_t rest = block->size - size;
    bool any_size = block->segment->pool->small || block->segment->range;
    if (!caching_ || !(any_size ? rest >= granule : rest > small_size)) return;
    block->segment->pool->free.insert(cut(block, size));
  }

  void put_back(Block* block) {
    Pool& pool = *block->segment->pool;
    history_.add("free_completed", block->data, block->size, pool.stream, nullptr);
    if (block->pending.empty()) {
      block = join(pool, block, block->before);
      block = join(pool, block, block->after);
    }
    pool.free.insert(block);
    if (!caching_ && block->size == block->segment->size) {
      use(device_);
      for (auto& [user, event] : block->pending) {
        RL_CUDA(cuEventSynchronize, event);
        give_back_event(device_, event);
      }
      block->pending.clear();
      release(block);
    }
  }

  // The free block that two neighbours make, or the first if the other is not free.
  Block* join(Pool& pool, Block* block, Block* other) {
    if (!other || other->used || !other->pending.empty() || !pool.free.count(other)) return block;
    pool.free.erase(other);
    Block* left = other == block->before ? other : block;
    absorb(left);
    return left;
  }

  void record_users(Block* block) {
    use(device_);
    for (CUstream user : block->users) {
      CUevent event = take_event(device_);
      RL_CUDA(cuEventRecord, event, user);
      block->pending.push_back({user, event});
    }
    block->users.clear();
  }
  void record_deferred() {
    std::vector<Block*> blocks;
    blocks.swap(deferred_);
    for (Block* block : blocks) {
      record_users(block);
      put_back(block);
    }
  }

  // Gives segments of which nothing is used back to the driver.
  void release_cached() {
    for (auto& [key, pool] : pools_) {
      std::vector<Block*> blocks(pool->free.begin(), pool->free.end());
      for (Block* block : blocks) {
        if (block->pending.empty()) continue;
        for (auto& [user, event] : block->pending) {
          RL_CUDA(cuEventSynchronize, event);
          give_back_event(device_, event);
        }
        pool->free.erase(block);
        block->pending.clear();
        put_back(block);
      }
    }
    for (auto& [key, pool] : pools_) {
      if (pool->id && holders_.count(pool->id)) continue;
      std::vector<Block*> blocks(pool->free.begin(), pool->free.end());
      for (Block* block : blocks) {
        if (block->segment->range) unmap_pages(*pool, block);
        else if (block->size == block->segment->size) release(block);
      }
    }
    std::vector<Segment*> unused;
    for (auto& [base, segment] : segments_)
      if (!segment->first->mapped && segment->first->size == segment->size)
        unused.push_back(segment);
    for (Segment* segment : unused) forget(segment);
  }
  void release(Block* block) {
    Segment* segment = block->segment;
    Pool& pool = *segment->pool;
    pool.free.erase(block);
    RL_CUDA(cuMemFree_v2, segment->base);
    ++stats_.driver_frees;
    count_mapped(pool, -static_cast<int64_t>(segment->size));
    history_.add("segment_free", block->data, block->size, pool.stream, nullptr);
    forget(segment);
  }
  // Of which nothing is left but one block.
  void forget(Segment* segment) {
    each_pool(segment->pool->small, [&](PoolStats& s) { s.segments.add(-1); });
    segments_.erase(segment->base);
    delete segment->first;
    delete segment;
  }

  [[noreturn]] void fail_out_of_memory(size_t bytes) {
    ++stats_.out_of_memory;
    size_t free = 0, total = 0;
    driver().cuMemGetInfo_v2(&free, &total);
    std::vector<const Block*> blocks;
    for (const auto& [data, block] : live_) blocks.push_back(block);
    std::sort(blocks.begin(), blocks.end(),
              [](const Block* a, const Block* b) { return a->requested > b->requested; });
    std::ostringstream largest;
    for (size_t i = 0; i < blocks.size() && i < 5; ++i)
      largest << (i ? ", " : "; the largest tensors hold ") << shown(blocks[i]->requested);
    size_t allocated = static_cast<size_t>(stats_.pools[0].allocated_bytes.current);
    size_t reserved = static_cast<size_t>(stats_.pools[0].reserved_bytes.current);
    size_t largest_free = 0;
    for (const auto& [key, pool] : pools_)
      if (!pool->free.empty()) largest_free = std::max(largest_free, (*pool->free.rbegin())->size);
    fail(ErrorKind::OutOfMemory, "CUDA out of memory. Tried to allocate ", shown(bytes), ". GPU ",
         device_, " has a total capacity of ", shown(total), " of which ", shown(free),
         " is free. Of the memory reserved by rushlight (", shown(reserved), "), ",
         shown(allocated), " is allocated in ", live_.size(), " blocks and ",
         shown(reserved - allocated), " is unallocated, ", shown(largest_free),
         " of it in one piece", fraction_ < 1 ? "; a memory fraction is set" : "", largest.str());
  }

  template <class F> void each_pool(bool small, F&& f) {
    f(stats_.pools[0]);
    f(stats_.pools[small ? 1 : 2]);
  }
  template <class F> void each_counter(F&& f) {
    for (PoolStats& s : stats_.pools)
      for (Counter* c :
           {&s.allocations, &s.segments, &s.active, &s.inactive_split, &s.allocated_bytes,
            &s.reserved_bytes, &s.active_bytes, &s.inactive_split_bytes, &s.requested_bytes})
        f(*c);
  }
  void count(const Block& block, int sign) {
    each_pool(block.segment->pool->small, [&](PoolStats& s) {
      s.allocations.add(sign);
      s.active.add(sign);
      s.allocated_bytes.add(sign * static_cast<int64_t>(block.size));
      s.active_bytes.add(sign * static_cast<int64_t>(block.size));
      s.requested_bytes.add(sign * static_cast<int64_t>(block.requested));
    });
  }

  const int device_;
  bool caching_ = true, expandable_ = false;
  MemoryHistory history_;
  double fraction_ = 1;
  std::mutex mutex_;
  std::map<PoolKey, std::unique_ptr<Pool>> pools_;
  std::map<CUdeviceptr, Segment*> segments_;
  std::unordered_map<char*, Block*> live_;
  std::map<CUstream, PrivatePool> private_;
  std::map<uint64_t, int> holders_;
  std::vector<Block*> deferred_;
  AllocatorStats stats_;
};

// "expandable_segments:True,backend:native"; what else torch's allocator takes is warned of.
bool expandable_by(const std::string& settings) {
  bool expandable = false;
  std::istringstream text(settings);
  for (std::string item; std::getline(text, item, ',');) {
    size_t colon = item.find(':');
    std::string name = item.substr(0, colon);
    std::string value = colon == std::string::npos ? "" : item.substr(colon + 1);
    if (name == "expandable_segments") {
      check_value(value == "True" || value == "False",
                  "expandable_segments: expected True or False, got '", value, "'");
      expandable = value == "True";
    } else if (name != "backend" || value != "native") {
      warn(("the setting '" + item + "' of the allocator of GPU memory is ignored").c_str());
    }
  }
  return expandable;
}
bool expandable_by_environment() {
  for (const char* name :
       {"RUSHLIGHT_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"})
    if (const char* settings = std::getenv(name)) return expandable_by(settings);
  return false;
}

Allocator& allocator_of(int device) {
  // Tensors may outlive static objects, so these are never destroyed.
  static auto* allocators = [] {
    auto* made = new std::vector<Allocator*>;
    bool expandable = expandable_by_environment();
    for (int i = 0; i < device_count(); ++i) {
      made->push_back(new Allocator(i));
      made->back()->set_expandable(expandable);
    }
    return made;
  }();
  return *(*allocators)[static_cast<size_t>(device)];
}

}  // namespace

void* allocate_device(size_t bytes, int device) { return allocator_of(device).allocate(bytes); }
void free_device(void* data, int device) { allocator_of(device).free(data); }
void record_stream(void* data, int device, CUstream stream) {
  allocator_of(device).record(data, stream);
}
void empty_device_cache(int device) { allocator_of(device).empty(); }
AllocatorStats allocator_stats(int device) { return allocator_of(device).stats(); }
void reset_peak(int device) { allocator_of(device).reset_peaks(); }
void reset_accumulated(int device) { allocator_of(device).reset_totals(); }
void set_memory_fraction(int device, double fraction) {
  allocator_of(device).set_fraction(fraction);
}
double memory_fraction(int device) { return allocator_of(device).fraction(); }
std::vector<SegmentInfo> memory_snapshot(int device) { return allocator_of(device).snapshot(); }
std::vector<MemoryEntry> memory_trace(int device, bool clear) {
  return allocator_of(device).trace(clear);
}
void set_allocator_settings(const std::string& settings) {
  bool expandable = expandable_by(settings);
  for (int i = 0; i < device_count(); ++i) allocator_of(i).set_expandable(expandable);
}
bool is_expandable(const void* data, int device) {
  return allocator_of(device).is_expandable(data);
}

uint64_t new_private_pool() {
  static std::atomic<uint64_t> next{1};
  return next++;
}
void begin_private_pool(int device, CUstream stream, uint64_t id) {
  allocator_of(device).begin_private(stream, id);
}
void end_private_pool(int device, CUstream stream) { allocator_of(device).end_private(stream); }
void release_private_pool(int device, uint64_t id) { allocator_of(device).release_private(id); }

}  // namespace rl::cuda
