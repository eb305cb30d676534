// What rows that make new tensors share.
#pragma once
#include "dispatch/uninitialized.h"
#include "tensor/tensor.h"

namespace rl {

// Memory that the program has not written yet: NaN, or the largest integer, where that is asked
// for (uninitialized.h).
void fill_with_nan(const Tensor& t);
inline void fill_uninitialized(const Tensor& t) {
  if (__builtin_expect(fills_uninitialized.load(std::memory_order_relaxed), 0)) fill_with_nan(t);
}

void ask_gradient(const Tensor& t, const char* op);
// `t`, which requires a gradient if that is asked for.
inline Tensor ask_gradient(Tensor t, bool requires_grad, const char* op) {
  if (requires_grad) ask_gradient(t, op);
  return t;
}

}  // namespace rl
