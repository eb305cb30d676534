#include "core/parallel.h"

#include <omp.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <exception>

namespace rl {
namespace {

std::atomic<int> threads{0};
std::atomic<bool> has_team{false};   // libgomp may have started threads
std::atomic<bool> lost_team{false};  // and this process is a child that they are missing from

int available_cpus() {
  cpu_set_t set;
  int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  return n > 0 ? n : 1;
}

// libgomp waits for ever for the threads of its team in a child forked after a parallel region,
// for they are the parent's: such a child runs one thread.
void single_thread_in_child() {
  threads.store(1);
  lost_team.store(has_team.load());
  omp_set_num_threads(1);
}

int initial_threads() {
  pthread_atfork(nullptr, nullptr, single_thread_in_child);
  int n = omp_get_max_threads(), cpus = available_cpus();
  return n < cpus ? n : cpus;
}

}  // namespace

int num_threads() {
  int n = threads.load(std::memory_order_relaxed);
  if (__builtin_expect(n == 0, 0)) {
    n = initial_threads();
    threads.store(n);
    if (n > 1) has_team.store(true);
  }
  return n;
}

void set_num_threads(int n) {
  num_threads();
  if (lost_team.load()) return;
  if (n > 1) has_team.store(true);
  threads.store(n);
  omp_set_num_threads(n);
}

bool in_parallel_region() { return omp_in_parallel(); }

void detail::run_parallel(int64_t begin, int64_t end, int64_t grain, void* context,
                          void (*call)(void*, int64_t, int64_t)) {
  int64_t chunks = (end - begin + grain - 1) / grain;
  int team = static_cast<int>(chunks < num_threads() ? chunks : num_threads());
  std::exception_ptr error;
  std::atomic_flag failed = ATOMIC_FLAG_INIT;
#pragma omp parallel num_threads(team)
  {
    int64_t n = omp_get_num_threads(), me = omp_get_thread_num();
    int64_t step = (end - begin + n - 1) / n, b = begin + me * step,
            e = b + step < end ? b + step : end;
    if (b < e) {
      try {
        call(context, b, e);
      } catch (...) {
        if (!failed.test_and_set()) error = std::current_exception();
      }
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace rl
