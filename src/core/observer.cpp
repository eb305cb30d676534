#include "core/observer.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/fork_mutex.h"
#include "core/processor.h"
#include "core/ranges.h"
#include "core/warning.h"

namespace rl::observer {
namespace {

int64_t nanoseconds(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return int64_t(t.tv_sec) * 1000000000 + t.tv_nsec;
}

constexpr size_t events_of_chunk = 2048;
constexpr size_t words_of_chunk = 16384;

template <class T, size_t size> class Chunks {
 public:
  T* add(size_t n) {
    if (chunks_.empty() || used_ + n > size) {
      const size_t next = at_ + 1;
      if (next >= chunks_.size()) chunks_.push_back(std::unique_ptr<T[]>(new T[size]));
      counts_.resize(chunks_.size());
      at_ = next;
      used_ = 0;
    }
    T* first = &chunks_[at_][used_];
    return first;
  }
  void keep(size_t n) { counts_[at_] = used_ += n; }
  void rewind() {
    at_ = size_t(-1);
    used_ = size;
    counts_.clear();
    constexpr size_t kept = 64;
    if (chunks_.size() > kept) chunks_.resize(kept);
  }
  template <class F> void each(F&& f) {
    for (size_t c = 0; c < counts_.size(); ++c)
      for (size_t i = 0; i < counts_[c]; ++i) f(chunks_[c][i]);
  }

 private:
  std::vector<std::unique_ptr<T[]>> chunks_;
  std::vector<size_t> counts_;
  size_t at_ = size_t(-1), used_ = size;
};

// What one thread writes. `busy` keeps the end of a profile apart from a beginning event.
struct Buffer {
  std::atomic_flag busy = ATOMIC_FLAG_INIT;
  std::atomic<int64_t> open{0};  // events that their thread has not ended
  Chunks<Event, events_of_chunk> events;
  Chunks<int64_t, words_of_chunk> words;
  int64_t thread = gettid();
  std::atomic<bool> ended{false};  // the thread has
  Event range;                     // stands for every event that is a range of another tool
};

class Busy {
 public:
  explicit Busy(Buffer& buffer) : flag_(buffer.busy) {
    while (flag_.test_and_set(std::memory_order_acquire)) spin_pause();
  }
  ~Busy() { flag_.clear(std::memory_order_release); }

