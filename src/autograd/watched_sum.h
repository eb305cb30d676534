// Sums of gradients that the dispatch modes of Python see.
#pragma once
#include "core/thread_state.h"
#include "tensor/tensor.h"

namespace rl {

// Adds two gradients, or copies one (`b` undefined), as an operation of Python. Null until there
// are dispatch modes; while `sums_are_watched()` it stands in for what the engine does by itself.
extern Tensor (*watched_sum)(const Tensor& a, const Tensor& b);
inline bool sums_are_watched() { return watched_sum && (mode() & FunctionMode); }

}  // namespace rl
