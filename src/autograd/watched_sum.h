// Sums of gradients that the dispatch modes of Python see.
#pragma once
#include "core/thread_state.h"
#include "tensor/tensor.h"

namespace rl {

// Adds two gradients, or copies one (`b` undefined), as an operation of Python; undefined where
// nobody is to see that, and the engine does it by itself. Null until there are dispatch modes or
// classes that dispatch; asked while `sums_are_watched`. A tensor of such a class is on meta.
extern Tensor (*watched_sum)(const Tensor& a, const Tensor& b);
inline bool may_dispatch(const Tensor& t) { return watched_sum && t.is_meta(); }
inline bool sums_are_watched(const Tensor& a, const Tensor& b) {
  return watched_sum &&
         ((mode() & FunctionMode) || may_dispatch(a) || (b.defined() && may_dispatch(b)));
}

}  // namespace rl
