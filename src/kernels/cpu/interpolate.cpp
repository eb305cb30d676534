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
#include "kernels/cpu/resample_bytes.h"
#include "kernels/cpu/resample_loops.h"
#include "kernels/cpu/strip.h"
#include "kernels/cpu/workspace.h"
#include "kernels/resample_taps.h"

namespace rl::kernels {
namespace {

template <class C> TapTable<C> table_of(const Taps<C>& taps) {
  return {taps.in, taps.out, taps.width, taps.place.data(), taps.weight.data()};
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
  bool transposed;
  int64_t outer, inner, after;

  void operator()(const C* from, C* to) const {
    constexpr bool is_float = std::is_same_v<C, float>;
    if constexpr (is_float)
      (transposed ? resample_transposed_f32 : resample_f32)(table_of(taps), from, to, outer, inner);
    else
      (transposed ? resample_transposed_f64 : resample_f64)(table_of(taps), from, to, outer, inner);
  }
  int64_t written() const { return outer * after * inner; }
};

// The spatial dims of one plane, or of one image of `inner` channels, the last one first (or,
// transposed, last).
template <class C>
std::vector<Pass<C>> passes_of(Dims before, const Dims& after, int64_t inner,
                               const ResampleGeometry& g, bool transposed) {
  std::vector<Pass<C>> passes;
  int dims = static_cast<int>(before.size());
  for (int i = 0; i < dims; ++i) {
    int d = transposed ? i : dims - 1 - i;
    Taps<C> taps =
        make_taps<C>(transposed ? after[d] : before[d], transposed ? before[d] : after[d], g, d);
    std::optional<Taps<C>> back = transposed ? turned(taps) : std::nullopt;
    int64_t outer = product({before.data(), d}),
            rest = product({before.data() + d + 1, dims - d - 1}) * inner;
    passes.push_back({back ? *back : taps, transposed && !back, outer, rest, after[d]});
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
                            bool transposed) {
  if (from.numel == 0 || to.numel == 0) return;
  bool last = from.dtype == dtype_of<C> && to.dtype == dtype_of<C> && lies_channels_last(from) &&
              lies_channels_last(to);
  int64_t inner = last ? from.sizes[1] : 1, planes = from.sizes[0] * (last ? 1 : from.sizes[1]);
  std::vector<Pass<C>> passes =
      passes_of<C>(spatial_of(from), spatial_of(to), inner, g, transposed);
  std::optional<RowMajor> copied, result;
  if (!last && !from.contiguous()) copied.emplace(RowMajor::copy_of(from, from.dtype));
  if (!last && !to.contiguous()) result.emplace(to.shape(), to.dtype);
  run_planes(copied ? copied->view() : from, result ? result->view() : to, planes, passes);
  if (result) copy(result->view(), to);
}

// One dim of images of bytes, the sums of which are rounded to bytes.
class BytePass {
 public:
  BytePass(int64_t in, int64_t out, const ResampleGeometry& g, int dim, int64_t outer,
           int64_t inner)
      : outer_(outer), inner_(inner) {
    Taps<double> taps = byte_taps(in, out, g, dim, bits_);
    in_ = in, out_ = out, width_ = taps.width;
    stride_ = (out + ByteTaps::block - 1) / ByteTaps::block * ByteTaps::block;
    first_.resize(static_cast<size_t>(stride_));
    weight_.resize(static_cast<size_t>(stride_ * width_));
    for (int64_t o = 0; o < out; ++o) fill(taps, o);
  }
  void operator()(const uint8_t* from, uint8_t* to, uint8_t* scratch) const {
    resample_bytes(table(), from, to, outer_, inner_, scratch);
  }
  int64_t written() const { return outer_ * out_ * inner_; }
  int64_t scratch() const { return ByteTaps::most_channels * (in_ + width_ + stride_ + 2); }

 private:
  ByteTaps table() const {
    return {in_, out_, width_, stride_, bits_, first_.data(), weight_.data()};
  }
  // The places of an output follow one another, but for those at an edge that count nothing.
  void fill(const Taps<double>& taps, int64_t o) {
    const double* weight = taps.weight.data() + o * width_;
    const int32_t* place = taps.place.data() + o * width_;
    int64_t k = 0;
    while (k + 1 < width_ && weight[k] == 0) ++k;
    int32_t first = first_[static_cast<size_t>(o)] = place[k];
    for (; k < width_; ++k)
      if (weight[k] != 0)
        weight_[static_cast<size_t>((place[k] - first) * stride_ + o)] =
            static_cast<int32_t>(std::ldexp(weight[k], bits_));
  }

  int64_t outer_, inner_, in_, out_, width_, stride_;
  int bits_;
  std::vector<int32_t> first_, weight_;
};

// Images, or where they lie channels_last images of pixels: their width first, as Pillow does.
void run_bytes(const View& from, const View& to, const ResampleGeometry& g) {
  if (from.numel == 0 || to.numel == 0) return;
  bool last = lies_channels_last(from) && lies_channels_last(to);
  if (!last && !(from.contiguous() && to.contiguous())) {
    RowMajor given = RowMajor::copy_of(from, from.dtype), made(to.shape(), to.dtype);
    run_bytes(given.view(), made.view(), g);
    return copy(made.view(), to);
  }
  int64_t inner = last ? from.sizes[1] : 1, planes = from.sizes[0] * (last ? 1 : from.sizes[1]);
  const int64_t *in = from.sizes + 2, *out = to.sizes + 2;
  std::vector<BytePass> passes;
  if (in[1] != out[1]) passes.emplace_back(in[1], out[1], g, 1, in[0], inner);
  if (in[0] != out[0]) passes.emplace_back(in[0], out[0], g, 0, 1, out[1] * inner);
  if (passes.empty()) return copy(from, to);
  int64_t before = from.numel / planes, after = to.numel / planes, scratch = 0;
  for (const BytePass& pass : passes) scratch = std::max(scratch, pass.scratch());
  int64_t grain = default_grain / (2 * std::max(before, passes[0].written()) + 1) + 1;
  parallel_for(0, planes, grain, [&](int64_t begin, int64_t end) {
    Buffer<uint8_t> between(passes[0].written()), work(scratch);
    for (int64_t n = begin; n < end; ++n) {
      const uint8_t* now = from.ptr<uint8_t>() + n * before;
      uint8_t* made = to.ptr<uint8_t>() + n * after;
      passes[0](now, passes.size() == 1 ? made : between.data(), work.data());
      if (passes.size() == 2) passes[1](between.data(), made, work.data());
    }
  });
}

void run_any(const char* op, const View& from, const View& to, const ResampleGeometry& g,
             bool transposed) {
  bool nearest = g.mode == Interpolation::Nearest || g.mode == Interpolation::NearestExact;
  bool bytes = from.dtype == DType::UInt8 && !transposed && from.ndim == 4;
  check_implemented(is_floating(from.dtype) || (nearest && from.dtype == DType::UInt8) || bytes, op,
                    ": not implemented for dtype ", from.dtype);
  if (bytes && !nearest) return run_bytes(from, to, g);
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
