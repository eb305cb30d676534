// Elementwise ops on tensors: promotion, broadcasting, the result, and the call of the loop.
#pragma once
#include "dispatch/out.h"
#include "kernels/elementwise.h"
#include "tensor/tensor.h"

namespace rl {

// From which dtype a loop computes and what it returns.
enum class LoopType : uint8_t {
  Common,  // the promoted dtype of the inputs
  Float,   // the same, integers become the default float dtype
  Bool,    // computes in the common dtype, returns bool
  Real,    // computes in the common dtype, returns its real counterpart
};

// `out` undefined: a new tensor is returned; otherwise the result is written there (in place).
Tensor run_elementwise(const kernels::Loop& loop, LoopType type, const Tensor* const* inputs,
                       int count, const Scalar* numbers, const Tensor& out);

template <class... Inputs>
inline Tensor elementwise(const kernels::Loop& loop, LoopType type, const Scalar* numbers,
                          const Tensor& out, const Inputs&... inputs) {
  const Tensor* list[] = {&inputs...};
  return run_elementwise(loop, type, list, sizeof...(inputs), numbers, out);
}

// Into a tensor of the caller's, which is resized if it has another shape than the result.
void run_elementwise_out(const kernels::Loop& loop, LoopType type, const Scalar* numbers,
                         const Tensor& out, bool recorded, OutDType exactness,
                         const Tensor* const* inputs, int count);

template <class... Inputs>
inline void elementwise_out(const kernels::Loop& loop, LoopType type, const Scalar* numbers,
                            const Tensor& out, bool recorded, OutDType exactness,
                            const Inputs&... inputs) {
  const Tensor* list[] = {&inputs...};
  run_elementwise_out(loop, type, numbers, out, recorded, exactness, list, sizeof...(inputs));
}

}  // namespace rl
