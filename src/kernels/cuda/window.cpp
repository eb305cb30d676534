// Sliding windows: unfold and fold, convolutions as products with unfolded images, pooling.
#include "kernels/cuda/device/window.h"

#include <algorithm>

#include "kernels/conv.h"
#include "kernels/cuda/channels.h"
#include "kernels/cuda/cudnn.h"
#include "kernels/cuda/launch.h"
#include "kernels/gemm.h"
#include "kernels/pooling.h"
#include "kernels/reduce.h"
#include "kernels/unfold.h"

namespace rl::cuda {

RL_CUDA_KERNEL(gemm);
RL_CUDA_KERNEL(sum);

namespace {

using kernels::ConvGeometry;
using kernels::PoolGeometry;
using kernels::WindowGeometry;

constexpr const char* header = "kernels/cuda/device/window.cuh";
constexpr int64_t column_bytes = int64_t(256) << 20;  // of scratch memory for unfolded images

KernelTemplate unfolds(header), folds(header), max_pools(header), placed(header), avg_pools(header),
    avg_gradients(header), adaptive_avgs(header), adaptive_gradients(header), adaptive_maxs(header);

uint64_t of(DType t) { return static_cast<uint64_t>(t); }

void unfold_some(const Context& context, const View& images, const Columns& columns,
                 const Window& w, int64_t first, int64_t n) {
  int device = context.device.index;
  CUfunction f = unfolds.get(of(images.dtype), device, "unfold",
                             [&] { return instance("unfold_images", images.dtype); });
  int64_t total = n * images.sizes[1];
  for (int d = 0; d < w.dims; ++d) total *= w.kernel[d] * w.out[d];
  if (total)
    launch_elements(f, device, "unfold", total, strided_as_is(images, "unfold"), columns, w, first,
                    n);
}
void fold_some(const Context& context, const Columns& columns, const View& images, const Window& w,
               int64_t first, int64_t n) {
  int device = context.device.index;
  CUfunction f = folds.get(of(images.dtype), device, "fold",
                           [&] { return instance("fold_columns", images.dtype); });
  int64_t total = n * images.sizes[1];
  for (int d = 0; d < w.dims; ++d) total *= w.in[d];
  if (total)
    launch_elements(f, device, "fold", total, columns, strided_as_is(images, "fold"), w, first, n);
}

// ---- convolution: the weight (P, I / groups * taps) takes images of I channels, unfolded, to
// positions of P channels. An ordinary convolution goes that way, a transposed one the other.

class Convolution {
 public:
  Convolution(const Context& context, const View& image, const View& position, const View& weight,
              const ConvGeometry& g)
      : context_(context), image_(image), position_(position) {
    use(context.device.index);
    w_ = Window{};
    w_.dims = g.dims;
    for (int d = 0; d < g.dims; ++d) {
      w_.kernel[d] = weight.sizes[2 + d];
      w_.stride[d] = g.stride[d];
      w_.padding[d] = g.padding[d];
      w_.dilation[d] = g.dilation[d];
      w_.in[d] = image.sizes[2 + d];
      w_.out[d] = position.sizes[2 + d];
      taps_ *= w_.kernel[d];
      places_ *= w_.out[d];
    }
    groups_ = g.groups;
    rows_ = position.sizes[1] / groups_;
    depth_ = image.sizes[1] / groups_ * taps_;
    batch_ = image.sizes[0];
    int64_t each = image.sizes[1] * taps_ * places_ * itemsize(image.dtype);
    part_ = std::clamp<int64_t>(each ? column_bytes / each : 1, 1, std::max<int64_t>(batch_, 1));
  }

