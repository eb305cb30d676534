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

// input (N, C, *), grid (N, *out, dims) in [-1, 1] with x first, out (N, C, *out); 2 or 3 dims
// (Bicubic: 2).
void grid_sample(const View& input, const View& grid, const View& out, GridMode mode,
                 GridPadding padding, bool align_corners);
// grad_input may be nullptr.
void grid_sample_backward(const View& grad_out, const View& input, const View& grid,
                          const View* grad_input, const View& grad_grid, GridMode mode,
                          GridPadding padding, bool align_corners);

}  // namespace rl::kernels
