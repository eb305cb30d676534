// Resampling one dim after another: each output element is a weighted sum of a few input elements
// of its line, and the same table of weights, read the other way, gives the gradient. Plane by
// plane, so that what one dim hands to the next stays in the caches.
#include "kernels/interpolate.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "core/parallel.h"
#include "kernels/copy.h"
#include "kernels/cpu/channels_last.h"
#include "kernels/cpu/resample_loops.h"
#include "kernels/cpu/strip.h"
#include "kernels/cpu/workspace.h"

namespace rl::kernels {
namespace {

// The tables of TapTable.
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
  TapTable<C> table() const { return {in, out, width, place.data(), weight.data()}; }
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

// Weights rounded to multiples of the least power of two with which all fit into 16 bits: the sums
// of bytes, if exact, are then those of Pillow's integers.
Taps<double> byte_taps(int64_t in, int64_t out, const ResampleGeometry& g, int dim) {
  Taps<double> taps = make_taps<double>(in, out, g, dim);
  // An edge that stands for what lies beyond it counts once.
  for (size_t i = 0; i < taps.place.size(); ++i)
    if (i % static_cast<size_t>(taps.width) && taps.place[i] == taps.place[i - 1]) {
      taps.weight[i] += taps.weight[i - 1];
      taps.weight[i - 1] = 0;
    }
  double largest = *std::max_element(taps.weight.begin(), taps.weight.end()), unit = 1;
  for (int bits = 0; bits < 22 && std::floor(largest * 2 * unit + 0.5) < 1 << 15; ++bits) unit *= 2;
  for (double& w : taps.weight) w = std::trunc(w * unit + std::copysign(0.5, w)) / unit;
  return taps;
}

template <class C> Taps<C> taps_of(int64_t in, int64_t out, const ResampleGeometry& g, int dim,
                                   bool bytes) {
  if (!bytes) return make_taps<C>(in, out, g, dim);
  Taps<double> wide = byte_taps(in, out, g, dim);
  Taps<C> taps(in, out, wide.width);
  taps.place = wide.place;
  taps.weight.assign(wide.weight.begin(), wide.weight.end());
  return taps;
}

// The transpose as taps, where each input element goes to equally many outputs and to each whole,
// as in widening by a whole factor: reading is quicker than adding up.
template <class C> std::optional<Taps<C>> turned(const Taps<C>& taps) {
  if (taps.width != 1 || taps.out % taps.in) return {};
  Taps<C> back(taps.out, taps.in, taps.out / taps.in);
  std::vector<int64_t> count(static_cast<size_t>(taps.in));
  for (int64_t o = 0; o < taps.out; ++o) {
    int64_t at = taps.place[static_cast<size_t>(o)];
    int64_t k = count[static_cast<size_t>(at)]++;
    if (k == back.width) return {};
    back.set(at, k, o, taps.weight[static_cast<size_t>(o)]);
  }
  return back;
}

// One dim: from (outer, before, inner) to (outer, after, inner).
template <class C> struct Pass {
  Taps<C> taps;
  bool transposed, bytes;  // bytes: round what is written to such
  int64_t outer, inner, after;

  void operator()(const C* from, C* to) const {
    constexpr bool is_float = std::is_same_v<C, float>;
    if constexpr (is_float)
      (transposed ? resample_transposed_f32 : resample_f32)(taps.table(), from, to, outer, inner);
    else
      (transposed ? resample_transposed_f64 : resample_f64)(taps.table(), from, to, outer, inner);
    for (int64_t i = 0; bytes && i < written(); ++i)
      to[i] =
          static_cast<C>(static_cast<int32_t>(std::min(std::max(to[i] + C(0.5), C(0)), C(255))));
  }
  int64_t written() const { return outer * after * inner; }
};

// The spatial dims of one plane, or of one image of `inner` channels, the last one first (or,
// transposed, last).
template <class C>
std::vector<Pass<C>> passes_of(Dims before, const Dims& after, int64_t inner,
                               const ResampleGeometry& g, bool transposed, bool bytes) {
  std::vector<Pass<C>> passes;
  int dims = static_cast<int>(before.size());
  for (int i = 0; i < dims; ++i) {
    int d = transposed ? i : dims - 1 - i;
    if (bytes && before[d] == after[d]) continue;
    Taps<C> taps = taps_of<C>(transposed ? after[d] : before[d], transposed ? before[d] : after[d],
                              g, d, bytes);
    std::optional<Taps<C>> back = transposed ? turned(taps) : std::nullopt;
    int64_t outer = product({before.data(), d}),
            rest = product({before.data() + d + 1, dims - d - 1}) * inner;
    passes.push_back({back ? *back : taps, transposed && !back, bytes, outer, rest, after[d]});
    before[d] = after[d];
  }
  return passes;
}

Dims spatial_of(const View& v) { return Dims(IntSpan(v.sizes + 2, v.ndim - 2)); }

// Row-major planes, or images whose channels lie side by side. Those of another dtype are converted
// one by one.
template <class C> void run_planes(const View& from, const View& to, int64_t planes,
                                   const std::vector<Pass<C>>& passes) {
  int64_t before = from.numel / planes, after = to.numel / planes, most = before;
  for (const Pass<C>& pass : passes) most = std::max(most, pass.written());
  bool loaded = from.dtype != dtype_of<C>, stored = to.dtype != dtype_of<C>;
  parallel_for(0, planes, default_grain / (2 * most + 1) + 1, [&](int64_t begin, int64_t end) {
    Buffer<C> buffers[2] = {Buffer<C>(most), Buffer<C>(most)}, first(loaded ? before : 0);
    for (int64_t n = begin; n < end; ++n) {
      const char* in = from.ptr<char>() + n * before * itemsize(from.dtype);
      char* out = to.ptr<char>() + n * after * itemsize(to.dtype);
      if (loaded) convert_contiguous(from.dtype, dtype_of<C>, in, first.data(), before);
      const C* now = loaded ? first.data() : reinterpret_cast<const C*>(in);
      for (size_t i = 0; i < passes.size(); ++i) {
        bool last = i + 1 == passes.size() && !stored;
        C* next = last ? reinterpret_cast<C*>(out) : buffers[i % 2].data();
        passes[i](now, next);
        now = next;
      }
      if (stored) convert_contiguous(dtype_of<C>, to.dtype, now, out, after);
    }
  });
}

template <class C> void run(const View& from, const View& to, const ResampleGeometry& g,
                            bool transposed, bool bytes = false) {
  if (from.numel == 0 || to.numel == 0) return;
  bool last = from.dtype == dtype_of<C> && to.dtype == dtype_of<C> && lies_channels_last(from) &&
              lies_channels_last(to);
  int64_t inner = last ? from.sizes[1] : 1, planes = from.sizes[0] * (last ? 1 : from.sizes[1]);
  std::vector<Pass<C>> passes =
      passes_of<C>(spatial_of(from), spatial_of(to), inner, g, transposed, bytes);
  if (passes.empty()) return copy(from, to);
  std::optional<RowMajor> copied, result;
  if (!last && !from.contiguous()) copied.emplace(RowMajor::copy_of(from, from.dtype));
  if (!last && !to.contiguous()) result.emplace(to.shape(), to.dtype);
  run_planes(copied ? copied->view() : from, result ? result->view() : to, planes, passes);
  if (result) copy(result->view(), to);
}

void run_any(const char* op, const View& from, const View& to, const ResampleGeometry& g,
             bool transposed) {
  bool nearest = g.mode == Interpolation::Nearest || g.mode == Interpolation::NearestExact;
  bool bytes = from.dtype == DType::UInt8 && !transposed && from.ndim == 4;
  check_implemented(is_floating(from.dtype) || (nearest && from.dtype == DType::UInt8) || bytes, op,
                    ": not implemented for dtype ", from.dtype);
  // Sums of bytes by 16-bit weights are exact in float32, but for the finer ones of wide filters.
  if (bytes && !nearest && !g.antialias) return run<float>(from, to, g, transposed, true);
  if (bytes && !nearest) return run<double>(from, to, g, transposed, true);
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
