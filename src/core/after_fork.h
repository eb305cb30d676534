// What a fork leaves in the child of the threads that it does not have.
#pragma once
#include <cstdint>

namespace rl {

uint64_t fork_count();  // of this process and those it was forked from
// Is this the ThreadState of a thread that stayed behind in the parent? What it had locked at the
// fork nobody will unlock.
bool stayed_behind(const void* thread);

}  // namespace rl
