// The loops of grid_sample over the places of a tile: which pixels are neighbours, and their sums.
#pragma once
#include <cstdint>

#include "kernels/cpu/isa.h"
#include "kernels/interpolate.h"

namespace rl::kernels {

inline constexpr int64_t combined_offsets =
    64;                                     // whose neighbours are known before planes are read
inline constexpr int most_neighbours = 16;  // of bicubic; linear in 3-D has 8

// Offsets are of type I, wide enough for a plane.
template <class C, class I> struct GridTile {
  using Element = C;
  GridSampling how;
  int dims;
  const int64_t* size;  // of the image
  int64_t count = 0;    // of places, at most places_together
  int neighbours = 0;
  // Of each neighbour of each place: where it lies in a plane, -1 outside of it, and its weight.
  I offset[most_neighbours][combined_offsets];
  C weight[most_neighbours][combined_offsets];

  GridTile(const GridSampling& sampling, int count_dims, const int64_t* sizes)
      : how(sampling), dims(count_dims), size(sizes) {}
};

#define RL_GRID_TILE(suffix, C, I)                                                            \
  /* Finds the neighbours of the tile's places, each `dims` coordinates, x first. */          \
  RL_ISA_KERNEL(grid_find_##suffix, (GridTile<C, I> & tile, const C* places))                 \
  /* to[i] = the sum over the neighbours of place i in a plane. */                            \
  RL_ISA_KERNEL(grid_read_##suffix, (const GridTile<C, I>& tile, const C* plane, C* to))      \
  /* sums[d * combined_offsets + i] += values[i] * that sum with the weights of tiles[d], for \
     tiles that differ in their weights. */                                                   \
  RL_ISA_KERNEL(grid_slopes_##suffix,                                                         \
                (const GridTile<C, I>* tiles, const C* plane, const C* values, C* sums))
RL_GRID_TILE(f32, float, int32_t)
RL_GRID_TILE(f32_wide, float, int64_t)
RL_GRID_TILE(f64, double, int64_t)
#undef RL_GRID_TILE

}  // namespace rl::kernels
