// Sums of gradients that the dispatch modes of Python see.
#pragma once
#include "core/thread_state.h"
#include "tensor/tensor.h"

namespace rl {

// Adds two gradients, or copies one (`b` undefined), as an operation of Python; undefined where no
// mode is to see that, and the engine does it by itself. Null until there are dispatch modes; asked
// while `sums_are_watched()`.
extern Tensor (*watched_sum)(const Tensor& a, const Tensor& b);
inline bool sums_are_watched() { return watched_sum && (mode() & FunctionMode); }

}  // namespace rl
