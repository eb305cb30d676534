// Convolutions of every dtype as columns of windows and matrix products.
#include <cstring>

#include "core/parallel.h"
#include "kernels/cpu/conv_problem.h"
#include "kernels/cpu/workspace.h"
#include "kernels/gemm.h"
#include "kernels/unfold.h"

namespace rl::kernels {
namespace {

// The views that one image and one group contribute, owned with their sizes and strides.
struct Piece {
  Dims sizes, strides;
  View view;
  Piece(void* data, Dims sizes_, Dims strides_, DType dtype)
      : sizes(std::move(sizes_)),
        strides(std::move(strides_)),
        view{data, sizes.data(), strides.data(), sizes.size(), product(sizes), dtype} {}
  Piece(const Piece&) = delete;
};

int64_t spatial_size(const int64_t* sizes, int dims) { return product(IntSpan(sizes, dims)); }

WindowGeometry windows_of(const ConvProblem& p) {
  WindowGeometry g;
  g.dims = p.dims;
  for (int i = 0; i < p.dims; ++i) {
    g.kernel[i] = p.kernel[i];
    g.stride[i] = p.stride[i];
    g.padding[i] = p.padding[i];
    g.dilation[i] = p.dilation[i];
    g.count[i] = p.small[i];  // fewer than fit where output_padding exceeds the stride
  }
  return g;
}

// Row-major tensors of a problem, one image and one group at a time.
class Grouped {
 public:
  Grouped(const ConvProblem& p, DType dtype, void* large, void* small, void* weight)
      : p_(p),
        geometry_(windows_of(p)),
        dtype_(dtype),
        size_(itemsize(dtype)),
        large_(static_cast<char*>(large)),
        small_(static_cast<char*>(small)),
        weight_(static_cast<char*>(weight)),
        channels_(p.channels / p.groups),
        filters_(p.filters / p.groups),
        taps_(channels_ * spatial_size(p.kernel, p.dims)),
        positions_(spatial_size(p.small, p.dims)) {}

  int64_t columns_bytes() const { return taps_ * positions_ * size_; }

  void run(ConvOp op, int64_t image, int64_t group, void* columns_data, bool first) const {
    Dims sizes{1, channels_};
    for (int i = 0; i < p_.dims; ++i) sizes.push_back(p_.large[i]);
    int64_t plane = spatial_size(p_.large, p_.dims);
    Piece large(large_ + (image * p_.channels + group * channels_) * plane * size_, sizes,
                contiguous_strides(sizes), dtype_);
    Piece small(small_ + (image * p_.filters + group * filters_) * positions_ * size_,
                {filters_, positions_}, {positions_, 1}, dtype_);
    Piece weight(weight_ + group * filters_ * taps_ * size_, {filters_, taps_}, {taps_, 1}, dtype_);
    Piece weight_t(weight.view.data, {taps_, filters_}, {1, taps_}, dtype_);
    Piece columns(columns_data, {taps_, positions_}, {positions_, 1}, dtype_);
    Piece columns_t(columns_data, {positions_, taps_}, {1, positions_}, dtype_);
    Piece batch(columns_data, {1, taps_, positions_}, {taps_ * positions_, positions_, 1}, dtype_);
    if (op != ConvOp::Scatter) unfold(large.view, batch.view, geometry_);
    switch (op) {
      case ConvOp::Gather: return gemm(weight.view, columns.view, small.view);
      case ConvOp::Weight: return gemm(small.view, columns_t.view, weight.view, {1, first ? 0 : 1});
      case ConvOp::Scatter: gemm(weight_t.view, small.view, columns.view);
    }
    fold(batch.view, large.view, geometry_);
  }

 private:
  const ConvProblem& p_;
  WindowGeometry geometry_;
  DType dtype_;
  int64_t size_;
  char *large_, *small_, *weight_;
  int64_t channels_, filters_, taps_, positions_;
};

}  // namespace

void generic_conv(ConvOp op, const ConvProblem& p, const View& large, const View& small,
                  const View& weight) {
  auto input = [&](const View& v, ConvOp writer) {
    return op == writer ? RowMajor(v.shape(), v.dtype) : RowMajor::copy_of(v, v.dtype);
  };
  RowMajor l = input(large, ConvOp::Scatter), s = input(small, ConvOp::Gather),
           w = input(weight, ConvOp::Weight);
  if (op == ConvOp::Weight && p.batch == 0)
    std::memset(w.view().data, 0, w.view().numel * itemsize(large.dtype));
  Grouped grouped(p, large.dtype, l.view().data, s.view().data, w.view().data);
  // Weight gradients sum over the images, so only groups are independent.
  int64_t images = op == ConvOp::Weight ? 1 : p.batch, summed = op == ConvOp::Weight ? p.batch : 1;
  parallel_for(0, images * p.groups, 1, [&](int64_t begin, int64_t end) {
    Workspace columns(grouped.columns_bytes());
    for (int64_t i = begin; i < end; ++i)
      for (int64_t n = 0; n < summed; ++n)
        grouped.run(op, i / p.groups + n, i % p.groups, columns.data(), n == 0);
  });
  const View& out = op == ConvOp::Gather ? small : op == ConvOp::Scatter ? large : weight;
  copy((op == ConvOp::Gather ? s : op == ConvOp::Scatter ? l : w).view(), out);
}

}  // namespace rl::kernels
