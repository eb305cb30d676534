// The loops of resampling images of bytes along one dim, by weights of 16 bits: sums are integers,
// as Pillow's, and rounded to bytes.
#pragma once
#include <cstdint>

#include "kernels/cpu/isa.h"

namespace rl::kernels {

// Output o of a line takes weight[k * stride + o] / 2^bits of input first[o] + k, k < width;
// inputs beyond the line count nothing. The tables go on to a multiple of `block` outputs, the
// stride.
struct ByteTaps {
  static constexpr int block = 16;
  static constexpr int most_channels = 4;  // of pixels that are read as one number

  int64_t in, out, width, stride;
  int bits;
  const int32_t *first, *weight;
};

// from (outer, in, inner) -> to (outer, out, inner); scratch: most_channels * (in + width + stride
// + 2)
RL_ISA_KERNEL(resample_bytes, (const ByteTaps& taps, const uint8_t* from, uint8_t* to,
                               int64_t outer, int64_t inner, uint8_t* scratch))

}  // namespace rl::kernels
