// Arguments of normalisations, in both worlds.
#pragma once
#include <cstdint>

namespace rl::cuda {

struct Rows {
  int64_t rows, length, groups, per_group, places;
  const void *weight, *bias;
  int weight_dtype, bias_dtype;
  double eps;
  int centered;  // rms_norm subtracts no mean
};

}  // namespace rl::cuda
