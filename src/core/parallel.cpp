#include "core/parallel.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "core/denormals.h"
#include "core/ended_loop.h"
#include "core/observer.h"
#include "core/processor.h"
#include "core/system.h"
#include "core/thread_state.h"

namespace rl {

int64_t detail::largest_grain = INT64_MAX;

namespace {

constexpr int most_threads = 256;
// Of waiting before a thread goes to sleep: longer than what Python does between two operations of
// a network, because waking takes 20 to 50 us where processors are virtual. After some turns of 40
// to 140 cycles, whoever else has work for the processor gets it.
constexpr uint64_t spin_ticks = 300'000;
constexpr int turns_alone = 500;
// What a thread does without asking whether the user interrupts it: in grains, half a millisecond
// of simple work, however long the loop is.
constexpr int64_t grains_of_part = 64;
constexpr std::chrono::milliseconds between_polls{50};  // while it waits for the last parts

// Whether `is_over` became true before it was time to sleep.
template <class F> bool spin_until(F is_over) {
  const uint64_t started = ticks();
  for (int turn = 0; !is_over(); ++turn) {
    if (turn < turns_alone) {
      spin_pause();
    } else {
      std::this_thread::yield();
      if (ticks() - started > spin_ticks) return false;
    }
  }
  return true;
}

thread_local const std::atomic<bool>* loop_of_thread = nullptr;  // whether it has ended

// A loop under way. It is cut into some pieces per thread. Each thread begins with pieces of its
// own, so that it meets the same part of a tensor in every operation, and ends with those that
// others have not begun. So nobody waits for a thread that the system has not found time for yet.
class Job {
 public:
  Job(int64_t begin, int64_t end, int64_t grain, int threads, void* context,
      void (*call)(void*, int64_t, int64_t))
      : begin_(begin), end_(end), context_(context), call_(call), threads_(threads) {
    constexpr int64_t pieces_per_thread = 8;
    int64_t n = end - begin, parts = n / (grains_of_part * grain);
    int64_t pieces = std::min(n / grain, std::max(parts, pieces_per_thread * threads));
    step_ = (n + pieces - 1) / pieces;
    if (step_ >= 1024) step_ = (step_ + 63) & ~int64_t(63);  // two pieces share no cache line
    pieces_ = (n + step_ - 1) / step_;
    for (int lane = 0; lane <= threads; ++lane) first_[lane] = lane * pieces_ / threads;
    for (int lane = 0; lane < threads; ++lane)
      next_[lane].store(first_[lane], std::memory_order_relaxed);
  }

  // For threads other than the caller: they compute with tiny numbers as it does.
  void help(int lane) {
    if (denormal_mode() != denormal_mode_) set_denormal_mode(denormal_mode_);
    observer::Scope part(EventKind::Part, kernel_ ? kernel_ : "parallel_for");
    work(lane);
  }

  // The caller polls `interruption` between pieces.
  void work(int lane, Interruption* interruption = nullptr) {
    loop_of_thread = &ended_;
    for (int i = 0; i < threads_; ++i, lane = lane + 1 == threads_ ? 0 : lane + 1)
      while (next_[lane].load(std::memory_order_relaxed) < first_[lane + 1]) {
        int64_t piece = next_[lane].fetch_add(1, std::memory_order_relaxed);
        if (piece < first_[lane + 1]) run(begin_ + piece * step_, interruption);
      }
    loop_of_thread = nullptr;
  }
  // By the caller, while it waits for others.
  void ask() {
    try {
      Interruption::ask();
    } catch (...) {
      fail();
    }
  }
  bool has_ended() const { return ended_.load(std::memory_order_relaxed); }

  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

  // Guarded by the thread pool.
  int joined = 1;
  std::atomic<int> inside{0};  // threads at it, the caller's left out
  bool caller_sleeps = false;
  bool has_room() const { return joined < threads_; }

 private:
  void run(int64_t begin, Interruption* interruption) {
    if (ended_.load(std::memory_order_relaxed)) return;
    try {
      if (interruption) interruption->poll();
      call_(context_, begin, std::min(begin + step_, end_));
    } catch (...) {
      fail();
    }
  }
  void fail() {  // by the exception that is caught
    if (!failed_.test_and_set()) error_ = std::current_exception();
    ended_.store(true, std::memory_order_relaxed);
  }

