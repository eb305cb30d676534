// Sampling at the places of a grid. A sample is a sum over neighbours of products of one weight per
// dim, so its derivatives by the grid are samples with derived weights, and its gradient by the
// input writes where it reads: two loops over the same neighbours give derivatives of all orders.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/parallel.h"
#include "kernels/copy.h"
#include "kernels/interpolate.h"

namespace rl::kernels {
namespace {

constexpr double cubic_sharpness = -0.75;
constexpr int64_t places_together = 64;  // whose neighbours are known before planes are read
constexpr int most_neighbours = 16;      // of bicubic; linear in 3-D has 8

// Neighbours along one dim, those outside of the image left out.
template <class C> struct Line {
  int count = 0;
  int64_t at[4];
  C weight[4];
  void add(int64_t place, int64_t size, C w) {
    if (place < 0 || place >= size) return;
    at[count] = place;
    weight[count++] = w;
  }
};

// A place moved into the image, and how it then moves with the original one: 1, -1 or 0.
template <class C> struct Moved {
  C at, slope;
};

template <class C> Moved<C> clipped(C at, C slope, int64_t size) {
  C last = static_cast<C>(size - 1);
  if (!(at > C(0))) return {C(0), C(0)};  // NaN too
  if (at >= last) return {last, C(0)};
  return {at, slope};
}

template <class C> Moved<C> reflected(C at, int64_t size, bool align_corners) {
  C low = align_corners ? C(0) : C(-0.5), span = static_cast<C>(align_corners ? size - 1 : size);
  if (span == C(0)) return {C(0), C(0)};
  C distance = at - low, slope = distance < C(0) ? C(-1) : C(1);
  distance = std::abs(distance);
  C turns = std::floor(distance / span), rest = distance - turns * span;
  bool back = std::fmod(turns, C(2)) != C(0);
  return clipped(back ? span - rest + low : rest + low, back ? -slope : slope, size);
}

template <class C> Moved<C> moved(C at, int64_t size, const GridSampling& how) {
  if (how.padding == GridPadding::Border) return clipped(at, C(1), size);
  if (how.padding == GridPadding::Reflection) return reflected(at, size, how.align_corners);
  return {at, C(1)};
}

// The k-th derivative of Keys' (1981) cubic weight at distance t >= 0.
template <class C> C cubic(C t, int k) {
  C a = static_cast<C>(cubic_sharpness);
  if (t <= C(1)) {
    C p = a + 2, q = a + 3;
    return k == 0   ? (p * t - q) * t * t + 1
           : k == 1 ? (3 * p * t - 2 * q) * t
           : k == 2 ? 6 * p * t - 2 * q
           : k == 3 ? 6 * p
                    : C(0);
  }
  return k == 0   ? ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
         : k == 1 ? (3 * a * t - 10 * a) * t + 8 * a
         : k == 2 ? 6 * a * t - 10 * a
         : k == 3 ? 6 * a
                  : C(0);
}

template <class C>
Line<C> neighbours(C coordinate, int64_t size, int order, const GridSampling& how) {
  // from [-1, 1] to pixels
  C scale = static_cast<C>(how.align_corners ? size - 1 : size) / 2;
  C at = how.align_corners ? (coordinate + 1) * scale
                           : ((coordinate + 1) * static_cast<C>(size) - 1) / 2;
  Line<C> line;
  C chain = C(1);
  for (int i = 0; i < order; ++i) chain *= scale;
  if (how.mode == GridMode::Bicubic) {
    C low = std::floor(at), past = at - low;
    for (int i = 0; i < 4; ++i) {
      C distance = past - static_cast<C>(i - 1);  // from this neighbour
      C weight = cubic(std::abs(distance), order);
      if (order % 2 && distance < C(0)) weight = -weight;
      C place = moved(low + static_cast<C>(i - 1), size, how).at;
      if (std::abs(place) < C(1e9)) line.add(static_cast<int64_t>(place), size, weight * chain);
    }
    return line;
  }
  Moved<C> inside = moved(at, size, how);
  if (!(std::abs(inside.at) < C(1e9))) return line;  // far outside, or NaN
  if (how.mode == GridMode::Nearest) {
    line.add(static_cast<int64_t>(std::nearbyint(inside.at)), size, order ? C(0) : C(1));
    return line;
  }
  C low = std::floor(inside.at), past = inside.at - low;
  int64_t first = static_cast<int64_t>(low);
  C slope = order == 1 ? inside.slope * chain : C(0);
  line.add(first, size, order ? -slope : 1 - past);
  line.add(first + 1, size, order ? slope : past);
  return line;
}

// The neighbours of one place, as offsets into a plane, and their weights.
template <class C> struct Neighbours {
  int count;
  int64_t offset[most_neighbours];
  C weight[most_neighbours];

  template <class T> C sum(const T* plane) const {
    C total = 0;
    if (count == 4) {  // of a place within an image, mostly
      for (int t = 0; t < 4; ++t) total += weight[t] * static_cast<C>(plane[offset[t]]);
      return total;
    }
    for (int t = 0; t < count; ++t) total += weight[t] * static_cast<C>(plane[offset[t]]);
    return total;
  }
  void add(C value, C* plane) const {
    if (count == 4) {
      for (int t = 0; t < 4; ++t) plane[offset[t]] += weight[t] * value;
      return;
    }
    for (int t = 0; t < count; ++t) plane[offset[t]] += weight[t] * value;
  }

  template <class T>
  void find(const T* place, const int64_t* size, int dims, const GridSampling& how) {
    count = 0;
    Line<C> lines[3];
    for (int d = 0; d < dims; ++d)  // the grid's first column belongs to the last dim
      lines[d] =
          neighbours(static_cast<C>(place[dims - 1 - d]), size[d], how.orders[dims - 1 - d], how);
    if (dims == 2) {
      lines[2] = lines[1];
      lines[1] = lines[0];
      lines[0].count = 1;
      lines[0].at[0] = 0;
      lines[0].weight[0] = C(1);
    }
    int64_t rows = size[dims - 2], columns = size[dims - 1];
    for (int i = 0; i < lines[0].count; ++i)
      for (int j = 0; j < lines[1].count; ++j)
        for (int k = 0; k < lines[2].count; ++k) {
          offset[count] = (lines[0].at[i] * rows + lines[1].at[j]) * columns + lines[2].at[k];
          weight[count++] = lines[0].weight[i] * lines[1].weight[j] * lines[2].weight[k];
        }
  }
};

// Sizes that both directions share: `image` is the side with pixels, `samples` that with places.
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

}  // namespace

void grid_sample(const View& input, const View& grid, const View& out, const GridSampling& how) {
  if (out.numel == 0) return;
  Sampling s(input, out);
  visit_floating("grid_sample", input.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = compute_t<T>;
    int64_t grain = default_grain / (s.channels * 8 + 16) + 1;
    parallel_for(0, s.batch * s.places, grain, [&](int64_t begin, int64_t end) {
      Neighbours<C> near[places_together];
      for (int64_t first = begin, count; first < end; first += count) {
        int64_t n = first / s.places;
        count = std::min({places_together, end - first, (n + 1) * s.places - first});
        for (int64_t i = 0; i < count; ++i)
          near[i].find(grid.ptr<const T>() + (first + i) * s.dims, s.size, s.dims, how);
        const T* from = input.ptr<const T>() + n * s.channels * s.plane;
        T* to = out.ptr<T>() + n * s.channels * s.places + first % s.places;
        for (int64_t c = 0; c < s.channels; ++c, from += s.plane, to += s.places)
          for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(near[i].sum(from));
      }
    });
  });
}

