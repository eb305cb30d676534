// Arguments of reductions, in both worlds.
#pragma once
#include <cstdint>

namespace rl::cuda {

struct ReduceArgs {
  double p = 0;  // the norm's order, var's correction, or how many a mean is of
  int root = 0;
  int dtype = 0;  // of what is written
  void* second = nullptr;
  int second_dtype = 0;
};

}  // namespace rl::cuda
