// Whether the parallel_for that this thread has a part of has failed in another part.
#pragma once

namespace rl {

// Then what this part computes is of no use: who waits for long work may leave by an exception.
bool loop_has_ended();

}  // namespace rl
