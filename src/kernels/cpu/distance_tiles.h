// The loops of distances between a panel of rows and others, over float32 or float64 data.
#pragma once
#include <cstdint>

#include "kernels/cpu/isa.h"

namespace rl::kernels {

// The rows of a panel lie as the columns of a matrix of this width, zeros in those left over.
inline constexpr int64_t panel_columns = 64;
// Sums are made of parts of so many terms, for speed in the caches and for digits.
inline constexpr int64_t depth_together = 256, rows_together = 64;

// sums[r, c] = distance of row r of `a`, whose rows lie d apart, and column c < columns of panel
// (d, 64); rows of sums lie 64 apart, and columns up to the next vector's end are written.
template <class T> struct DistanceTile {
  const T *a, *panel;
  int64_t rows, columns, d;
  double p;
  T* sums;
};
RL_ISA_KERNEL(distance_tile_f32, (const DistanceTile<float>& tile))
RL_ISA_KERNEL(distance_tile_f64, (const DistanceTile<double>& tile))

// out[k, c] += sum over r of weights[r, c] d distance(panel[:, c], a[r]) / d panel[k, c], for
// k < d; rows of `a` lie `a_step` apart. weights and distances (rows, 64), rows <= rows_together;
// weights are overwritten.
template <class T> struct DistanceGradientTile {
  const T* a;
  int64_t a_step;
  const T *panel, *distances;
  int64_t rows, columns, d;
  double p;
  T *weights, *out;
};
RL_ISA_KERNEL(distance_gradient_tile_f32, (const DistanceGradientTile<float>& tile))
RL_ISA_KERNEL(distance_gradient_tile_f64, (const DistanceGradientTile<double>& tile))

}  // namespace rl::kernels
