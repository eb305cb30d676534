#include "kernels/cpu/grid_tiles.h"

#include "kernels/cpu/lanes.h"

namespace rl::kernels::RL_ISA {
namespace {

float nearest_of(float x) { return __builtin_nearbyintf(x); }
double nearest_of(double x) { return __builtin_nearbyint(x); }

// The neighbours of a tile's places along one dim: pixel numbers, whole or NaN, and weights.
template <class C> struct Line {
  int width;
  C at[4][combined_offsets], weight[4][combined_offsets];
};

// A place moved into the image, and how it then moves with the original one: 1, -1 or 0.
template <class C> struct Moved {
  C at, slope;
};

template <class C> RL_INLINE Moved<C> clipped(C at, C slope, C last) {
  bool below = !(at > C(0)), above = at >= last;  // NaN too is below
  C within = above ? last : at;
  return {below ? C(0) : within, below || above ? C(0) : slope};
}

// Padding by what is there; of the zeros elsewhere, sums leave out what lies outside.
template <class C> struct AsItIs {
  RL_INLINE Moved<C> operator()(C at) const { return {at, C(1)}; }
};
template <class C> struct Clipped {
  C last;
  RL_INLINE Moved<C> operator()(C at) const { return clipped(at, C(1), last); }
};
template <class C> struct Reflected {
  C low, span, last;
  RL_INLINE Moved<C> operator()(C at) const {
    C distance = at - low, slope = distance < C(0) ? C(-1) : C(1);
    distance = math::magnitude(distance);
    C turns = math::floor(distance / span), rest = distance - turns * span;
    bool back = turns - C(2) * math::floor(turns * C(0.5)) != C(0);
    return clipped(back ? span - rest + low : rest + low, back ? -slope : slope, last);
  }
};
template <class C> struct AtZero {  // the reflection within a single pixel
  RL_INLINE Moved<C> operator()(C) const { return {C(0), C(0)}; }
};

template <class C, class F> void with_padding(const GridSampling& how, int64_t size, F f) {
  C last = static_cast<C>(size - 1);
  if (how.padding == GridPadding::Zeros) return f(AsItIs<C>());
  if (how.padding == GridPadding::Border) return f(Clipped<C>{last});
  C span = how.align_corners ? last : static_cast<C>(size);
  if (span == C(0)) return f(AtZero<C>());
  f(Reflected<C>{how.align_corners ? C(0) : C(-0.5), span, last});
}

// A polynomial for distances up to 1 and one for those beyond, highest coefficients first.
template <class C> struct Cubic {
  C near[4], far[4];
  RL_INLINE C operator()(C t) const {
    return t <= C(1) ? math::horner(t, near[3], near[2], near[1], near[0])
                     : math::horner(t, far[3], far[2], far[1], far[0]);
  }
};

// The k-th derivative of Keys' (1981) cubic weight, sharpness -0.75, at distance t >= 0.
template <class C> Cubic<C> cubic(int k) {
  constexpr C a = C(-0.75), p = a + 2, q = a + 3;
  switch (k) {
    case 0: return {{p, -q, 0, 1}, {a, -5 * a, 8 * a, -4 * a}};
    case 1: return {{0, 3 * p, -2 * q, 0}, {0, 3 * a, -10 * a, 8 * a}};
    case 2: return {{0, 0, 6 * p, -2 * q}, {0, 0, 6 * a, -10 * a}};
    case 3: return {{0, 0, 0, 6 * p}, {0, 0, 0, 6 * a}};
    default: return {};
  }
}

template <class C, class Padding>
void cubic_line(const Padding& moved, const C* pixel, int64_t count, int order, C chain,
                Line<C>& line) {
  line.width = 4;
  const Cubic<C> weight_at = cubic<C>(order);
  C before = order % 2 ? -chain : chain;  // odd derivatives change their sign at 0
  for (int k = 0; k < 4; ++k)
    for (int64_t i = 0; i < count; ++i) {
      C low = math::floor(pixel[i]), distance = pixel[i] - low - static_cast<C>(k - 1);
      line.at[k][i] = moved(low + static_cast<C>(k - 1)).at;
      line.weight[k][i] = weight_at(math::magnitude(distance)) * (distance < C(0) ? before : chain);
    }
}

template <class C, class Padding>
void linear_line(const Padding& moved, const C* pixel, int64_t count, int order, C chain,
                 Line<C>& line) {
  line.width = 2;
  C by_order = order == 1 ? chain : C(0);
  for (int64_t i = 0; i < count; ++i) {
    Moved<C> inside = moved(pixel[i]);
    C low = math::floor(inside.at), past = inside.at - low, slope = inside.slope * by_order;
    line.at[0][i] = low;
    line.at[1][i] = low + C(1);
    line.weight[0][i] = order ? -slope : C(1) - past;
    line.weight[1][i] = order ? slope : past;
  }
}

template <class C, class Padding>
void nearest_line(const Padding& moved, const C* pixel, int64_t count, int order, Line<C>& line) {
  line.width = 1;
  for (int64_t i = 0; i < count; ++i) {
    line.at[0][i] = nearest_of(moved(pixel[i]).at);
    line.weight[0][i] = order ? C(0) : C(1);
  }
}

// `coordinate` steps by `dims`; it becomes pixels, from [-1, 1].
template <class C>
void find_line(const GridSampling& how, const C* coordinate, int dims, int64_t count, int64_t size,
               int order, Line<C>& line) {
  C scale = static_cast<C>(how.align_corners ? size - 1 : size) / 2, chain = C(1);
  C whole = static_cast<C>(size);
  for (int i = 0; i < order; ++i) chain *= scale;
  C pixel[combined_offsets];
  for (int64_t i = 0; i < count; ++i) {
    C one_more = coordinate[i * dims] + 1;
    pixel[i] = how.align_corners ? one_more * scale : (one_more * whole - 1) / 2;
  }
  with_padding<C>(how, size, [&](const auto& moved) {
    if (how.mode == GridMode::Bicubic) cubic_line(moved, pixel, count, order, chain, line);
    else if (how.mode == GridMode::Nearest) nearest_line(moved, pixel, count, order, line);
    else linear_line(moved, pixel, count, order, chain, line);
  });
}

// Of one dim more: each neighbour so far beside each of the line. So far there are `before`.
template <class C, class I>
void combine(GridTile<C, I>& tile, int before, const Line<C>& line, int64_t size) {
  const C end = static_cast<C>(size);
  const int64_t count = tile.count;  // which a store to the offsets might be to, of the same type
  for (int old = before - 1; old >= 0; --old)
    for (int k = line.width - 1; k >= 0; --k) {
      I* offset = tile.offset[old * line.width + k];
      C* weight = tile.weight[old * line.width + k];
      const I* offset_before = tile.offset[old];
      const C* weight_before = tile.weight[old];
      for (int64_t i = 0; i < count; ++i) {
        C at = line.at[k][i];
        const bool in_line = (at >= C(0)) & (at < end), within = in_line & (offset_before[i] >= 0);
        I place = offset_before[i] * static_cast<I>(size) + static_cast<I>(in_line ? at : C(0));
        C both = weight_before[i] * line.weight[k][i];
        offset[i] = within ? place : I(-1);
        weight[i] = within | (both != both) ? both : C(0);  // no place is NaN times the zeros
      }
    }
}

template <class C, class I> void find(GridTile<C, I>& tile, const C* places) {
  for (int64_t i = 0; i < tile.count; ++i) {
    tile.offset[0][i] = 0;
    tile.weight[0][i] = C(1);
  }
  tile.neighbours = 1;
  for (int d = 0; d < tile.dims; ++d) {  // the grid's first column belongs to the last dim
    int column = tile.dims - 1 - d;
    Line<C> line;
    find_line(tile.how, places + column, tile.dims, tile.count, tile.size[d],
              tile.how.orders[column], line);
    combine(tile, tile.neighbours, line, tile.size[d]);
    tile.neighbours *= line.width;
  }
  for (int k = 0; k < tile.neighbours; ++k)  // vectors of places may end in some that are none
    for (int64_t i = tile.count; i % Vector<C>::lanes; ++i) {
      tile.offset[k][i] = -1;
      tile.weight[k][i] = C(0);
    }
}

// The pixels of a vector of places, from place i on.
template <class C, class I>
RL_INLINE vec<C> pixels_at(const C* plane, const I* offset) {
  if constexpr (sizeof(C) == sizeof(I)) {
    return gather<C, I>(plane, load(offset));
  } else {
    C pixels[Vector<C>::lanes];
    for (int i = 0; i < Vector<C>::lanes; ++i) pixels[i] = offset[i] < 0 ? C(0) : plane[offset[i]];
    return load(pixels);
  }
}

template <int neighbours, class C, class I>
void read_some(const GridTile<C, I>& tile, const C* plane, C* to) {
  constexpr int n = Vector<C>::lanes;
  for (int64_t i = 0; i < tile.count; i += n) {
    vec<C> sum = {};
#pragma GCC unroll 16
    for (int k = 0; k < neighbours; ++k)
      sum = mul_add(load(tile.weight[k] + i), pixels_at(plane, tile.offset[k] + i), sum);
    if (i + n <= tile.count) store(to + i, sum);
    else store_part(to + i, sum, tile.count - i);
  }
}

template <class C, class I> void read(const GridTile<C, I>& tile, const C* plane, C* to) {
  switch (tile.neighbours) {
    case 1: return read_some<1>(tile, plane, to);
    case 4: return read_some<4>(tile, plane, to);
    case 8: return read_some<8>(tile, plane, to);
    default: return read_some<16>(tile, plane, to);
  }
}

template <int dims, class C, class I>
void slopes_of(const GridTile<C, I>* tiles, const C* plane, const C* values, C* sums) {
  constexpr int n = Vector<C>::lanes;
  int64_t count = tiles->count;
  for (int64_t i = 0; i < count; i += n) {
    vec<C> slope[dims] = {};
    for (int k = 0; k < tiles->neighbours; ++k) {
      vec<C> pixels = pixels_at(plane, tiles->offset[k] + i);
#pragma GCC unroll 3
      for (int d = 0; d < dims; ++d)
        slope[d] = mul_add(load(tiles[d].weight[k] + i), pixels, slope[d]);
    }
    vec<C> value = i + n <= count ? load(values + i) : load_part(values + i, count - i);
    for (int d = 0; d < dims; ++d) {
      C* sum = sums + d * combined_offsets + i;
      store(sum, mul_add(value, slope[d], load(sum)));
    }
  }
}

template <class C, class I>
void slopes(const GridTile<C, I>* tiles, const C* plane, const C* values, C* sums) {
  if (tiles->dims == 2) slopes_of<2>(tiles, plane, values, sums);
  else slopes_of<3>(tiles, plane, values, sums);
}

}  // namespace

#define RL_GRID_TILE(suffix, C, I)                                                        \
  void grid_find_##suffix(GridTile<C, I>& tile, const C* places) { find(tile, places); }  \
  void grid_read_##suffix(const GridTile<C, I>& tile, const C* plane, C* to) {            \
    read(tile, plane, to);                                                                \
  }                                                                                       \
  void grid_slopes_##suffix(const GridTile<C, I>* tiles, const C* plane, const C* values, \
                            C* sums) {                                                    \
    slopes(tiles, plane, values, sums);                                                   \
  }
RL_GRID_TILE(f32, float, int32_t)
RL_GRID_TILE(f32_wide, float, int64_t)
RL_GRID_TILE(f64, double, int64_t)
#undef RL_GRID_TILE

}  // namespace rl::kernels::RL_ISA
