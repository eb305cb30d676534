// The largest magnitude of all elements, at the speed of memory: for those who look for NaN.
#pragma once
#include "core/view.h"

namespace rl::kernels {

// Of a floating or complex dtype, the parts of a complex number each by itself: NaN if there is
// one, else infinity if there is one; 0 without elements.
double largest_magnitude(const View& input);

}  // namespace rl::kernels
