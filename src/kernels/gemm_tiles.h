// Matrix products of every dtype but the 16-bit floats, on the calling thread.
#pragma once
#include "core/scalar.h"
#include "core/view.h"
#include "kernels/isa.h"

namespace rl::kernels {

// c (m, n) = alpha * a (m, k) @ b (k, n) + beta * added (m, n), with any strides (in elements). All
// sizes are positive. Without `added`, c itself is added. With beta = 0 nothing is.
struct GemmProblem {
  DType dtype;
  int64_t m, n, k;
  const void *a, *b;
  void* c;
  int64_t a_row, a_col, b_row, b_col, c_row, c_col;
  Scalar alpha, beta;
  const void* added = nullptr;
  int64_t added_row = 0, added_col = 0;
};

// An element of c is the same whatever rows and columns of c are asked for with it, 16 or more of
// each: the product may be cut into tiles for threads.
RL_ISA_KERNEL(gemm_tiles, (const GemmProblem& problem))

}  // namespace rl::kernels
