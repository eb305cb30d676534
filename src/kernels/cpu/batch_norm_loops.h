// The loops of batch normalisation over floats in one of two layouts, by float32 or float64
// arithmetic.
#pragma once
#include "kernels/cpu/isa.h"
#include "kernels/strip_formula.h"

namespace rl::kernels {

// Values x(n, c, i) for n < batch, c < channels, i < length. Either the runs over i are contiguous
// (`step` 1), or those over c are (by_rows), which then has length 1: each (n) is a row of
// channels.
struct ChannelLayout {
  DType dtype;  // of the arithmetic
  int64_t batch, channels, length;
  bool by_rows;
  double count() const { return static_cast<double>(batch) * static_cast<double>(length); }
};

// Data in that layout: x(n, c, i) = data[n * batch_step + c * channel_step + i]. Rows of float32
// without gaps may be what a formula gives. 16-bit floats are converted some at a time.
struct ChannelData {
  DType dtype;
  void* data;
  int64_t batch_step, channel_step;
  const StripFormula* formula = nullptr;

  void* at(int64_t n, int64_t c) const {
    return static_cast<char*>(data) + (n * batch_step + c * channel_step) * itemsize(dtype);
  }
};

// The mean of each channel, and the sum of squares about it. In an order fixed by the sizes; a
// large mean costs no precision.
RL_ISA_KERNEL(channel_moments,
              (const ChannelLayout& layout, const ChannelData& x, double* mean, double* squares))
// out = x * scale[c] + shift[c].
RL_ISA_KERNEL(channel_affine, (const ChannelLayout& layout, const ChannelData& x,
                               const double* scale, const double* shift, const ChannelData& out))
// What the gradients of a batch norm are made of, an element for each channel.
struct ChannelGradient {
  bool train;            // the statistics are of x, else constants
  const double* center;  // mean
  const double* inverse;
  const double* scale;  // inverse times weight
  double* sums;         // written: of g,
  double* products;     // and of g * (x - center)

  double offset(int64_t c, double count) const { return train ? sums[c] / count : 0; }
  double slope(int64_t c, double count) const {
    return train ? products[c] * inverse[c] * inverse[c] / count : 0;
  }
};
// The sums of g, which may be of a formula, and then, unless `out` is null,
// out = (g - offset[c] - (x - center[c]) * slope[c]) * scale[c], which may lie in the memory of g.
RL_ISA_KERNEL(channel_backward,
              (const ChannelLayout& layout, const ChannelData& g, const ChannelData& x,
               const ChannelGradient& of, const ChannelData* out))

}  // namespace rl::kernels
