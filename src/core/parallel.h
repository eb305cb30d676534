// parallel_for: a loop split over threads, each chunk at least `grain` long. Results never depend
// on the number of threads: chunk borders do, so kernels must not reduce across them.
#pragma once
#include <cstdint>
#include <type_traits>

#include "core/interpreter.h"
#include "core/thread_state.h"

namespace rl {

int num_threads();
void set_num_threads(int n);
inline bool in_parallel_region() { return thread_state().in_parallel; }

// How many processors' time this process's control groups grant it, or 0 if they set no limit.
// `root` stands before the paths of the system's files.
double cpu_quota(const char* root = "");

// Work per chunk that pays for waking a thread: about 32 K simple element operations.
inline constexpr int64_t default_grain = 32768;

namespace detail {
extern int64_t largest_grain;  // lowered by tests, so that small loops are split too
void run_parallel(int64_t begin, int64_t end, int64_t grain, void* context,
                  void (*call)(void*, int64_t, int64_t));
}  // namespace detail

// f(begin, end) on disjoint chunks; an exception of any chunk is rethrown in the caller,
// and ends the loop. So does an interruption by the user.
template <class F>
void parallel_for(int64_t begin, int64_t end, int64_t grain, F&& f) {
  if (begin >= end) return;
  if (grain > detail::largest_grain) grain = detail::largest_grain;
  if (end - begin < 2 * grain) return f(begin, end);
  using Fn = std::remove_reference_t<F>;
  detail::run_parallel(begin, end, grain, const_cast<void*>(static_cast<const void*>(&f)),
                       [](void* c, int64_t b, int64_t e) { (*static_cast<Fn*>(c))(b, e); });
}

}  // namespace rl
