// Arguments of indexing, in both worlds.
#pragma once
#include <cstdint>

#include "kernels/cuda/device/parameters.h"

namespace rl::cuda {

enum Combination : int { CombineSet, CombineSum, CombineProd, CombineMean, CombineMax, CombineMin };

constexpr int64_t chunk = 1024;  // flags that a block counts

struct PlaceArgs {
  int dim, negative, kind;  // kind: of the fault
  int64_t size;
  FaultPlace fault;
};

constexpr int most_indices = 6;

struct Indices {
  int count;
  int64_t sizes[most_indices];  // of the dims that they index
  int64_t strides[most_indices];
  Strided views[most_indices];  // all of the same sizes
  FaultPlace fault;
};

}  // namespace rl::cuda