  // position = weight * unfolded image (+ bias)
  void to_positions(const View& weight, const View* bias) {
    if (!position_.numel) return;
    Contiguous w(context_, weight, image_.dtype);
    ContiguousResult out(context_, position_);
    Scratch memory(column_memory(), context_.device.index);
    int64_t row = places_, batch = image_.sizes[1] * taps_ * places_;
    for (int64_t first = 0; first < batch_; first += part_) {
      int64_t n = std::min(part_, batch_ - first);
      unfold_some(context_, image_, {memory.get(), batch, row, 1}, w_, first, n);
      for (int64_t g = 0; g < groups_; ++g) {
        View a = matrix(w.data(), g * rows_ * depth_, {n, rows_, depth_}, {0, depth_, 1}, 0);
        View b = matrix(memory.get(), g * depth_ * places_, {n, depth_, places_},
                        {batch, places_, 1}, 1);
        int64_t channels = position_.sizes[1];
        View c = matrix(out.data(), (first * channels + g * rows_) * places_, {n, rows_, places_},
                        {channels * places_, places_, 1}, 2);
        if (!bias) {
          gemm(context_, a, b, c, {}, nullptr);
          continue;
        }
        View added = matrix(bias->data, g * rows_ * bias->strides[0], {n, rows_, places_},
                            {0, bias->strides[0], 0}, 3);
        kernels::GemmScale scale;
        scale.beta = 1;
        gemm(context_, a, b, c, scale, &added);
      }
    }
    out.finish();
  }

  // image = folded weight^T * position
  void to_images(const View& weight) {
    if (!image_.numel) return;
    if (!position_.numel) return fill(context_, image_, Scalar(0));
    Contiguous w(context_, weight, image_.dtype), from(context_, position_);
    Scratch memory(column_memory(), context_.device.index);
    int64_t batch = image_.sizes[1] * taps_ * places_, channels = position_.sizes[1];
    for (int64_t first = 0; first < batch_; first += part_) {
      int64_t n = std::min(part_, batch_ - first);
      for (int64_t g = 0; g < groups_; ++g) {
        View a = matrix(w.data(), g * rows_ * depth_, {n, depth_, rows_}, {0, 1, depth_}, 0);
        View b = matrix(from.data(), (first * channels + g * rows_) * places_, {n, rows_, places_},
                        {channels * places_, places_, 1}, 1);
        View c = matrix(memory.get(), g * depth_ * places_, {n, depth_, places_},
                        {batch, places_, 1}, 2);
        gemm(context_, a, b, c, {}, nullptr);
      }
      fold_some(context_, {memory.get(), batch, places_, 1}, image_, w_, first, n);
    }
  }

  // weight = sum over the batch of position * unfolded image^T: one product whose depth is the
  // batch and the positions.
  void to_weight(const View& weight) {
    if (!weight.numel) return;
    ContiguousResult out(context_, weight);
    if (!position_.numel || !image_.numel) {
      fill(context_, out.view(), Scalar(0));
      return out.finish();
    }
    Contiguous from(context_, position_);
    Scratch memory(column_memory(), context_.device.index);
    int64_t channels = position_.sizes[1];
    for (int64_t first = 0; first < batch_; first += part_) {
      int64_t n = std::min(part_, batch_ - first);
      Columns columns{memory.get(), places_, n * places_, 1};
      unfold_some(context_, image_, columns, w_, first, n);
      // (P, n, positions), so that both factors have one step along the depth.
      ScratchView turned(Dims{channels, n, places_}, position_.dtype, context_.device.index);
      View given = matrix(from.data(), first * channels * places_, {channels, n, places_},
                          {places_, channels * places_, 1}, 0);
      copy(context_, given, turned);
      for (int64_t g = 0; g < groups_; ++g) {
        View a = matrix(turned.view().data, g * rows_ * n * places_, {rows_, n * places_},
                        {n * places_, 1}, 0);
        View b = matrix(memory.get(), g * depth_ * n * places_, {n * places_, depth_},
                        {1, n * places_}, 1);
        View c = matrix(out.data(), g * rows_ * depth_, {rows_, depth_}, {depth_, 1}, 2);
        kernels::GemmScale scale;
        scale.beta = first ? 1 : 0;
        gemm(context_, a, b, c, scale, nullptr);
      }
    }
    out.finish();
  }

 private:
  size_t column_memory() const {
    return static_cast<size_t>(part_ * image_.sizes[1] * taps_ * places_ * itemsize(image_.dtype));
  }
  // One of a few views at a time, by `place`.
  View matrix(void* data, int64_t offset, Dims sizes, Dims strides, int place) {
    sizes_[place] = std::move(sizes);
    strides_[place] = std::move(strides);
    return {static_cast<char*>(data) + offset * itemsize(image_.dtype),
            sizes_[place].data(),
            strides_[place].data(),
            sizes_[place].size(),
            product(sizes_[place]),
            image_.dtype,
            context_.device};
  }

