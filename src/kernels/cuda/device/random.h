// Arguments of random numbers, in both worlds.
#pragma once
#include <cstdint>

#include "kernels/cuda/device/parameters.h"

namespace rl::cuda {

enum Distribution : int {
  DrawUniform,
  DrawNormal,
  DrawBernoulli,
  DrawExponential,
  DrawCauchy,
  DrawLogNormal,
  DrawGeometric,
  DrawInteger,
  DrawBernoulliEach
};
struct DrawArgs {
  double a, b;
  int64_t low;
  uint64_t range;
  PhiloxSeed seed;
  FaultPlace fault;
};

// Of those that draw until they accept.
enum Rejection : int { RejectPoisson, RejectBinomial, RejectGamma };
struct RejectionArgs {
  PhiloxSeed seed;
  FaultPlace fault;
};

}  // namespace rl::cuda
