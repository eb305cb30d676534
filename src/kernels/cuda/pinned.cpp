// Page-locked memory of the host, kept for reuse when what copies from or to it has run.
#include <map>
#include <mutex>
#include <vector>

#include "kernels/cuda/allocator.h"

namespace rl::cuda {
namespace {

struct PinnedBlock {
  size_t size;
  std::vector<std::pair<int, CUevent>> pending;
};
struct PinnedCache {
  std::mutex mutex;
  std::map<char*, PinnedBlock> used, waiting;
  std::multimap<size_t, char*> free;
};
PinnedCache& pinned_cache() {
  static auto* cache = new PinnedCache;
  return *cache;
}

// Powers of two up to 1 MiB, then eighths of one, pages from 64 MiB on.
size_t pinned_size(size_t bytes) {
  if (bytes <= 4096) return 4096;
  if (bytes > size_t(64) << 20) return (bytes + 4095) / 4096 * 4096;
  size_t power = 4096;
  while (power * 2 < bytes) power *= 2;
  if (power < size_t(1) << 20) return power * 2;
  size_t step = power / 8;
  return (bytes + step - 1) / step * step;
}

void collect_pinned(PinnedCache& cache) {
  for (auto it = cache.waiting.begin(); it != cache.waiting.end();) {
    auto& pending = it->second.pending;
    while (!pending.empty() &&
           driver().cuEventQuery(pending.back().second) != CUDA_ERROR_NOT_READY) {
      give_back_event(pending.back().first, pending.back().second);
      pending.pop_back();
    }
    if (pending.empty()) {
      cache.free.emplace(it->second.size, it->first);
      it = cache.waiting.erase(it);
    } else {
      ++it;
    }
  }
}

}  // namespace

void* allocate_pinned(size_t bytes) {
  require();
  use(current_device());
  PinnedCache& cache = pinned_cache();
  std::lock_guard<std::mutex> lock(cache.mutex);
  collect_pinned(cache);
  size_t size = pinned_size(bytes);
  auto it = cache.free.lower_bound(size);
  char* data;
  if (it != cache.free.end() && it->first <= size + size / 4) {
    size = it->first;
    data = it->second;
    cache.free.erase(it);
  } else {
    void* fresh = nullptr;
    RL_CUDA(cuMemHostAlloc, &fresh, size, CU_MEMHOSTALLOC_PORTABLE);
    data = static_cast<char*>(fresh);
  }
  cache.used[data] = {size, {}};
  return data;
}
void free_pinned(void* data) {
  PinnedCache& cache = pinned_cache();
  std::lock_guard<std::mutex> lock(cache.mutex);
  auto it = cache.used.find(static_cast<char*>(data));
  if (it == cache.used.end()) return;
  cache.waiting[it->first] = std::move(it->second);
  cache.used.erase(it);
}
namespace {
std::map<char*, PinnedBlock>::iterator find_pinned(PinnedCache& cache, const void* data) {
  char* at = const_cast<char*>(static_cast<const char*>(data));
  auto it = cache.used.upper_bound(at);
  if (it == cache.used.begin()) return cache.used.end();
  --it;
  return at < it->first + it->second.size ? it : cache.used.end();
}
}  // namespace
bool is_pinned(const void* data) {
  PinnedCache& cache = pinned_cache();
  std::lock_guard<std::mutex> lock(cache.mutex);
  return find_pinned(cache, data) != cache.used.end();
}
void record_pinned(const void* data, int device, CUstream stream) {
  PinnedCache& cache = pinned_cache();
  std::lock_guard<std::mutex> lock(cache.mutex);
  auto it = find_pinned(cache, data);
  if (it == cache.used.end()) return;
  CUevent event = take_event(device);
  RL_CUDA(cuEventRecord, event, stream);
  it->second.pending.push_back({device, event});
}
void empty_pinned_cache() {
  PinnedCache& cache = pinned_cache();
  std::lock_guard<std::mutex> lock(cache.mutex);
  collect_pinned(cache);
  for (auto& [size, data] : cache.free) RL_CUDA(cuMemFreeHost, data);
  cache.free.clear();
}

}  // namespace rl::cuda
