// Arguments of Fourier transforms, in both worlds.
#pragma once
#include <cstdint>

namespace rl::cuda {

// Lines of n points along a dim of contiguous data (outer, n, inner).
struct FftLines {
  int64_t outer, n, inner;
};
// One pass: after `before` points' transforms, those of before * radix.
struct FftPass {
  int64_t before, radix;
};
enum FftEnds : int { FftComplex, FftReal, FftHalf };
// What comes or goes: n points, n real numbers, or the first n / 2 + 1 points. `twice`: points of a
// half that stand for their conjugates count twice.
struct FftEnd {
  int kind, twice;
  double scale;
};

}  // namespace rl::cuda
