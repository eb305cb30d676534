// parallel_for: a loop split over threads, each chunk at least `grain` long. Results never depend
// on the number of threads: chunk borders do, so kernels must not reduce across them.
#pragma once
#include <cstdint>
#include <type_traits>

namespace rl {

int num_threads();
void set_num_threads(int n);
bool in_parallel_region();

namespace detail {
void run_parallel(int64_t begin, int64_t end, int64_t grain, void* context,
                  void (*call)(void*, int64_t, int64_t));
}

// f(begin, end) on disjoint chunks; an exception of any chunk is rethrown in the caller.
template <class F>
void parallel_for(int64_t begin, int64_t end, int64_t grain, F&& f) {
  if (begin >= end) return;
  if (end - begin <= grain || num_threads() == 1 || in_parallel_region()) return f(begin, end);
  using Fn = std::remove_reference_t<F>;
  detail::run_parallel(begin, end, grain, const_cast<void*>(static_cast<const void*>(&f)),
                       [](void* c, int64_t b, int64_t e) { (*static_cast<Fn*>(c))(b, e); });
}

// Work per chunk that pays for waking a thread: about 32 K simple element operations.
inline constexpr int64_t default_grain = 32768;

}  // namespace rl
