// The inner loops of convolutions of planes (conv_planes.cpp).
#pragma once
#include <cstdint>

#include "kernels/cpu/isa.h"

namespace rl::kernels {

// Rows of `width` floats, of which those of the source are `pitch` apart and those of the other
// plane `step`. Tap t sees, for an element at (row, x), source[row * pitch + x + offsets[t]];
// behind the last element that it sees there are plane_slack floats more, which are numbers.
struct PlaneRows {
  const float* source;
  int64_t pitch;
  const int64_t* offsets;
  int64_t taps, rows, width, step;
};
inline constexpr int64_t plane_slack = 16;

// to[row * step + x] = bias + sum over taps of weights[t] * what it sees.
RL_ISA_KERNEL(plane_product, (const PlaneRows& p, const float* weights, float bias, float* to))
// sums[t] += sum over elements of grad * what tap t sees. Behind each row of grad there are zeros
// up to a multiple of plane_slack.
RL_ISA_KERNEL(plane_dots, (const PlaneRows& p, const float* grad, double* sums))

}  // namespace rl::kernels
