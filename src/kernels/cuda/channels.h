// What is done to channels, the second dim of a view.
#pragma once
#include "core/view.h"
#include "kernels/context.h"

namespace rl::cuda {

// out[n, c, ...] += bias[c], of one dtype.
void add_to_channels(const kernels::Context& context, const View& out, const View& bias);

}  // namespace rl::cuda
