// Arguments of products with small integers in groups, in both worlds.
#pragma once
#include <cstdint>

namespace rl::cuda {

// x (rows, terms) by the transpose of integers (columns, terms) times a scale for each group; all
// contiguous, the integers in whole words.
struct GroupDots {
  const float* x;
  const uint32_t* integers;
  const float* scales;
  float* out;
  int64_t rows, columns, terms, group;
};

}  // namespace rl::cuda
