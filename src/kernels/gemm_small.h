// Matrix products of every real dtype by own code: the tiny ones, where a library's call costs more
// than the product, matrix-vector products, and integers, which no library has.
#pragma once
#include "core/scalar.h"
#include "core/view.h"
#include "kernels/isa.h"

namespace rl::kernels {

// c (m, n) = alpha * a (m, k) @ b (k, n) + beta * c, with any strides (in elements). All sizes
// are positive.
struct GemmProblem {
  DType dtype;
  int64_t m, n, k;
  const void *a, *b;
  void* c;
  int64_t a_row, a_col, b_row, b_col, c_row, c_col;
  Scalar alpha, beta;
};

// Runs on the calling thread. float32, float64 and integers.
RL_ISA_KERNEL(gemm_small, (const GemmProblem& problem))

}  // namespace rl::kernels