void grid_scatter(const View& values, const View& grid, const View& out, const GridSampling& how) {
  fill(out, 0);
  if (values.numel == 0 || out.numel == 0) return;
  Sampling s(out, values);
  visit_floating("grid_sample_adjoint", out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = compute_t<T>;
    // Threads share out planes, so that no two write to one.
    int64_t grain = default_grain / (s.places * 8 + 1) + 1;
    parallel_for(0, s.batch * s.channels, grain, [&](int64_t begin, int64_t end) {
      Neighbours<C> near[places_together];
      std::vector<C> sums;
      for (int64_t first = begin; first < end;) {
        int64_t n = first / s.channels, last = std::min(end, (n + 1) * s.channels),
                count = last - first;
        sums.assign(static_cast<size_t>(count * s.plane), C(0));
        for (int64_t p = 0; p < s.places; p += places_together) {
          int64_t together = std::min(places_together, s.places - p);
          for (int64_t i = 0; i < together; ++i)
            near[i].find(grid.ptr<const T>() + (n * s.places + p + i) * s.dims, s.size, s.dims,
                         how);
          const T* from = values.ptr<const T>() + first * s.places + p;
          C* to = sums.data();
          for (int64_t c = 0; c < count; ++c, from += s.places, to += s.plane)
            for (int64_t i = 0; i < together; ++i) near[i].add(static_cast<C>(from[i]), to);
        }
        T* to = out.ptr<T>() + first * s.plane;
        for (size_t i = 0; i < sums.size(); ++i) to[i] = static_cast<T>(sums[i]);
        first = last;
      }
    });
  });
}

}  // namespace rl::kernels
