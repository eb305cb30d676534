// require_index: in builds with sanitizers our own containers look at their indices, and end the
// process where one is outside: the memory beside it is theirs, so the sanitizer sees nothing.
#pragma once
#include <cstddef>

namespace rl {

inline void require_index([[maybe_unused]] size_t index, [[maybe_unused]] size_t size) {
#ifdef RL_CHECK_INDICES
  if (index >= size) __builtin_trap();
#endif
}

}  // namespace rl