 private:
  std::atomic_flag& flag_;
};

enum class State { Idle, Recording, Ending, Ranges };

struct Recorder {
  ForkMutex mutex{ForkRank::Observers};
  std::vector<Buffer*> buffers;
  std::unordered_set<std::string> names;
  std::unordered_map<int64_t, Event*> spans;
  int64_t next_span = 1;
  Options options;
  Ranges ranges;
  uint64_t first_tick = 0;
  int64_t first_time = 0;
};
std::atomic<State> state{State::Idle};
std::atomic<int64_t> missing{0};  // events

void forget_all() {
  if (state.load() == State::Idle) return;
  state.store(State::Idle);  // and what other threads were writing is left alone
  clear_mode_of_all(Profiled | ProfiledMemory);
}

Recorder& recorder() {
  static Recorder* instance = new Recorder;  // threads may outlive static destruction
  return *instance;
}

Buffer& buffer_of(ThreadState& thread) {
  if (__builtin_expect(thread.events != nullptr, 1)) return *static_cast<Buffer*>(thread.events);
  auto made = std::make_unique<Buffer>();
  ForkLock lock(recorder().mutex);
  recorder().buffers.push_back(made.get());
  thread.events = made.get();
  return *made.release();
}

bool recording() { return state.load(std::memory_order_relaxed) == State::Recording; }

Event* begin_range(EventKind kind, const char* name) {
  ThreadState& thread = thread_state();
  if (kind == EventKind::Op && grad_enabled()) {
    char text[128];
    std::snprintf(text, sizeof text, "aten::%s, seq = %llu", name,
                  static_cast<unsigned long long>(thread.next_sequence + 1));
    recorder().ranges.push(text);
  } else {
    recorder().ranges.push(name);
  }
  Event& range = buffer_of(thread).range;
  range = Event();
  return &range;
}

// A profile that begins after a fork: what the parent's threads wrote stays theirs.
void leave_buffers_of_parent() {
  static int64_t owner = getpid();
  if (owner == getpid()) return;
  owner = getpid();
  recorder().buffers.clear();
  recorder().spans.clear();
  thread_state().events = nullptr;
}

}  // namespace

const Options& options() { return recorder().options; }
bool is_recording() {
  State now = state.load(std::memory_order_relaxed);
  return now == State::Recording || now == State::Ranges;
}
int64_t now() { return nanoseconds(CLOCK_REALTIME); }

bool start(const Options& wanted) {
  static bool once = [] {
    pthread_atfork(nullptr, nullptr, forget_all);
    return true;
  }();
  (void)once;
  State idle = State::Idle;
  if (!state.compare_exchange_strong(idle, State::Ending)) return false;
  Recorder& r = recorder();
  {
    ForkLock lock(r.mutex);
    leave_buffers_of_parent();
    auto ends = std::partition(r.buffers.begin(), r.buffers.end(),
                               [](const Buffer* b) { return !b->ended.load(); });
    std::for_each(ends, r.buffers.end(), [](Buffer* b) { delete b; });
    r.buffers.erase(ends, r.buffers.end());
  }
  r.options = wanted;
  r.first_time = nanoseconds(CLOCK_REALTIME);
  r.first_tick = ticks();
  state.store(State::Recording);
  set_mode_of_all(uint32_t(Profiled) | (wanted.memory ? uint32_t(ProfiledMemory) : 0));
  return true;
}

namespace {

// Passes on what a buffer holds; times are those that `time` gives of ticks.
template <class F> void pass_on(Buffer& b, Visitor& visitor, uint64_t last_tick, F&& time) {
  visitor.thread(b.thread);
  b.events.each([&](Event& kept) {
    Event event = kept;
    kept.where = SourceLocation();
    if (event.kind != EventKind::External) {
      uint64_t end = event.end ? event.end : last_tick;
      event.start = static_cast<uint64_t>(time(event.start));
      event.end = static_cast<uint64_t>(time(end));
    }
    visitor.event(event);
  });
}

void empty(Buffer& b) {
  if (b.open.load(std::memory_order_acquire) == 0) {
    b.events.rewind();
    b.words.rewind();
  } else {  // somebody will still write the end of an event
    auto* left = new (std::nothrow) Buffer;
    if (!left) return;
    std::swap(left->events, b.events);
    std::swap(left->words, b.words);
    b.open.store(0);
  }
}

}  // namespace

void stop(Visitor& visitor) {
  State was = State::Recording;
  if (!state.compare_exchange_strong(was, State::Ending)) return;
  struct Idle {
    ~Idle() { state.store(State::Idle); }
  } idle_at_last;
  clear_mode_of_all(Profiled | ProfiledMemory);
  Recorder& r = recorder();
  uint64_t last_tick = ticks();
  int64_t last_time = nanoseconds(CLOCK_REALTIME);
  double rate = last_tick == r.first_tick
                    ? 1.0
                    : double(last_time - r.first_time) / double(last_tick - r.first_tick);
  std::vector<Buffer*> buffers;
  {
    ForkLock lock(r.mutex);
    r.spans.clear();
    buffers = r.buffers;
  }
  auto time = [&](uint64_t tick) {
    return r.first_time + int64_t(double(int64_t(tick - r.first_tick)) * rate);
  };
  std::exception_ptr error;  // the first one: what the others hold is no part of the next profile
  for (Buffer* b : buffers) {
    {
      Busy last(*b);
    }  // whoever begins an event from now on sees that nothing is recorded
    try {
      if (!error) pass_on(*b, visitor, last_tick, time);
    } catch (...) {
      error = std::current_exception();
    }
    empty(*b);
  }
  if (error) std::rethrow_exception(error);
  if (int64_t n = missing.exchange(0))
    warn(("profile: there was no memory for " + std::to_string(n) + " events").c_str());
}

bool start_ranges(const Ranges& ranges) {
  State idle = State::Idle;
  if (!state.compare_exchange_strong(idle, State::Ending)) return false;
  recorder().ranges = ranges;
  recorder().options = Options();
  state.store(State::Ranges);
  set_mode_of_all(Profiled);
  return true;
}

void stop_ranges() {
  State was = State::Ranges;
  if (!state.compare_exchange_strong(was, State::Ending)) return;
  clear_mode_of_all(Profiled);
  state.store(State::Idle);
}

namespace {

Event* begin_or_throw(EventKind kind, const char* name) {
  if (__builtin_expect(state.load(std::memory_order_relaxed) == State::Ranges, 0))
    return begin_range(kind, name);
  ThreadState& thread = thread_state();
  Buffer& b = buffer_of(thread);
  Busy busy(b);
  if (!recording()) {
    thread.mode &= ~uint32_t(Profiled | ProfiledMemory);
    return nullptr;
  }
  Event* e = b.events.add(1);
  *e = Event();
  b.events.keep(1);
  e->name = name;
  e->kind = kind;
  e->depth = thread.op_depth;
  e->memory = thread.storage_bytes;
  e->in_backward = thread.mode & InBackward;
  b.open.fetch_add(1, std::memory_order_relaxed);
  e->start = ticks();
  return e;
}

}  // namespace

// Destructors call this, and threads of the pool: an event for which there is no memory is missing.
Event* begin(EventKind kind, const char* name) {
  try {
    return begin_or_throw(kind, name);
  } catch (const std::bad_alloc&) {
    missing.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
}

void end(Event* event) {
  ThreadState& thread = thread_state();
  if (__builtin_expect(event == &static_cast<Buffer*>(thread.events)->range, 0)) {
    recorder().ranges.pop();
    return;
  }
  event->memory = thread.storage_bytes - event->memory;
  event->end = ticks();
  Buffer& b = *static_cast<Buffer*>(thread.events);
  if (b.open.load(std::memory_order_relaxed) > 0) b.open.fetch_sub(1, std::memory_order_release);
}

void allocation(const void* address, int64_t bytes) {
  Event* e = begin(EventKind::Allocation, "[memory]");
  if (!e) return;
  end(e);
  e->memory = bytes;
  e->bytes = reinterpret_cast<int64_t>(address);
}

void leave(void* events) { static_cast<Buffer*>(events)->ended.store(true); }

const char* intern(const std::string& name) {
  Recorder& r = recorder();
  ForkLock lock(r.mutex);
  return r.names.insert(name).first->c_str();
}

Event* begin_open(EventKind kind, const char* name) {
  Event* e = begin(kind, name);
  if (e) static_cast<Buffer*>(thread_state().events)->open.fetch_sub(1, std::memory_order_relaxed);
  return e;
}

void end_open(Event* event) {
  event->end = ticks();
  event->memory = thread_state().storage_bytes - event->memory;
}

int64_t begin_span(EventKind kind, const char* name) {
  if (state.load(std::memory_order_relaxed) == State::Ranges) {
    recorder().ranges.push(name);
    return -1;
  }
  if (!recording()) return 0;
  Event* e = begin_open(kind, name);
  if (!e) return 0;
  Recorder& r = recorder();
  ForkLock lock(r.mutex);
  r.spans[r.next_span] = e;
  return r.next_span++;
}

void end_span(int64_t span) {
  if (span == -1) {
    if (state.load(std::memory_order_relaxed) == State::Ranges) recorder().ranges.pop();
    return;
  }
  uint64_t at = ticks();
  Recorder& r = recorder();
  ForkLock lock(r.mutex);
  auto found = r.spans.find(span);
  if (found == r.spans.end()) return;  // of a profile that has ended
  found->second->memory = thread_state().storage_bytes - found->second->memory;
  found->second->end = at;
  r.spans.erase(found);
}

void external(const char* name, int64_t start, int64_t end, int32_t device, int32_t stream) {
  Event* e = begin(EventKind::External, name);
  if (!e) return;
  observer::end(e);
  e->memory = 0;
  e->start = static_cast<uint64_t>(start);
  e->end = static_cast<uint64_t>(end);
  e->device = device;
  e->stream = stream;
}

int64_t* reserve(size_t words) {
  Buffer& b = buffer_of(thread_state());
  return words <= words_of_chunk ? b.words.add(words) : nullptr;
}
void keep(size_t words) { buffer_of(thread_state()).words.keep(words); }

}  // namespace rl::observer
