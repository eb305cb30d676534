// Arguments of softmax and the losses made of it, in both worlds.
#pragma once
#include <cstdint>

#include "kernels/cuda/device/parameters.h"

namespace rl::cuda {

struct Line {
  int64_t count, step;
};

struct LossArgs {
  Strided input;   // as (N, C, S), never joined
  Strided target;  // as (N, S)
  const void* weight;
  int64_t ignore_index;
  double smoothing;
  FaultPlace fault;
};

}  // namespace rl::cuda