  const Context& context_;
  const View &image_, &position_;
  Window w_;
  int64_t taps_ = 1, places_ = 1, groups_, rows_, depth_, batch_, part_;
  Dims sizes_[4], strides_[4];
};

// bias (C) is added to out (N, C, *).

void sum_channels(const Context& context, const View& grad_out, const View& grad_bias) {
  Dims sizes(grad_out.ndim, 1), strides(grad_out.ndim, 0);
  sizes[1] = grad_out.sizes[1];
  strides[1] = grad_bias.strides[0];
  View to{grad_bias.data,  sizes.data(),    strides.data(),  grad_out.ndim,
          grad_bias.numel, grad_bias.dtype, grad_bias.device};
  sum(context, grad_out, to);
}

}  // namespace

bool conv_forward(const Context& context, const View& input, const View& weight, const View* bias,
                  const View& out, const ConvGeometry& g, const kernels::StripFormula* formula) {
  if (formula) return false;
  bool done = g.transposed
                  ? cudnn_convolution(context, ConvolutionOf::Images, out, input, weight, g)
                  : cudnn_convolution(context, ConvolutionOf::Positions, input, out, weight, g);
  if (!done && !g.transposed) {
    Convolution(context, input, out, weight, g).to_positions(weight, bias);
    return true;
  }
  if (!done) Convolution(context, out, input, weight, g).to_images(weight);
  if (bias && out.numel) add_to_channels(context, out, *bias);
  return true;
}
void conv_backward_input(const Context& context, const View& grad_out, const View& weight,
                         const View& grad_input, const ConvGeometry& g) {
  if (g.transposed) {
    if (!cudnn_convolution(context, ConvolutionOf::Positions, grad_out, grad_input, weight, g))
      Convolution(context, grad_out, grad_input, weight, g).to_positions(weight, nullptr);
  } else if (!cudnn_convolution(context, ConvolutionOf::Images, grad_input, grad_out, weight, g)) {
    Convolution(context, grad_input, grad_out, weight, g).to_images(weight);
  }
}
bool conv_backward_weight(const Context& context, const View& grad_out, const View& input,
                          const View& grad_weight, const View* grad_bias, const ConvGeometry& g,
                          const kernels::StripFormula* formula) {
  if (formula) return false;
  const View &images = g.transposed ? grad_out : input,
             &positions = g.transposed ? input : grad_out;
  if (!cudnn_convolution(context, ConvolutionOf::Weight, images, positions, grad_weight, g))
    Convolution(context, images, positions, grad_weight, g).to_weight(grad_weight);
  if (grad_bias) sum_channels(context, grad_out, *grad_bias);
  return true;
}

namespace {
Window window_of(const View& images, const WindowGeometry& g) {
  Window w{};
  w.dims = g.dims;
  for (int d = 0; d < g.dims; ++d) {
    w.kernel[d] = g.kernel[d];
    w.stride[d] = g.stride[d];
    w.padding[d] = g.padding[d];
    w.dilation[d] = g.dilation[d];
    w.in[d] = images.sizes[2 + d];
    w.out[d] = g.count[d] ? g.count[d]
                          : kernels::window_count(w.in[d], w.kernel[d], w.stride[d], w.padding[d],
                                                  w.dilation[d]);
  }
  return w;
}
Columns columns_of(const View& v) { return {v.data, v.strides[0], v.strides[1], v.strides[2]}; }

Window pool_window(const View& input, const View& out, const PoolGeometry& g) {
  Window w{};
  w.dims = g.dims;
  for (int d = 0; d < g.dims; ++d) {
    w.kernel[d] = g.kernel[d];
    w.stride[d] = g.stride[d];
    w.padding[d] = g.padding[d];
    w.dilation[d] = g.dilation[d];
    w.in[d] = input.sizes[input.ndim - g.dims + d];
    w.out[d] = out.sizes[out.ndim - g.dims + d];
  }
  return w;
}
Window adaptive_window(const View& input, const View& out, int dims) {
  PoolGeometry g;
  g.dims = dims;
  return pool_window(input, out, g);
}
}  // namespace

void unfold(const Context& context, const View& images, const View& columns,
            const WindowGeometry& g) {
  use(context.device.index);
  unfold_some(context, images, columns_of(columns), window_of(images, g), 0, images.sizes[0]);
}
void fold(const Context& context, const View& columns, const View& images,
          const WindowGeometry& g) {
  use(context.device.index);
  fold_some(context, columns_of(columns), images, window_of(images, g), 0, images.sizes[0]);
}

#define RL_LAUNCH(templates, kernel, dtype, op, count, ...)                              \
  {                                                                                      \
    int device = context.device.index;                                                   \
    use(device);                                                                         \
    if (count) {                                                                         \
      CUfunction f =                                                                     \
          templates.get(of(dtype), device, op, [&] { return instance(kernel, dtype); }); \
      launch_elements(f, device, op, count, __VA_ARGS__);                                \
    }                                                                                    \
  }

void max_pool(const Context& context, const View& input, const View& out, const View* indices,
              const PoolGeometry& g) {
  Strided to = indices ? strided_as_is(*indices, "max_pool") : Strided{};
  RL_LAUNCH(max_pools, "max_pool_forward", input.dtype, "max_pool", out.numel,
            strided_as_is(input, "max_pool"), strided_as_is(out, "max_pool"), to,
            pool_window(input, out, g))
}
namespace {
void place(const Context& context, const View& from, const View& indices, const View& to, int dims,
           bool set, const char* op) {
  int device = context.device.index;
  use(device);
  fill(context, to, Scalar(0));
  if (!from.numel) return;
  // The two may differ in dtype: sums are kept in that of the result.
  Contiguous given(context, from, to.dtype);
  CUfunction f = placed.get(of(to.dtype) * 2 + set, device, op,
                            [&] { return instance("place_by_index", to.dtype, set); });
  View same = given.view();
  launch_elements(f, device, op, from.numel, strided_as_is(same, op), strided_as_is(indices, op),
                  strided_as_is(to, op), dims, faults(device, op));
}
}  // namespace
void max_pool_backward(const Context& context, const View& grad_out, const View& indices,
                       const View& grad_input, int dims) {
  place(context, grad_out, indices, grad_input, dims, false, "max_pool_backward");
}
void max_unpool(const Context& context, const View& input, const View& indices, const View& out,
                int dims) {
  place(context, input, indices, out, dims, true, "max_unpool");
}
void avg_pool(const Context& context, const View& input, const View& out, const PoolGeometry& g,
              bool include_padding, int64_t divisor) {
  AverageArgs a{include_padding, divisor};
  RL_LAUNCH(avg_pools, "avg_pool_forward", input.dtype, "avg_pool", out.numel,
            strided_as_is(input, "avg_pool"), strided_as_is(out, "avg_pool"),
            pool_window(input, out, g), a)
}
void avg_pool_backward(const Context& context, const View& grad_out, const View& grad_input,
                       const PoolGeometry& g, bool include_padding, int64_t divisor) {
  AverageArgs a{include_padding, divisor};
  RL_LAUNCH(avg_gradients, "avg_pool_gradient", grad_input.dtype, "avg_pool_backward",
            grad_input.numel, strided_as_is(grad_out, "avg_pool"),
            strided_as_is(grad_input, "avg_pool"), pool_window(grad_input, grad_out, g), a)
}
void adaptive_avg_pool(const Context& context, const View& input, const View& out, int dims) {
  RL_LAUNCH(adaptive_avgs, "adaptive_avg_forward", input.dtype, "adaptive_avg_pool", out.numel,
            strided_as_is(input, "adaptive_avg_pool"), strided_as_is(out, "adaptive_avg_pool"),
            adaptive_window(input, out, dims))
}
void adaptive_avg_pool_backward(const Context& context, const View& grad_out,
                                const View& grad_input, int dims) {
  RL_LAUNCH(
      adaptive_gradients, "adaptive_avg_gradient", grad_input.dtype, "adaptive_avg_pool_backward",
      grad_input.numel, strided_as_is(grad_out, "adaptive_avg_pool"),
      strided_as_is(grad_input, "adaptive_avg_pool"), adaptive_window(grad_input, grad_out, dims))
}
void adaptive_max_pool(const Context& context, const View& input, const View& out,
                       const View& indices, int dims) {
  RL_LAUNCH(adaptive_maxs, "adaptive_max_forward", input.dtype, "adaptive_max_pool", out.numel,
            strided_as_is(input, "adaptive_max_pool"), strided_as_is(out, "adaptive_max_pool"),
            strided_as_is(indices, "adaptive_max_pool"), adaptive_window(input, out, dims))
}
#undef RL_LAUNCH

}  // namespace rl::cuda
