// Padding by an image's own elements, in one pass over all dims.
#pragma once
#include <vector>

#include "core/view.h"

namespace rl::kernels {

// For each of the last dims, in order, which element of the input stands at each place of the
// result: all below the input's size.
using PaddedOffsets = std::vector<std::vector<int64_t>>;

void pad(const View& input, const PaddedOffsets& places, const View& out);
// Each element of grad_input, contiguous, becomes the sum over its places, in their order.
void pad_backward(const View& grad, const PaddedOffsets& places, const View& grad_input);

}  // namespace rl::kernels
