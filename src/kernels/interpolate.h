// Resampling of (N, C, *) images over 1, 2 or 3 spatial dims. Floating dtypes; nearest also uint8.
#pragma once
#include "core/view.h"

namespace rl::kernels {

enum class Interpolation { Nearest, NearestExact, Linear, Cubic };  // area is adaptive_avg_pool

struct ResampleGeometry {
  Interpolation mode = Interpolation::Nearest;
  bool align_corners = false;
  bool antialias = false;        // 2-D Linear and Cubic
  double scales[3] = {0, 0, 0};  // factors the user gave, per spatial dim; 0: from the sizes
};

void interpolate(const View& input, const View& out, const ResampleGeometry& geometry);
void interpolate_backward(const View& grad_out, const View& grad_input,
                          const ResampleGeometry& geometry);

enum class GridMode { Bilinear, Nearest, Bicubic };
enum class GridPadding { Zeros, Border, Reflection };

struct GridSampling {
  GridMode mode = GridMode::Bilinear;
  GridPadding padding = GridPadding::Zeros;
  bool align_corners = false;
  int orders[3] = {0, 0, 0};  // which derivative by each column of the grid is taken
};

// input (N, C, *), grid (N, *out, dims) in [-1, 1] with x first, out (N, C, *out); 2 or 3 dims
// (Bicubic: 2). All of them row-major, of float32 or float64.
void grid_sample(const View& input, const View& grid, const View& out, const GridSampling& how);
// The gradient of its result's product with `values` by the grid: out is like grid.
void grid_slopes(const View& values, const View& input, const View& grid, const View& out,
                 const GridSampling& how);
// The transpose of grid_sample: adds each element of `values` (N, C, *out) to the places that it
// would be read from; out (N, C, *).
void grid_scatter(const View& values, const View& grid, const View& out, const GridSampling& how);

}  // namespace rl::kernels
