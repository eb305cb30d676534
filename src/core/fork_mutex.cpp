#include "core/fork_mutex.h"

#include <pthread.h>

#include <algorithm>
#include <vector>

namespace rl {

namespace {

struct Registry {
  std::mutex mutex;             // taken after any of `all`: they may be held where one is made
  std::vector<ForkMutex*> all;  // by rank
};

Registry& registry();

std::vector<ForkMutex*> registered() {
  std::lock_guard<std::mutex> lock(registry().mutex);
  return registry().all;
}

void take_all() {
  Registry& r = registry();
  for (;;) {
    std::vector<ForkMutex*> known = registered();
    for (ForkMutex* m : known) m->lock();
    r.mutex.lock();
    if (r.all.size() == known.size()) return;
    r.mutex.unlock();  // another one was made meanwhile
    for (ForkMutex* m : known) m->unlock();
  }
}

void release_all() {
  Registry& r = registry();
  for (ForkMutex* m : r.all) m->unlock();
  r.mutex.unlock();
}

Registry& registry() {
  static Registry* instance = [] {
    auto* made = new Registry;  // threads may outlive static destruction
    pthread_atfork(take_all, release_all, release_all);
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
