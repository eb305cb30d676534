// The functions of kernels/linalg.h for batches of small real matrices, one in each lane. Each is
// false, and nothing done, where it is not the quicker way.
#pragma once
#include <functional>

#include "kernels/linalg.h"

namespace rl::kernels {

bool cholesky_in_lanes(const View& a, const View& out, bool upper, const View& info);
bool lu_in_lanes(const View& a, const View& lu, const View& pivots, bool pivot, const View& info);
// transposed: of the matrix's transpose; x: the right sides, and the solutions, are columns of
// `b` and `out` (left), or their rows.
bool lu_solve_in_lanes(const View& lu, const View& pivots, const View& b, const View& out,
                       bool left, bool transposed);
bool triangle_in_lanes(const View& a, const View& b, const View& out, bool upper, bool left,
                       bool unit);
bool inverse_in_lanes(const View& a, const View& out, const View& info);
bool qr_in_lanes(const View& a, const View* q, const View& r);
bool geqrf_in_lanes(const View& a, const View& out, const View& tau);
bool householder_product_in_lanes(const View& vectors, const View& tau, const View& out);

// These leave some matrices to `one`, which is given their place in the batch.
using OneMatrix = std::function<void(int64_t at)>;
bool eigh_in_lanes(const View& a, const View& values, const View* vectors, bool upper,
                   const View& info, const OneMatrix& one);
bool svd_in_lanes(const View& a, const View* u, const View& s, const View* vh, const View& info,
                  const OneMatrix& one);
bool lstsq_in_lanes(const View& a, const View& b, const View& solution, const View* rank,
                    double rcond, LstsqDriver driver, const View& info, const OneMatrix& one);

}  // namespace rl::kernels
