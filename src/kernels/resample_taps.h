// Which input elements each output element of a resampled line takes, and by what weights: the
// tables that the kernels of all devices read.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/interpolate.h"

namespace rl::kernels {

// Output o of a line takes weight[o * width + k] of input place[o * width + k], k < width.
template <class C> struct Taps {
  int64_t in = 0, out = 0, width = 1;
  std::vector<int32_t> place;
  std::vector<C> weight;

  Taps(int64_t in, int64_t out, int64_t width) : in(in), out(out), width(width) {
    place.assign(static_cast<size_t>(out * width), 0);
    weight.assign(static_cast<size_t>(out * width), C(0));
  }
  void set(int64_t o, int64_t k, int64_t at, C w) {
    place[static_cast<size_t>(o * width + k)] =
        static_cast<int32_t>(std::min(std::max<int64_t>(at, 0), in - 1));
    weight[static_cast<size_t>(o * width + k)] = w;
  }
};

// Keys' cubic kernel of sharpness a, at distance x.
template <class C> C cubic(C x, C a) {
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : C(0);
}

// The integer part of x, which may be anything.
template <class C> int64_t whole_between(C x, int64_t low, int64_t high) {
  return x > static_cast<C>(low) ? x < static_cast<C>(high) ? static_cast<int64_t>(x) : high : low;
}

template <class C> Taps<C> nearest_taps(int64_t in, int64_t out, bool exact, double factor) {
  Taps<C> taps(in, out, 1);
  // Single precision whatever the dtype: it decides which of two neighbours is nearest.
  float step = factor > 0 ? static_cast<float>(1 / factor)
                          : static_cast<float>(in) / static_cast<float>(out);
  for (int64_t o = 0; o < out; ++o)
    taps.set(o, 0, whole_between((static_cast<float>(o) + (exact ? 0.5f : 0.0f)) * step, 0, in - 1),
             C(1));
  return taps;
}

template <class C> C step_of(int64_t in, int64_t out, const ResampleGeometry& g, int dim) {
  if (g.align_corners) return out > 1 ? static_cast<C>(in - 1) / static_cast<C>(out - 1) : C(0);
  return g.scales[dim] > 0 ? static_cast<C>(1 / g.scales[dim])
                           : static_cast<C>(in) / static_cast<C>(out);
}

// The filter is widened by the factor of shrinking, so that every input element counts.
template <class C> Taps<C> antialias_taps(int64_t in, int64_t out, C step, bool is_cubic) {
  C wide = std::max(step, C(1)), support = (is_cubic ? C(2) : C(1)) * wide;
  int64_t width =
      support < static_cast<C>(in) ? static_cast<int64_t>(std::ceil(support)) * 2 + 1 : in;
  Taps<C> taps(in, out, std::min(width, in));
  for (int64_t o = 0; o < out; ++o) {
    C centre = step * (static_cast<C>(o) + C(0.5)), total = 0;
    int64_t first = whole_between(centre - support + C(0.5), 0, in),
            count = whole_between(centre + support + C(0.5), 0, in) - first;
    count = std::min(std::max<int64_t>(count, 0), taps.width);
    for (int64_t k = 0; k < count; ++k) {
      C x = (static_cast<C>(first + k) - centre + C(0.5)) / wide;
      C w = is_cubic ? cubic(x, C(-0.5)) : std::max(1 - std::abs(x), C(0));
      taps.set(o, k, first + k, w);
      total += w;
    }
    for (int64_t k = 0; k < count && total != 0; ++k)
      taps.weight[static_cast<size_t>(o * taps.width + k)] /= total;
  }
  return taps;
}

template <class C> Taps<C> make_taps(int64_t in, int64_t out, const ResampleGeometry& g, int dim) {
  bool is_cubic = g.mode == Interpolation::Cubic;
  if (g.mode == Interpolation::Nearest || g.mode == Interpolation::NearestExact)
    return nearest_taps<C>(in, out, g.mode == Interpolation::NearestExact, g.scales[dim]);
  C step = step_of<C>(in, out, g, dim);
  if (g.antialias) return antialias_taps(in, out, step, is_cubic);
  Taps<C> taps(in, out, is_cubic ? 4 : 2);
  for (int64_t o = 0; o < out; ++o) {
    C at =
        g.align_corners ? step * static_cast<C>(o) : step * (static_cast<C>(o) + C(0.5)) - C(0.5);
    if (!is_cubic) at = std::max(at, C(0));
    int64_t first = whole_between(std::floor(at), -2, in - 1);
    C past = std::min(std::max(at - static_cast<C>(first), C(0)), C(1));
    if (is_cubic) {
      for (int64_t k = 0; k < 4; ++k)
        taps.set(o, k, first - 1 + k, cubic(past + static_cast<C>(1 - k), C(-0.75)));
    } else {
      taps.set(o, 0, first, 1 - past);
      taps.set(o, 1, first + 1, past);
    }
  }
  return taps;
}

// Weights rounded to multiples of 2^-bits, with the most bits with which all fit into 16 bits: the
// sums of bytes, if exact, are then those of Pillow's integers.
inline Taps<double> byte_taps(int64_t in, int64_t out, const ResampleGeometry& g, int dim,
                              int& bits) {
  Taps<double> taps = make_taps<double>(in, out, g, dim);
  // An edge that stands for what lies beyond it counts once.
  for (size_t i = 0; i < taps.place.size(); ++i)
    if (i % static_cast<size_t>(taps.width) && taps.place[i] == taps.place[i - 1]) {
      taps.weight[i] += taps.weight[i - 1];
      taps.weight[i - 1] = 0;
    }
  double largest = *std::max_element(taps.weight.begin(), taps.weight.end()), unit = 1;
  for (bits = 0; bits < 22 && std::floor(largest * 2 * unit + 0.5) < 1 << 15; ++bits) unit *= 2;
  for (double& w : taps.weight) w = std::trunc(w * unit + std::copysign(0.5, w)) / unit;
  return taps;
}

template <class C> Taps<C> taps_of(int64_t in, int64_t out, const ResampleGeometry& g, int dim,
                                   bool bytes) {
  if (!bytes) return make_taps<C>(in, out, g, dim);
  int bits;
  Taps<double> wide = byte_taps(in, out, g, dim, bits);
  Taps<C> taps(in, out, wide.width);
  taps.place = wide.place;
  taps.weight.assign(wide.weight.begin(), wide.weight.end());
  return taps;
}

}  // namespace rl::kernels
