// Convolutions of one pixel as plain matrix products, on the matrix unit.
#include <cstring>
#include <optional>
#include <utility>

#include "kernels/cpu/channels_last.h"
#include "kernels/cpu/conv_problem.h"
#include "kernels/cpu/gemm_tiles.h"
#include "kernels/cpu/units.h"
#include "kernels/cpu/workspace.h"
#include "kernels/gemm.h"

namespace rl::kernels {
namespace {

// A batch of matrices, or one, that lie in given memory.
class Matrices {
 public:
  Matrices(const View& v, int64_t count, int64_t rows, int64_t columns, int64_t step, int64_t row,
           int64_t column)
      : sizes_{count, rows, columns},
        strides_{step, row, column},
        view_{v.data, sizes_, strides_, 3, count * rows * columns, v.dtype} {}
  Matrices(const Matrices&) = delete;

  const View& view() const { return view_; }
  const View& transposed() {
    std::swap(sizes_[1], sizes_[2]);
    std::swap(strides_[1], strides_[2]);
    return view_;
  }

 private:
  int64_t sizes_[3], strides_[3];
  View view_;
};

// Images (pixels, channels): one matrix of all where both kinds lie channels_last.
struct PixelSizes {
  int64_t images, pixels;
};
Matrices pixels_of(const View& v, const PixelSizes& size) {
  int64_t channels = v.sizes[1], image = size.pixels * channels;
  return lies_channels_last(v)
             ? Matrices(v, size.images, size.pixels, channels, image, channels, 1)
             : Matrices(v, size.images, size.pixels, channels, image, 1, size.pixels);
}

void weight_gradient(const ConvProblem& p, const View& large, const View& small,
                     const View& weight) {
  ChannelsLast seen(large, true), gradients(small, true);
  int64_t pixels = small.numel / p.filters;
  View x = large, g = small;
  x.data = seen.data<void>(), g.data = gradients.data<void>();
  Matrices a(g, 1, p.filters, pixels, 0, 1, p.filters),
      b(x, 1, pixels, p.channels, 0, p.channels, 1);
  gemm(a.view(), b.view(),
       Matrices(weight, 1, p.filters, p.channels, 0, weight.strides[0], weight.strides[1]).view());
}

// The pixels that a strided convolution of one pixel sees, as a convolution of stride 1 has them.
bool strided_conv(ConvOp op, ConvProblem p, const View& large, const View& small,
                  const View& weight, const View* bias) {
  if (op == ConvOp::Scatter && bias) return false;
  Dims sizes(small.shape()), steps;
  sizes[1] = p.channels;
  for (int64_t i = 0; i < large.ndim; ++i)
    steps.push_back(large.strides[i] * (i < 2 ? 1 : p.stride[i - 2]));
  int64_t numel = small.numel / p.filters * p.channels;
  View seen{large.data, sizes.data(), steps.data(), large.ndim, numel, large.dtype};
  Dims strides = channels_last_strides(seen.shape());
  Workspace memory(numel * itemsize(large.dtype));
  View near = seen;
  near.data = memory.data(), near.strides = strides.data();
  for (int i = 0; i < p.dims; ++i) p.stride[i] = 1, p.large[i] = p.small[i];
  if (op != ConvOp::Scatter) copy(seen, near);
  if (!pointwise_conv(op, p, near, small, weight, bias, nullptr)) return false;
  if (op == ConvOp::Scatter) {
    std::memset(large.data, 0, static_cast<size_t>(large.numel * itemsize(large.dtype)));
    copy(near, seen);
  }
  return true;
}

}  // namespace

bool pointwise_conv(ConvOp op, const ConvProblem& p, const View& large, const View& small,
                    const View& weight, const View* bias, const StripFormula* formula) {
  if (!has_matrix_unit() || p.groups != 1 || !large.numel || !small.numel || !weight.numel)
    return false;
  bool strided = false;
  for (int i = 0; i < p.dims; ++i) {
    if (p.kernel[i] != 1 || p.padding[i] != 0) return false;
    strided = strided || p.stride[i] != 1;
  }
  if (!lies_without_gaps(large) || !lies_without_gaps(small)) return false;
  bool scatter = op == ConvOp::Scatter, last = lies_channels_last(small);
  last = last && (strided || lies_channels_last(large));
  PixelSizes size{p.batch, small.numel / (p.batch * p.filters)};
  if (last) size = {1, p.batch * size.pixels};
  int64_t inputs = scatter ? p.filters : p.channels, outputs = scatter ? p.channels : p.filters;
  if (op == ConvOp::Weight
          ? !is_for_unit(large.dtype, p.filters, p.channels, small.numel / p.filters)
          : !is_for_unit(large.dtype, size.pixels, outputs, inputs))
    return false;
  if (formula) {
    if (!lies_channels_last(large)) return false;
    Buffer<float> evaluated(large.numel);
    formula->fill(large.numel, evaluated.data(), true);
    View seen = large;
    seen.data = evaluated.data();
    return pointwise_conv(op, p, seen, small, weight, bias, nullptr);
  }
  if (strided) return strided_conv(op, p, large, small, weight, bias);
  if (op == ConvOp::Weight) {
    weight_gradient(p, large, small, weight);
    return true;
  }
  Matrices filters(weight, size.images, p.filters, p.channels, 0, weight.strides[0],
                   weight.strides[1]);
  const View &from = scatter ? small : large, &to = scatter ? large : small;
  GemmScale scale;
  std::optional<Matrices> added;
  if (bias) {
    scale.beta = 1;
    added.emplace(*bias, size.images, size.pixels, outputs, 0, 0, bias->strides[0]);
  }
  gemm(pixels_of(from, size).view(), scatter ? filters.view() : filters.transposed(),
       pixels_of(to, size).view(), scale, added ? &added->view() : nullptr);
  return true;
}

}  // namespace rl::kernels
