// Arguments of the CTC loss, in both worlds.
#pragma once
#include <cstdint>

#include "kernels/cuda/device/parameters.h"

namespace rl::cuda {

struct CtcArgs {
  Strided log_probs, labels, alpha;  // (steps, batch, classes), (batch, longest), (batch, steps, s)
  const int64_t *inputs, *targets;   // lengths
  int64_t blank;
  FaultPlace fault;
};

}  // namespace rl::cuda
