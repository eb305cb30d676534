// Arguments of sliding windows, in both worlds.
#pragma once
#include <cstdint>

#include "kernels/cuda/device/parameters.h"

namespace rl::cuda {

struct Columns {  // (N, C * kernel, positions)
  void* data;
  int64_t batch, row, position;  // strides
};

struct AverageArgs {
  int include_padding;
  int64_t divisor;
};

}  // namespace rl::cuda
