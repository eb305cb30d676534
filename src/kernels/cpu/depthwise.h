// The loops of depthwise convolutions: sums over taps of pixels that lie in strips of channels.
#pragma once
#include <cstdint>

#include "kernels/cpu/isa.h"

namespace rl::kernels {

constexpr int64_t strip_width = 16;  // channels

// All steps are in elements. Pixels of a strip are strip_width numbers; those of the result have
// `channels`, of all strips.
struct TapProduct {
  struct Tap {
    int64_t in;      // from the pixel of `in` that belongs to a pixel of the result
    int64_t weight;  // strip_width numbers
  };
  const float* in;
  int64_t in_row, in_step, in_strip;
  const Tap* taps;
  int64_t tap_count;
  const float* weights;
  int64_t weight_strip;
  const float* bias;  // null, or whole strips
  float* out;
  int64_t out_row, out_step, rows, columns, channels;
  int64_t rows_together;  // of a strip, before the next strip
};
RL_ISA_KERNEL(tap_product, (const TapProduct& product))

// Adds to the strip_width sums of each tap the products of its pixels with those of a gradient.
struct TapGradient {
  const float* in;
  int64_t in_row, in_step;
  const TapProduct::Tap* taps;
  int64_t tap_count;
  const float* grad;  // gapless rows of pixels
  int64_t rows, columns;
  float* sums;
};
RL_ISA_KERNEL(tap_gradient, (const TapGradient& gradient))

// Pixels of `channels` numbers to one strip after the other, `strip_step` apart; zeros where the
// last one has no channels.
RL_ISA_KERNEL(spread_to_strips,
              (const float* from, int64_t pixels, int64_t channels, float* to, int64_t strip_step))

}  // namespace rl::kernels
