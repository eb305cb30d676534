// Arguments of distances between rows, in both worlds.
#pragma once
#include <cstdint>

namespace rl::cuda {

// a (..., n, d), b (..., m, d). Of one list's own pairs, `own`, (i, j) with i < j stand one after
// another.
struct DistanceArgs {
  int64_t n, m, d;
  double p;
  int own, by_columns;
};

}  // namespace rl::cuda
