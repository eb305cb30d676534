// Distances between rows, (sum |a - b|^p)^(1/p): of all pairs of two lists, or of one list's pairs.
//
// float32 and float64; row-major views, leading batch dims equal (stride 0 repeats). p = 0 counts
// the elements that differ, p = inf takes the largest difference. The result does not depend on
// the number of threads.
#pragma once
#include "core/view.h"

namespace rl::kernels {

// a (..., n, d), b (..., m, d) -> out (..., n, m).
void pair_distances(const View& a, const View& b, double p, const View& out);
// out[i] = sum over j of grad[i, j] d distance(a[i], b[j]) / d a[i], out like a; or, `by_columns`,
// of grad[j, i], with distances of rows of b and a. 0 where the distance is. p > 0.
void pair_distance_gradient(const View& grad, const View& distances, const View& a, const View& b,
                            double p, bool by_columns, const View& out);

// a (n, d) -> out (n (n - 1) / 2): (0, 1), (0, 2), ..., (1, 2), ....
void own_distances(const View& a, double p, const View& out);
void own_distance_gradient(const View& grad, const View& distances, const View& a, double p,
                           const View& out);

}  // namespace rl::kernels
