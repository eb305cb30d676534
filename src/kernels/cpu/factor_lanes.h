// Factorisations of matrices so small that they would not fill vectors: each lane has one. The
// algorithms are the textbook's, for which a lane that needs no exchange or rotation takes one that
// changes nothing. Values are float32 or float64.
#pragma once
#include "core/view.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/lane_matrices.h"

namespace rl::kernels {

// Whole numbers of each matrix are int32 in lanes: pivots (1, n), and codes (1, 1).

// a (rows, columns) becomes L, of unit diagonal, and U, with 1-based pivots as LAPACK's getrf has
// them. zero_pivot: the 1-based place of the first pivot that is zero, or 0.
struct LaneLu {
  DType dtype;
  int64_t groups, rows, columns;
  LaneMatrices a, pivots, zero_pivot;
  bool exchange;
};
RL_ISA_KERNEL(lane_lu, (const LaneLu& p))

// Exchanges row k of x (n, columns) with that which pivot k names, for each k; or from the last on.
struct LaneExchange {
  DType dtype;
  int64_t groups, n, columns;
  LaneMatrices pivots, x;
  bool back;
};
RL_ISA_KERNEL(lane_exchange, (const LaneExchange& p))

// x (n, columns) becomes the solution of a x = b that it held, with a (n, n) triangular.
struct LaneTriangle {
  DType dtype;
  int64_t groups, n, columns;
  LaneMatrices a, x;
  bool upper, unit;
};
RL_ISA_KERNEL(lane_triangle, (const LaneTriangle& p))

// a (n, n) becomes U of a = U^T U, by its upper triangle, and zeros. info: the order of the first
// leading minor that is not positive, or 0; what stands in `a` then is of no use.
struct LaneCholesky {
  DType dtype;
  int64_t groups, n;
  LaneMatrices a, info;
};
RL_ISA_KERNEL(lane_cholesky, (const LaneCholesky& p))

// Householder's reflectors of a (rows, columns), kept as LAPACK's geqrf keeps them, and tau.
struct LaneReflectors {
  DType dtype;
  int64_t groups, rows, columns, count;
  LaneMatrices a, tau;  // tau (1, count)
};
RL_ISA_KERNEL(lane_reflectors, (const LaneReflectors& p))
// The first columns of the product of the reflectors in `a`, written over them.
RL_ISA_KERNEL(lane_reflected, (const LaneReflectors& p))
// x (rows, x_columns) becomes that product times x, or its transpose times x.
struct LaneProduct {
  LaneReflectors by;
  LaneMatrices x;
  int64_t x_columns;
  bool transposed;
};
RL_ISA_KERNEL(lane_ormqr, (const LaneProduct& p))

// info (1, 1): 0 where the Frobenius norm of the upper triangle of a (n, n) times that of its
// inverse, which is at least its condition number, is at most so much; else, and where one is not
// finite, -1.
inline constexpr int64_t most_conditioned = 32;  // rows
struct LaneCondition {
  DType dtype;
  int64_t groups, n;
  LaneMatrices a, info;
  double most;
};
RL_ISA_KERNEL(lane_condition, (const LaneCondition& p))

// a (n, n) becomes the identity.
struct LaneIdentity {
  DType dtype;
  int64_t groups, n;
  LaneMatrices a;
};
RL_ISA_KERNEL(lane_identity, (const LaneIdentity& p))

// By Jacobi's rotations, which are left to others (info -1) where they do not converge or a number
// is not finite, or of a size whose square is not.
//
// Ascending eigenvalues (1, n) of a (n, n), given by its lower triangle, and its eigenvectors
// unless vectors.data is null. a is changed.
struct LaneEigh {
  DType dtype;
  int64_t groups, n;
  LaneMatrices a, values, vectors, info;
};
RL_ISA_KERNEL(lane_eigh, (const LaneEigh& p))

// a (rows, columns), rows >= columns, becomes the left singular vectors; the right ones are the
// columns of v, unless v.data is null, and the descending singular values (1, columns). With
// vectors, a matrix of lower rank is left to others.
struct LaneSvd {
  DType dtype;
  int64_t groups, rows, columns;
  LaneMatrices a, values, v, info;
};
RL_ISA_KERNEL(lane_svd, (const LaneSvd& p))

}  // namespace rl::kernels
