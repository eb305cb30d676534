// require_index: in builds with sanitizers our own containers look at their indices, and end the
// process where one is outside: the memory beside it is theirs, so the sanitizer sees nothing.
// mark_unused: who reads by a bare pointer, as kernels read a view's sizes, passes no index of
// theirs; the address sanitizer is told which bytes hold no element.
#pragma once
#include <cstddef>

#if defined(RL_CHECK_INDICES) && defined(__SANITIZE_ADDRESS__)
#define RL_MARKS_UNUSED 1
#include <sanitizer/asan_interface.h>
#endif

namespace rl {

inline void require_index([[maybe_unused]] size_t index, [[maybe_unused]] size_t size) {
#ifdef RL_CHECK_INDICES
  if (index >= size) __builtin_trap();
#endif
}

#ifdef RL_MARKS_UNUSED
inline constexpr bool marks_unused = true;
inline void mark_unused(const void* begin, size_t bytes) {
  __asan_poison_memory_region(begin, bytes);
}
inline void mark_used(const void* begin, size_t bytes) {
  __asan_unpoison_memory_region(begin, bytes);
}
#else
inline constexpr bool marks_unused = false;
inline void mark_unused(const void*, size_t) {}
inline void mark_used(const void*, size_t) {}
#endif

}  // namespace rl
