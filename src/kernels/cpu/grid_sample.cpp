// Sampling at the places of a grid. A sample is a sum over neighbours of products of one weight per
// dim, so its derivatives by the grid are samples with derived weights, and its gradient by the
// input writes where it reads: loops over the same neighbours give derivatives of all orders.
#include <algorithm>

#include "core/parallel.h"
#include "kernels/copy.h"
#include "kernels/cpu/grid_tiles.h"

namespace rl::kernels {
namespace {

#define RL_GRID_TILE(suffix, C, I)                                                       \
  void find(GridTile<C, I>& tile, const C* places) { grid_find_##suffix(tile, places); } \
  void read(const GridTile<C, I>& tile, const C* plane, C* to) {                         \
    grid_read_##suffix(tile, plane, to);                                                 \
  }                                                                                      \
  void slopes(const GridTile<C, I>* tiles, const C* plane, const C* values, C* sums) {   \
    grid_slopes_##suffix(tiles, plane, values, sums);                                    \
  }
RL_GRID_TILE(f32, float, int32_t)
RL_GRID_TILE(f32_wide, float, int64_t)
RL_GRID_TILE(f64, double, int64_t)
#undef RL_GRID_TILE

// Sizes that all directions share: `image` is the side with pixels, `samples` that with places.
struct Sampling {
  int dims;
  const int64_t* size;
  int64_t batch, channels, plane, places;
  Sampling(const View& image, const View& samples)
      : dims(image.ndim - 2),
        size(image.sizes + 2),
        batch(image.sizes[0]),
        channels(image.sizes[1]),
        plane(1),
        places(1) {
    for (int d = 0; d < dims; ++d) {
      plane *= image.sizes[2 + d];
      places *= samples.sizes[2 + d];
    }
  }
};

// f(TypeTag of a tile) whose offsets reach all of a plane.
template <class F> void with_tile(const char* op, const Sampling& s, DType dtype, F&& f) {
  if (dtype == DType::Float64) return f(TypeTag<GridTile<double, int64_t>>());
  check_implemented(dtype == DType::Float32, op, ": not implemented for dtype ", dtype);
  if (s.plane > INT32_MAX) f(TypeTag<GridTile<float, int64_t>>());
  else f(TypeTag<GridTile<float, int32_t>>());
}

// f(n, p, count) for parts of all places; those of a part lie in image n, from p on.
template <class F> void for_offsets(const Sampling& s, F&& f) {
  int64_t grain = default_grain / (s.channels * 8 + 16) + 1;
  parallel_for(0, s.batch * s.places, grain, [&](int64_t begin, int64_t end) {
    for (int64_t first = begin, count; first < end; first += count) {
      int64_t n = first / s.places;
      count = std::min({combined_offsets, end - first, (n + 1) * s.places - first});
      f(n, first % s.places, count);
    }
  });
}

}  // namespace

void grid_sample(const View& input, const View& grid, const View& out, const GridSampling& how) {
  if (out.numel == 0) return;
  Sampling s(input, out);
  with_tile("grid_sample", s, input.dtype, [&](auto tag) {
    using Tile = typename decltype(tag)::type;
    using T = typename Tile::Element;
    for_offsets(s, [&](int64_t n, int64_t p, int64_t count) {
      Tile near(how, s.dims, s.size);
      near.count = count;
      find(near, grid.ptr<const T>() + (n * s.places + p) * s.dims);
      const T* from = input.ptr<const T>() + n * s.channels * s.plane;
      T* to = out.ptr<T>() + n * s.channels * s.places + p;
      for (int64_t c = 0; c < s.channels; ++c) read(near, from + c * s.plane, to + c * s.places);
    });
  });
}

void grid_slopes(const View& values, const View& images, const View& grid, const View& out,
                 const GridSampling& how) {
  if (out.numel == 0) return;
  Sampling s(images, values);
  with_tile("grid_sample", s, images.dtype, [&](auto tag) {
    using Tile = typename decltype(tag)::type;
    using T = typename Tile::Element;
    for_offsets(s, [&](int64_t n, int64_t p, int64_t count) {
      Tile near[3] = {{how, s.dims, s.size}, {how, s.dims, s.size}, {how, s.dims, s.size}};
      T sums[3 * combined_offsets] = {};
      for (int d = 0; d < s.dims; ++d) {
        near[d].count = count;  // and one derivative more by its column
        ++near[d].how.orders[d];
        find(near[d], grid.ptr<const T>() + (n * s.places + p) * s.dims);
      }
      for (int64_t c = 0; c < s.channels; ++c)
        slopes(near, images.ptr<const T>() + (n * s.channels + c) * s.plane,
               values.ptr<const T>() + (n * s.channels + c) * s.places + p, sums);
      T* to = out.ptr<T>() + (n * s.places + p) * s.dims;
      for (int64_t i = 0; i < count; ++i)
        for (int d = 0; d < s.dims; ++d) to[i * s.dims + d] = sums[d * combined_offsets + i];
    });
  });
}

void grid_scatter(const View& values, const View& grid, const View& out, const GridSampling& how) {
  fill(out, 0);
  if (values.numel == 0 || out.numel == 0) return;
  Sampling s(out, values);
  with_tile("grid_sample_adjoint", s, out.dtype, [&](auto tag) {
    using Tile = typename decltype(tag)::type;
    using T = typename Tile::Element;
    // Threads share out planes, so that no two write to one.
    int64_t grain = default_grain / (s.places * 8 + 1) + 1;
    parallel_for(0, s.batch * s.channels, grain, [&](int64_t begin, int64_t end) {
      Tile near(how, s.dims, s.size);
      for (int64_t first = begin, last; first < end; first = last) {
        int64_t n = first / s.channels;
        last = std::min(end, (n + 1) * s.channels);
        for (int64_t p = 0; p < s.places; p += combined_offsets) {
          near.count = std::min(combined_offsets, s.places - p);
          find(near, grid.ptr<const T>() + (n * s.places + p) * s.dims);
          for (int64_t c = first; c < last; ++c) {
            const T* from = values.ptr<const T>() + c * s.places + p;
            T* to = out.ptr<T>() + c * s.plane;
            for (int64_t i = 0; i < near.count; ++i)
              for (int k = 0; k < near.neighbours; ++k)
                if (auto offset = near.offset[k][i]; offset >= 0)
                  to[offset] += near.weight[k][i] * from[i];
          }
        }
      }
    });
  });
}

}  // namespace rl::kernels
