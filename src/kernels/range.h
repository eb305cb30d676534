// Evenly spaced numbers. `out` is contiguous and floating.
#pragma once
#include "core/scalar.h"
#include "core/view.h"

namespace rl::kernels {

// start + step * i, in double.
void arange(const View& out, double start, double step);
// start + step * i in the first half, end - step * i from the back in the second: both ends are
// exact. In the dtype, or in float for shorter ones.
void linspace(const View& out, const Scalar& start, const Scalar& end);

}  // namespace rl::kernels
