// The loops of resampling along one dim, over float32 or float64 data.
#pragma once
#include "core/dtype.h"
#include "kernels/cpu/isa.h"

namespace rl::kernels {

// Output o of a line takes weight[o * width + k] of input place[o * width + k], k < width.
template <class C> struct TapTable {
  int64_t in, out, width;
  const int32_t* place;
  const C* weight;
};

// from (outer, in, inner) -> to (outer, out, inner)
RL_ISA_KERNEL(resample_f32, (const TapTable<float>& taps, const float* from, float* to,
                             int64_t outer, int64_t inner))
RL_ISA_KERNEL(resample_f64, (const TapTable<double>& taps, const double* from, double* to,
                             int64_t outer, int64_t inner))
// The transpose: from (outer, out, inner) -> to (outer, in, inner)
RL_ISA_KERNEL(resample_transposed_f32, (const TapTable<float>& taps, const float* from, float* to,
                                        int64_t outer, int64_t inner))
RL_ISA_KERNEL(resample_transposed_f64, (const TapTable<double>& taps, const double* from,
                                        double* to, int64_t outer, int64_t inner))

}  // namespace rl::kernels
