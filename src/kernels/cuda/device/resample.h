// Arguments of resampling, padding and grid_sample, in both worlds.
#pragma once
#include <cstdint>

namespace rl::cuda {

// One dim of contiguous data: from (outer, before, inner) to (outer, after, inner). Element o of a
// line is the sum of weights[k] * from[places[k]] over begins[o] <= k < begins[o + 1].
struct ResamplePass {
  const void *from, *weights;
  void* to;
  const int64_t* begins;
  const int32_t* places;
  int from_dtype, to_dtype, bytes;  // bytes: round what is written to such
  int64_t outer, before, after, inner;
};

constexpr int most_padded_dims = 6;
// For each of the last dims, where its table begins.
struct PaddedDims {
  int count;
  const int64_t* table;
  int64_t begins[most_padded_dims];
};

enum GridModeOf : int { GridBilinear, GridNearest, GridBicubic };
enum GridPaddingOf : int { GridZeros, GridBorder, GridReflection };
// Contiguous: image (N, C, *size), samples (N, C, places), grid (N, places, dims).
struct GridArgs {
  int mode, padding, align_corners, dims;
  int orders[3];
  int64_t size[3];
  int64_t batch, channels, plane, places;
};

}  // namespace rl::cuda