  const int64_t begin_, end_;
  int64_t step_, pieces_;
  void* const context_;
  void (*const call_)(void*, int64_t, int64_t);
  const int threads_;
  const unsigned denormal_mode_ = denormal_mode();
  const char* const kernel_ = thread_state().kernel;
  std::exception_ptr error_;
  std::atomic_flag failed_ = ATOMIC_FLAG_INIT;
  std::atomic<bool> ended_{false};   // by an exception: the other pieces are left out
  int64_t first_[most_threads + 1];  // pieces by lane, of which each thread has one
  std::atomic<int64_t> next_[most_threads];
};

// The threads that help those which call parallel_for, of whom there may be several.
class ThreadPool {
 public:
  void run(Job& job, int helpers) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      spawn(helpers);
      jobs_.push_back(&job);
      open_.store(static_cast<int>(jobs_.size()), std::memory_order_release);
      helpers = std::min(helpers - spinning_, sleeping_);
    }
    for (int i = 0; i < helpers; ++i) work_.notify_one();
    Interruption interruption;
    job.work(0, &interruption);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      close(job);
    }
    if (spin_until([&] { return job.inside.load(std::memory_order_acquire) == 0; })) return;
    std::unique_lock<std::mutex> lock(mutex_);
    job.caller_sleeps = true;
    auto is_done = [&] { return job.inside.load(std::memory_order_relaxed) == 0; };
    while (!done_.wait_for(lock, between_polls, is_done)) {
      if (job.has_ended()) continue;
      lock.unlock();
      job.ask();
      lock.lock();
    }
  }

 private:
  void spawn(int helpers) {
    try {
      while (hired_ < helpers) {
        std::thread([this] { help(); }).detach();
        ++hired_;
      }
    } catch (const std::exception&) {
      // The system has no more threads to give, or no memory; those that are there do the work.
    }
  }

  void close(Job& job) {
    auto at = std::find(jobs_.begin(), jobs_.end(), &job);
    if (at != jobs_.end()) jobs_.erase(at);
    open_.store(static_cast<int>(jobs_.size()), std::memory_order_relaxed);
  }

  void help() {
    try {
      thread_state().in_parallel = true;
    } catch (const std::bad_alloc&) {
      std::lock_guard<std::mutex> lock(mutex_);
      --hired_;
      return;
    }
    for (;;) {
      auto [job, lane] = join();
      job->help(lane);
      leave(*job);
    }
  }

  struct Place {
    Job* job;
    int lane;
  };
  Place join() {
    std::unique_lock<std::mutex> lock(mutex_);
    if (jobs_.empty()) {
      ++spinning_;
      lock.unlock();
      spin_until([&] { return open_.load(std::memory_order_relaxed) != 0; });
      lock.lock();
      --spinning_;
    }
    ++sleeping_;
    work_.wait(lock, [&] { return !jobs_.empty(); });
    --sleeping_;
    Job* job = jobs_.front();
    int lane = job->joined++;
    job->inside.fetch_add(1, std::memory_order_relaxed);
    if (!job->has_room()) close(*job);
    return {job, lane};
  }

  void leave(Job& job) {
    std::lock_guard<std::mutex> lock(mutex_);
    bool wake = job.caller_sleeps;
    if (job.inside.fetch_sub(1, std::memory_order_release) == 1 && wake) done_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable work_, done_;
  std::vector<Job*> jobs_;    // that have room
  std::atomic<int> open_{0};  // their number
  int hired_ = 0, spinning_ = 0, sleeping_ = 0;
};

// In this thread alone. Parts grow until one takes a quarter of a millisecond or so.
void run_in_parts(int64_t begin, int64_t end, int64_t grain, void* context,
                  void (*call)(void*, int64_t, int64_t)) {
  constexpr uint64_t short_time = uint64_t(1) << 19;  // ticks
  int64_t part = std::clamp((end - begin) / 256, grain, grains_of_part * grain);
  if (part >= 1024) part = (part + 63) & ~int64_t(63);
  Interruption interruption;
  for (int64_t next; begin < end; begin = next) {
    uint64_t started = ticks();
    next = end - begin < 2 * part ? end : begin + part;
    call(context, begin, next);
    if (ticks() - started < short_time && part <= (end - begin) / 2) part *= 2;
    interruption.poll();
  }
}

struct InParallel {
  bool& in_parallel = thread_state().in_parallel;
  InParallel() { in_parallel = true; }
  ~InParallel() { in_parallel = false; }
};

std::atomic<int> threads{0};
std::atomic<ThreadPool*> thread_pool{nullptr};

ThreadPool& get_thread_pool() {
  ThreadPool* found = thread_pool.load(std::memory_order_acquire);
  if (found) return *found;
  auto* made = new ThreadPool;  // its threads outlive static destruction
  if (thread_pool.compare_exchange_strong(found, made)) return *made;
  delete made;
  return *found;
}

int initial_threads() {
  pthread_atfork(nullptr, nullptr, [] {
    thread_pool.store(nullptr);  // its threads are the parent's
    threads.store(1);
  });
  int cpus = usable_processors();
  if (const char* wish = std::getenv("OMP_NUM_THREADS"))
    if (int count = std::atoi(wish); count > 0) return std::min(count, cpus);
  // Not rounded up: threads that use the quota up are all stopped until its period ends.
  double quota = cpu_quota();
  return std::max(1, quota > 0 && quota < cpus ? static_cast<int>(quota) : cpus);
}

}  // namespace

bool loop_has_ended() { return loop_of_thread && loop_of_thread->load(std::memory_order_relaxed); }

int num_threads() {
  int n = threads.load(std::memory_order_relaxed);
  if (__builtin_expect(n == 0, 0)) threads.store(n = initial_threads());
  return n;
}

void set_num_threads(int n) {
  num_threads();
  threads.store(n);
}

void detail::run_parallel(int64_t begin, int64_t end, int64_t grain, void* context,
                          void (*call)(void*, int64_t, int64_t)) {
  // From about half a millisecond: to come back, one waits for what the others do, and a thread
  // that only runs Python keeps the interpreter for 5 ms. At an eighth of this, ResNet-50 takes 1.8
  // times as long beside such a thread, while two of them at once gain no more.
  ScopedGilRelease work((end - begin) / grain >= 64);
  int64_t most = std::min<int64_t>(num_threads(), most_threads);
  if (most == 1 || in_parallel_region()) return run_in_parts(begin, end, grain, context, call);
  int team = static_cast<int>(std::min((end - begin) / grain, most));
  Job job(begin, end, grain, team, context, call);
  {
    InParallel scope;
    get_thread_pool().run(job, team - 1);
  }
  job.rethrow();
}

}  // namespace rl
