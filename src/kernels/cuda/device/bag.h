// Arguments of EmbeddingBag, in both worlds.
#pragma once
#include <cstdint>

#include "kernels/cuda/device/parameters.h"

namespace rl::cuda {

enum BagMode : int { BagSum, BagMean, BagMax };

struct BagArgs {
  Strided index, offsets, scales;  // scales: of each index, null data for 1
  int mode;
  int64_t padding, rows;
  const int64_t* counts;  // how often each row is named, or null
  FaultPlace fault;
};

}  // namespace rl::cuda
