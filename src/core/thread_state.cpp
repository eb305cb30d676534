#include "core/thread_state.h"

#include <pthread.h>

#include <cstdlib>
#include <new>
#include <utility>

#include "core/after_fork.h"
#include "core/fork_mutex.h"
#include "core/observer.h"

namespace rl {

__thread ThreadState* thread_state_pointer = nullptr;
std::atomic<uint32_t> mode_of_all{0};

namespace {

void part_from_threads();

struct Listed : ThreadState {
  Listed* next = nullptr;
};

// Who lets a tensor go in a thread that did nothing else needs a state, with or without memory.
struct Spare {
  alignas(Listed) unsigned char bytes[sizeof(Listed)];
  bool taken = false;
};
Spare spares[8];

struct Threads {
  ForkMutex mutex{ForkRank::Threads};
  Listed* running = nullptr;
  Listed* behind = nullptr;  // never freed: nobody else gets their address
  std::atomic<uint64_t> forks{0};
  int64_t alive_of_ended[counted_kinds] = {};
};
Threads& threads() {
  static Threads* instance = [] {
    auto* made = new Threads;  // threads may outlive static destruction
    pthread_atfork(nullptr, nullptr, part_from_threads);
    return made;
  }();
  return *instance;
}

// With the mutex held.
Listed* new_state() {
  if (auto* made = new (std::nothrow) Listed) return made;
  for (Spare& spare : spares)
    if (!std::exchange(spare.taken, true)) return new (spare.bytes) Listed;
  throw std::bad_alloc();
}
void give_back(Listed* state) {
  for (Spare& spare : spares)
    if (static_cast<void*>(state) == spare.bytes) {
      spare.taken = false;
      return;
    }
  delete state;
}
void add(Listed*& list, Listed* state) { state->next = std::exchange(list, state); }
void add_counts_of_ended(const ThreadState& state) {
  for (int kind = 0; kind < counted_kinds; ++kind)
    threads().alive_of_ended[kind] += state.alive[kind];
}

// In the child of a fork, which has this thread alone.
void part_from_threads() {
  Threads& all = threads();
  ForkLock lock(all.mutex);
  ++all.forks;
  Listed* state = std::exchange(all.running, nullptr);
  while (state) {
    Listed* next = state->next;
    add(state == thread_state_pointer ? all.running : all.behind, state);
    if (state != thread_state_pointer) add_counts_of_ended(*state);
    state = next;
  }
}

void release_list(FreeList& list) {
  while (list.head) {
    void* next = *static_cast<void**>(list.head);
    std::free(list.head);
    list.head = next;
  }
  list.count = 0;
}

void release_thread_state(void* p) {
  auto* state = static_cast<Listed*>(static_cast<ThreadState*>(p));
  thread_state_pointer = nullptr;
  if (state->events) observer::leave(state->events);
  for (FreeList& list : state->small) release_list(list);
  release_list(state->tensors);
  release_list(state->storages);
  Threads& all = threads();
  ForkLock lock(all.mutex);
  Listed** at = &all.running;
  while (*at != state) at = &(*at)->next;
  *at = state->next;
  add_counts_of_ended(*state);
  give_back(state);
}

pthread_key_t exit_key() {
  static pthread_key_t key = [] {
    pthread_key_t k;
    pthread_key_create(&k, release_thread_state);
    return k;
  }();
  return key;
}

}  // namespace

ThreadState& make_thread_state() {
  Threads& all = threads();
  {
    ForkLock lock(all.mutex);
    Listed* made = new_state();
    add(all.running, made);
    thread_state_pointer = made;
  }
  pthread_setspecific(exit_key(), thread_state_pointer);
  renew_mode();
  return *thread_state_pointer;
}

void set_mode_of_all(uint32_t bits) {
  if ((mode_of_all.fetch_or(bits, std::memory_order_relaxed) & bits) == bits) return renew_mode();
  Threads& all = threads();
  ForkLock lock(all.mutex);
  for (Listed* state = all.running; state; state = state->next)
    __atomic_fetch_or(&state->mode, bits, __ATOMIC_RELAXED);
}

void clear_mode_of_all(uint32_t bits) {
  mode_of_all.fetch_and(~bits, std::memory_order_relaxed);
  Threads& all = threads();
  ForkLock lock(all.mutex);
  for (Listed* state = all.running; state; state = state->next)
    __atomic_fetch_and(&state->mode, ~bits, __ATOMIC_RELAXED);
}

uint64_t fork_count() { return threads().forks.load(std::memory_order_relaxed); }

bool stayed_behind(const void* thread) {
  Threads& all = threads();
  ForkLock lock(all.mutex);
  const Listed* state = all.behind;
  while (state && state != thread) state = state->next;
  return state;
}

int64_t count_alive(Counted kind) {
  Threads& all = threads();
  ForkLock lock(all.mutex);
  int64_t sum = all.alive_of_ended[kind];
  for (const Listed* state = all.running; state; state = state->next)
    sum += state->alive[kind].load(std::memory_order_relaxed);
  return sum;
}

void* pool_allocate_slow(size_t bytes) {
  void* p = nullptr;
  if (posix_memalign(&p, 64, pooled ? (bytes + 63) & ~size_t(63) : bytes) != 0)
    throw std::bad_alloc();
  return p;
}

void pool_free_slow(FreeList& list, void* p) {
  std::free(p);  // full: return half, so that a burst elsewhere does not keep its memory here
  for (int i = 0; i < 128 && list.head; ++i) {
    void* next = *static_cast<void**>(list.head);
    std::free(list.head);
    list.head = next;
    --list.count;
  }
}

}  // namespace rl
