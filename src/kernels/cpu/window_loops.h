// The inner loops of pooling over one float32 plane with windows of one size: element by element of
// the window, along rows of outputs, so that they vectorise. 2 to 8 times as fast as window by
// window.
#pragma once
#include <cstdint>

#include "kernels/cpu/isa.h"

namespace rl::kernels {

struct OutputRange {
  int64_t begin, end;
};

struct WindowLoop {
  int64_t out_size[3];
  int64_t kernel[3];
  // Where window element k of output 0 lies is k * dilation - padding; each further output is a
  // stride on.
  int64_t stride[3], padding[3], dilation[3];
  int64_t step[3];        // of the plane, in elements
  int64_t index_step[3];  // of row-major indices in the plane
  const OutputRange*
      inside[3];  // by window element: the outputs for which it lies inside the plane
};

// best and at (row-major, one per output) are updated; a NaN beats every number.
RL_ISA_KERNEL(max_of_windows_f32,
              (const WindowLoop& loop, const float* plane, float* best, int32_t* at))
// The same of a contiguous line of so many elements, by strides of 1 or 2, without places; best is
// overwritten.
RL_ISA_KERNEL(largest_of_line_f32,
              (const WindowLoop& loop, const float* line, int64_t size, float* best))
// The largest of `count` rows of channels, channel by channel, and the place of the row it came
// from; a NaN beats every number.
RL_ISA_KERNEL(max_of_pixels_f32, (const float* const* rows, const int32_t* places, int64_t count,
                                  int64_t channels, float* best, int64_t* at))
// out = scale * the sum of `count` rows of channels, each times its weight.
RL_ISA_KERNEL(weigh_pixels_f32, (const float* const* rows, const float* weights, int64_t count,
                                 int64_t channels, float scale, float* out))
// sums (row-major, one per output) are added to.
RL_ISA_KERNEL(sum_of_windows_f32, (const WindowLoop& loop, const float* plane, float* sums))
// The transpose: each output's value (row-major) is added to the elements of its window.
RL_ISA_KERNEL(spread_over_windows_f32, (const WindowLoop& loop, const float* values, float* plane))

}  // namespace rl::kernels
