#include "kernels/strip_formula.h"

#include "kernels/cpu/simd.h"
#include "kernels/cpu/stream.h"
#include "kernels/cpu/strip_functions.h"

namespace rl::kernels::RL_ISA {

void affine_floats(int64_t n, void* const* operands, const Scalar*) {
  float* to = static_cast<float*>(operands[0]);
  const float *x = static_cast<const float*>(operands[1]),
              *scale = static_cast<const float*>(operands[2]),
              *shift = static_cast<const float*>(operands[3]);
  RL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) to[i] = mul_add(x[i], scale[i], shift[i]);
}

void stream_floats(const float* from, float* to, int64_t n) {
  constexpr int64_t lanes = Vector<float>::lanes;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) stream(to + i, load(from + i));
  for (; i < n; ++i) to[i] = from[i];
  end_streaming();
}

}  // namespace rl::kernels::RL_ISA
