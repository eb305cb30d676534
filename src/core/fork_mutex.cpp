#include "core/fork_mutex.h"

#include <pthread.h>

#include <algorithm>
#include <vector>

namespace rl {

namespace {

struct Registry {
  std::mutex mutex;
  std::vector<ForkMutex*> all;  // by rank
};

Registry& registry() {
  static Registry* instance = [] {
    auto* made = new Registry;  // threads may outlive static destruction
    pthread_atfork(
        [] {
          registry().mutex.lock();
          for (ForkMutex* m : registry().all) m->lock();
        },
        [] {
          for (ForkMutex* m : registry().all) m->unlock();
          registry().mutex.unlock();
        },
        [] {
          for (ForkMutex* m : registry().all) m->unlock();
          registry().mutex.unlock();
        });
    return made;
  }();
  return *instance;
}

}  // namespace

ForkMutex::ForkMutex(ForkRank rank) : rank_(rank) {
  Registry& r = registry();
  std::lock_guard<std::mutex> lock(r.mutex);
  auto later = [](ForkRank value, const ForkMutex* m) { return value < m->rank(); };
  r.all.insert(std::upper_bound(r.all.begin(), r.all.end(), rank, later), this);
}

}  // namespace rl
