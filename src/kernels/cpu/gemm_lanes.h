// Matrix products so small, or of rows so short, that they would not fill vectors: each lane
// computes one of them.
//
// See lane_matrices.h.
#pragma once
#include "core/scalar.h"
#include "core/view.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/lane_matrices.h"
#include "kernels/gemm.h"

namespace rl::kernels {

// c (m, n) = alpha * a (m, k) @ b (k, n) + beta * added (m, n), if there is that, of each group.
// Integers wrap, whatever their sign.
struct LaneProducts {
  DType dtype;
  int64_t groups, m, n, k;
  LaneMatrices a, b, c, added;
  Scalar alpha, beta;
};
RL_ISA_KERNEL(multiply_lanes, (const LaneProducts& p))

// out[i] = the dot product of lines i of a and b, whose elements stand side by side, each `step`
// further than the last; b's lines are all the same where its step is 0. Of all `count`, those of
// the blocks that begin in [first, last); there is at least one block. Float16 only where the
// processor converts it.
inline constexpr int dot_block_lines = 8;
struct LineDots {
  DType dtype;
  int64_t count, k;
  const void *a, *b;
  int64_t a_step, b_step;
  void* out;
  int64_t out_step, first = 0, last = 0;
};
RL_ISA_KERNEL(line_dots, (const LineDots& p))
// Whether a batch of `count` products (m, k) @ (k, n), m >= n, may be quicker so, where elements of
// rows of the first matrix are `step` apart: asked first, as it takes less than exchanging views.
bool may_suit_lanes(DType dtype, int64_t count, int64_t m, int64_t n, int64_t k, int64_t step);
// As gemm(), if this is the quicker way; false, and nothing done, else.
bool gemm_in_lanes(const View& a, const View& b, const View& out, const GemmScale& scale,
                   const View* added);

}  // namespace rl::kernels
