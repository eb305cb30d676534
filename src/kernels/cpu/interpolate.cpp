// Resampling one dim after another: each output element is a weighted sum of a few input elements
// of its line, and the same table of weights, read the other way, gives the gradient.
#include "kernels/interpolate.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "core/parallel.h"
#include "kernels/copy.h"
#include "kernels/workspace.h"

namespace rl::kernels {
namespace {

// Output o of a line takes weight[o * width + k] of input place[o * width + k], k < width.
template <class C> struct Taps {
  int64_t in = 0, out = 0, width = 1;
  std::vector<int64_t> place;
  std::vector<C> weight;

  Taps(int64_t in, int64_t out, int64_t width) : in(in), out(out), width(width) {
    place.assign(static_cast<size_t>(out * width), 0);
    weight.assign(static_cast<size_t>(out * width), C(0));
  }
  void set(int64_t o, int64_t k, int64_t at, C w) {
    place[static_cast<size_t>(o * width + k)] = std::min(std::max<int64_t>(at, 0), in - 1);
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

// from (outer, in, inner) -> to (outer, out, inner)
template <class C> void resample(const Taps<C>& taps, const C* from, C* to, int64_t outer,
                                 int64_t inner) {
  parallel_for(0, outer, std::max<int64_t>(1, default_grain / (taps.out * inner * taps.width + 1)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t n = begin; n < end; ++n)
                   for (int64_t o = 0; o < taps.out; ++o) {
                     C* row = to + (n * taps.out + o) * inner;
                     const C* weight = taps.weight.data() + o * taps.width;
                     const int64_t* place = taps.place.data() + o * taps.width;
                     const C* line = from + n * taps.in * inner;
                     if (inner == 1) {
                       C sum = weight[0] * line[place[0]];
                       for (int64_t k = 1; k < taps.width; ++k) sum += weight[k] * line[place[k]];
                       *row = sum;
                       continue;
                     }
                     for (int64_t i = 0; i < inner; ++i)
                       row[i] = weight[0] * line[place[0] * inner + i];
                     for (int64_t k = 1; k < taps.width; ++k) {
                       const C* source = line + place[k] * inner;
                       for (int64_t i = 0; i < inner; ++i) row[i] += weight[k] * source[i];
                     }
                   }
               });
}

// The transpose: from (outer, out, inner) -> to (outer, in, inner)
template <class C> void resample_transposed(const Taps<C>& taps, const C* from, C* to,
                                            int64_t outer, int64_t inner) {
  parallel_for(
      0, outer, std::max<int64_t>(1, default_grain / (taps.out * inner * taps.width + 1)),
      [&](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; ++n) {
          std::fill_n(to + n * taps.in * inner, taps.in * inner, C(0));
          for (int64_t o = 0; o < taps.out; ++o) {
            const C* row = from + (n * taps.out + o) * inner;
            for (int64_t k = 0; k < taps.width; ++k) {
              const C w = taps.weight[static_cast<size_t>(o * taps.width + k)];
              if (inner == 1) {
                to[n * taps.in + taps.place[static_cast<size_t>(o * taps.width + k)]] += w * *row;
                continue;
              }
              C* target =
                  to + (n * taps.in + taps.place[static_cast<size_t>(o * taps.width + k)]) * inner;
              for (int64_t i = 0; i < inner; ++i) target[i] += w * row[i];
            }
          }
        }
      });
}

// Passes over the spatial dims, the last one first (or, transposed, last).
template <class C> void run(const View& from, const View& to, const ResampleGeometry& g,
                            bool transposed) {
  if (from.numel == 0 || to.numel == 0) return;
  Dims sizes(from.shape());
  std::optional<RowMajor> copied;
  if (from.dtype != dtype_of<C> || !from.contiguous()) {
    copied.emplace(from.shape(), dtype_of<C>);
    copy(from, copied->view());
  }
  const C* now = copied ? copied->ptr<C>() : from.ptr<const C>();
  bool direct = to.dtype == dtype_of<C> && to.contiguous();
  int dims = static_cast<int>(from.ndim) - 2;
  std::optional<Buffer<C>> buffers[2];  // where the passes but the last write, by turns
  for (int pass = 0; pass < dims; ++pass) {
    int spatial = transposed ? pass : dims - 1 - pass;
    int64_t d = spatial + 2, in = transposed ? to.sizes[d] : from.sizes[d],
            out = transposed ? from.sizes[d] : to.sizes[d];
    Taps<C> taps = make_taps<C>(in, out, g, spatial);
    int64_t outer = product({sizes.data(), d}),
            inner = product({sizes.data() + d + 1, from.ndim - d - 1});
    sizes[d] = to.sizes[d];
    std::optional<Buffer<C>>& buffer = buffers[pass % 2];
    C* next =
        direct && pass == dims - 1 ? to.ptr<C>() : buffer.emplace(outer * inner * sizes[d]).data();
    (transposed ? resample_transposed<C> : resample<C>)(taps, now, next, outer, inner);
    now = next;
  }
  if (direct) return;
  Dims strides = contiguous_strides(sizes);
  copy({const_cast<C*>(now), sizes.data(), strides.data(), to.ndim, to.numel, dtype_of<C>}, to);
}

void run_any(const char* op, const View& from, const View& to, const ResampleGeometry& g,
             bool transposed) {
  bool nearest = g.mode == Interpolation::Nearest || g.mode == Interpolation::NearestExact;
  check_implemented(is_floating(from.dtype) || (nearest && from.dtype == DType::UInt8), op,
                    ": not implemented for dtype ", from.dtype);
  if (from.dtype == DType::Float64) run<double>(from, to, g, transposed);
  else run<float>(from, to, g, transposed);
}

}  // namespace

void interpolate(const View& input, const View& out, const ResampleGeometry& geometry) {
  run_any("interpolate", input, out, geometry, false);
}
void interpolate_backward(const View& grad_out, const View& grad_input,
                          const ResampleGeometry& geometry) {
  run_any("interpolate_backward", grad_out, grad_input, geometry, true);
}

}  // namespace rl::kernels
