// ForkMutex: a mutex that nobody holds while the process forks, so that the child can take it. One
// that another thread held would stay locked in the child for ever, as that thread is not there.
#pragma once
#include <mutex>

namespace rl {

// The order in which a fork takes them: who holds one may take those after it.
enum class ForkRank {
  Plans,
  Views,
  Autograd,
  ContentsComputation,
  StorageContents,
  ResolvedViews,
  Sources,
  Allocator,
  Threads,
  PythonLinks,
  Observers,
  Mappings
};

// Lives as long as the process.
class ForkMutex {
 public:
  explicit ForkMutex(ForkRank rank);
  ForkMutex(const ForkMutex&) = delete;
  ForkMutex& operator=(const ForkMutex&) = delete;
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }
  ForkRank rank() const { return rank_; }

 private:
  std::mutex mutex_;
  const ForkRank rank_;
};

using ForkLock = std::lock_guard<ForkMutex>;

}  // namespace rl
