// The typed inner loops of reductions: each folds a tile, a few thousand contiguous elements that
// sit in L1. reduce.cpp cuts any reduction into tiles and joins their results.
#pragma once
#include "core/view.h"
#include "kernels/cpu/isa.h"

namespace rl::kernels {

enum class Fold { Sum, Prod, Max, Min, Count, Moments, LogSumExp };

struct Tiles {
  int64_t accumulator_size = 0;  // bytes
  // accumulators[i] = fold of the n >= 1 elements at row i; rows are row_stride elements apart.
  void (*rows)(const void* x, int64_t n, int64_t row_stride, int64_t count, void* accumulators);
  // accumulators[j] = fold down column j < width of n >= 1 rows, row_stride elements apart.
  void (*columns)(const void* x, int64_t n, int64_t row_stride, int64_t width, void* accumulators);
  // left[j] = join(left[j], right[j]); they stand for n_left and n_right elements each.
  void (*join)(void* left, const void* right, int64_t width, int64_t n_left, int64_t n_right);
};

// Count takes bool elements and accumulates int64. Moments accumulates {mean, sum of squared
// distances from it} in double, LogSumExp {maximum, sum of exp(x - maximum)} in the element type.
struct Moments {
  double mean, squares;
};

// What happens to each element before the fold.
enum class Prepare { None, NanToZero, Absolute, Square, Power };
// Steps that the loops take as they read elements: for Sum, Max and Min of real ones.
inline bool is_fused(Prepare step, DType loaded) {
  return step == Prepare::None || (step != Prepare::Power && !is_complex(loaded));
}

// Rows and columns of float16 or bfloat16 folded in float32, without a copy in between. Left as
// they are where there are no such loops: for all but Sum, Max and Min.
RL_ISA_KERNEL(reduced_tiles, (Fold fold, Prepare step, DType stored, Tiles* tiles))

// Elements: float32, float64, int64, complex64, complex128 for Sum and Prod; the real ones, int32,
// int16, uint8 and bool for Max and Min; floats for Moments and LogSumExp. Anything else leaves
// accumulator_size 0. `step` is None for all but floats.
RL_ISA_KERNEL(reduce_tiles, (Fold fold, Prepare step, DType element, Tiles* tiles))

// The other steps, in place on a strip in a compute dtype. Complex elements become real ones,
// packed, but for None.
RL_ISA_KERNEL(reduce_prepare, (Prepare step, DType element, void* strip, int64_t n, double p))

}  // namespace rl::kernels
