// Elements around an image, and images as columns of blocks.

#include <algorithm>

#include "autograd/geometry.h"
#include "dispatch/generated.h"
#include "impl_padding.h"
#include "launch_padding.h"
#include "launch_unfold.h"
#include "ops_create.h"
#include "ops_padding.h"
#include "ops_shape.h"
#include "tensor/output_layout.h"

namespace rl {

// Of the interface of kernels: numbers, sizes and dtypes, nothing that a backend computes.
using kernels::check_window;
using kernels::window_count;

namespace impl {
namespace {

kernels::WindowGeometry geometry_of(const Dims& kernel, const Dims& dilation, const Dims& padding,
                                    const Dims& stride) {
  kernels::WindowGeometry g;
  for (int d = 0; d < 2; ++d) {
    g.kernel[d] = kernel[d];
    g.dilation[d] = dilation[d];
    g.padding[d] = padding[d];
    g.stride[d] = stride[d];
  }
  return g;
}

void check_pair(const char* op, const char* what, const Dims& numbers) {
  check(numbers.size() == 2, op, ": expected ", what, " to be one or two numbers but got ",
        numbers);
  check_window(op, what, numbers);
}

void check_blocks(const char* op, const Dims& kernel, const Dims& dilation, const Dims& padding,
                  const Dims& stride) {
  check_pair(op, "kernel_size", kernel);
  check_pair(op, "dilation", dilation);
  check_pair(op, "padding", padding);
  check_pair(op, "stride", stride);
  for (int d = 0; d < 2; ++d) {
    check(kernel[d] > 0, op, ": kernel size should be greater than zero, but got ", kernel);
    check(dilation[d] > 0, op, ": dilation should be greater than zero, but got ", dilation);
    check(padding[d] >= 0, op, ": padding should be non-negative, but got ", padding);
    check(stride[d] > 0, op, ": stride should be greater than zero, but got ", stride);
  }
}

// Which element of a dim of `size` stands at each place after padding.
std::vector<int64_t> padded_offsets(const std::string& mode, int64_t size, int64_t before,
                                    int64_t after) {
  const int64_t count = size + before + after;
  std::vector<int64_t> places(static_cast<size_t>(count));
  // What negative padding cuts off is gone before anything wraps around.
  int64_t first = std::max<int64_t>(-before, 0), kept = size - first - std::max<int64_t>(-after, 0);
  auto fill = [&](int64_t begin, int64_t end, auto place) {
    for (int64_t i = begin; i < end; ++i) places[static_cast<size_t>(i)] = place(i - before);
  };
  auto fill_around = [&](auto place) {  // what stands where it stood
    const int64_t begin = std::clamp<int64_t>(before, 0, count),
                  end = std::clamp(before + first + kept, begin, count);
    fill(0, begin, place);
    fill(begin, end, [](int64_t at) { return at; });
    fill(end, count, place);
  };
  if (mode == "replicate")
    fill_around([=](int64_t at) { return std::clamp<int64_t>(at, 0, size - 1); });
  else if (mode == "circular")
    fill_around([=](int64_t at) { return first + ((at - first) % kept + kept) % kept; });
  else
    fill_around([=](int64_t at) { return at < 0 ? -at : at >= size ? 2 * (size - 1) - at : at; });
  return places;
}

kernels::PaddedOffsets padded_offsets(const Dims& sizes, const Dims& pad, const std::string& mode) {
  kernels::PaddedOffsets places;
  for (int64_t i = pad.size() / 2 - 1; i >= 0; --i)
    places.push_back(padded_offsets(mode, sizes[sizes.size() - 1 - i], pad[2 * i], pad[2 * i + 1]));
  return places;
}

}  // namespace

Tensor pad_kernel(const Tensor& input, const Dims& pad, const std::string& mode) {
  Dims sizes = input.sizes();
  for (int64_t i = 0; i < pad.size() / 2; ++i)
    sizes[sizes.size() - 1 - i] += pad[2 * i] + pad[2 * i + 1];
  Tensor out = mode == "circular" ? rl::empty(sizes, options(input))
                                  : empty_suggested(sizes, input, input.dtype());
  if (out.numel()) launch::pad(input, padded_offsets(input.sizes(), pad, mode), out);
  return out;
}

Tensor pad_backward(const Tensor& grad, const Dims& size, const Dims& pad,
                    const std::string& mode) {
  if (!grad.numel()) return ops::zeros(size, grad.dtype(), {}, grad.device());
  Tensor out = rl::empty(size, options(grad));
  launch::pad_backward(grad, padded_offsets(size, pad, mode), out);
  return out;
}

Tensor unfold_kernel(const Tensor& input, const Dims& kernel, const Dims& dilation,
                     const Dims& padding, const Dims& stride) {
  kernels::WindowGeometry g = geometry_of(kernel, dilation, padding, stride);
  for (int d = 0; d < 2; ++d) {
    g.count[d] = window_count(input.sizes()[2 + d], kernel[d], stride[d], padding[d], dilation[d]);
    check(g.count[d] > 0, "unfold: Given input with spatial size ", input.sizes(),
          ", kernel_size=", kernel, ", dilation=", dilation, ", padding=", padding,
          ", the array of sliding blocks must have at least one block in each dim");
  }
  int64_t rows = product(Dims{input.sizes()[1], kernel[0], kernel[1]}),
          blocks = product(Dims{g.count[0], g.count[1]});
  Tensor out = rl::empty(Dims{input.sizes()[0], rows, blocks}, options(input));
  launch::unfold(input, out, g);
  return out;
}

Tensor fold_kernel(const Tensor& input, const Dims& output_size, const Dims& kernel,
                   const Dims& dilation, const Dims& padding, const Dims& stride) {
  kernels::WindowGeometry g = geometry_of(kernel, dilation, padding, stride);
  Tensor out = rl::empty(Dims{input.sizes()[0], input.sizes()[1] / (kernel[0] * kernel[1]),
                              output_size[0], output_size[1]},
                         options(input));
  launch::fold(input, out, g);
  return out;
}

}  // namespace impl

void check_padded(const Tensor& input, const std::string& mode, const Dims& pad) {
  int64_t ndim = input.dim(), dims = pad.size() / 2;
  check_implemented(mode == "reflect" || mode == "replicate" || mode == "circular",
                    "pad: Unrecognised padding mode ", mode);
  bool fits = dims >= 1 && dims <= 3 && (ndim == dims + 1 || ndim == dims + 2);
  check_implemented(fits, "pad: Padding size ", pad.size(), " is not supported for ", ndim,
                    "D input tensor: non-constant padding takes 2 values for 2D or 3D input, 4 for "
                    "3D or 4D, 6 for 4D or 5D");
  for (int64_t d = 1; d < ndim; ++d)
    check(input.sizes()[d] > 0 || (ndim == dims + 2 && d == 0), "pad: expected ", ndim,
          "D input with non-zero sizes but for the batch, got shape ", input.sizes());
  for (int64_t i = 0; i < dims; ++i) {
    int64_t size = input.sizes()[ndim - 1 - i], before = pad[2 * i], after = pad[2 * i + 1];
    check(mode != "reflect" || (before < size && after < size),
          "pad: Padding size should be less than the corresponding input dimension, but got: "
          "padding (",
          before, ", ", after, ") at dimension ", ndim - 1 - i, " of input ", input.sizes());
    check(mode != "circular" || (before <= size && after <= size),
          "pad: Padding value causes wrapping around more than once.");
    int64_t kept = size + std::min<int64_t>(before, 0) + std::min<int64_t>(after, 0);
    check(mode != "circular" || kept > 0 || size + before + after == 0, "pad: padding (", before,
          ", ", after, ") leaves nothing of size ", size, " to wrap around");
    check(size + before + after > 0 || (mode == "circular" && size + before + after == 0),
          "pad: input ", input.sizes(), " is too small for padding ", pad);
  }
}

void check_image_blocks(const Tensor& input, const Dims& kernel_size, const Dims& dilation,
                        const Dims& padding, const Dims& stride) {
  check_index(input.dim() >= 3,
              "unfold: Dimension out of range (expected 3D or 4D input, but got shape ",
              input.sizes(), ")");
  bool batched = input.dim() == 4;
  check(input.dim() <= 4, "unfold: Expected 3D or 4D (batch mode) tensor, but got shape ",
        input.sizes());
  impl::check_blocks("unfold", kernel_size, dilation, padding, stride);
  for (int64_t d = batched ? 1 : 0; d < input.dim(); ++d)
    check(input.sizes()[d] > 0,
          "unfold: Expected 3D or 4D (batch mode) tensor with non-zero dimensions for input, but "
          "got: ",
          input.sizes());
}

void check_columns(const Tensor& input, const Dims& output_size, const Dims& kernel_size,
                   const Dims& dilation, const Dims& padding, const Dims& stride) {
  impl::check_blocks("fold", kernel_size, dilation, padding, stride);
  bool batched = input.dim() == 3;
  check(batched || input.dim() == 2,
        "fold: Expected 2D or 3D (batch mode) tensor for input, but got: ", input.sizes());
  int64_t rows = input.size(-2), columns = input.size(-1);
  check(rows > 0 && columns > 0,
        "fold: Expected non-zero dimensions for input, but got: ", input.sizes());
  impl::check_pair("fold", "output_size", output_size);
  int64_t area = kernel_size[0] * kernel_size[1], blocks = 1;
  check(rows % area == 0,
        "fold: Expected size of input's dimension 1 to be divisible by the product of kernel_size, "
        "but got ",
        rows, " and kernel_size=", kernel_size);
  for (int d = 0; d < 2; ++d)
    blocks *= window_count(output_size[d], kernel_size[d], stride[d], padding[d], dilation[d]);
  check(blocks > 0 && columns == blocks, "fold: Given output_size=", output_size,
        ", kernel_size=", kernel_size, ", dilation=", dilation, ", padding=", padding,
        ", stride=", stride, ", expected ", blocks, " sliding blocks, but got input of shape ",
        input.sizes());
}

}  // namespace rl
