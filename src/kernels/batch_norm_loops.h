// The loops of batch normalisation over float32 or float64 data in one of two layouts.
#pragma once
#include "kernels/strip_formula.h"

namespace rl::kernels {

// Values x(n, c, i) for n < batch, c < channels, i < length. Either the runs over i are contiguous
// (`step` 1), or those over c are (by_rows), which then has length 1: each (n) is a row of
// channels.
struct ChannelLayout {
  DType dtype;
  int64_t batch, channels, length;
  bool by_rows;
  double count() const { return static_cast<double>(batch) * static_cast<double>(length); }
};

// Data in that layout: x(n, c, i) = data[n * batch_step + c * channel_step + i]. Rows of float32
// without gaps may be what a formula gives.
struct ChannelData {
  void* data;
  int64_t batch_step, channel_step;
  const StripFormula* formula = nullptr;
};

// The mean of each channel, and the sum of squares about it. In an order fixed by the sizes; a
// large mean costs no precision.
RL_ISA_KERNEL(channel_moments,
              (const ChannelLayout& layout, const ChannelData& x, double* mean, double* squares))
// out = x * scale[c] + shift[c].
RL_ISA_KERNEL(channel_affine, (const ChannelLayout& layout, const ChannelData& x,
                               const double* scale, const double* shift, const ChannelData& out))
// Sums of g, which may be of a formula, and of g * (x - center[c]), over each channel.
RL_ISA_KERNEL(channel_grad_sums,
              (const ChannelLayout& layout, const ChannelData& g, const ChannelData& x,
               const double* center, double* sums, double* products))
// The same g. out = (g - offset[c] - (x - center[c]) * slope[c]) * scale[c].
RL_ISA_KERNEL(channel_grad, (const ChannelLayout& layout, const ChannelData& g,
                             const ChannelData& x, const double* center, const double* offset,
                             const double* slope, const double* scale, const ChannelData& out))

}  // namespace rl::kernels
