// Images of another size.
#include "dispatch/generated.h"
#include "impl_resample.h"
#include "launch_interpolate.h"
#include "ops_create.h"
#include "ops_reduction.h"
#include "ops_resample.h"
#include "ops_shape.h"
#include "tensor/output_layout.h"

namespace rl {
namespace impl {
namespace {

kernels::ResampleGeometry geometry_of(const std::string& mode, bool align_corners, bool antialias,
                                      const std::vector<double>& scales) {
  kernels::ResampleGeometry g;
  g.mode = mode == "nearest"         ? kernels::Interpolation::Nearest
           : mode == "nearest-exact" ? kernels::Interpolation::NearestExact
           : mode == "bicubic"       ? kernels::Interpolation::Cubic
                                     : kernels::Interpolation::Linear;
  g.align_corners = align_corners;
  g.antialias = antialias;
  check(scales.size() <= 3, "interpolate: at most 3 scales are expected, got ", scales.size());
  for (size_t d = 0; d < scales.size(); ++d) g.scales[d] = scales[d];
  return g;
}

template <class Kernel>
Tensor resampled(const Tensor& input, const Dims& size, const kernels::ResampleGeometry& g,
                 const Kernel& kernel) {
  check(size.size() >= 1 && size.size() <= 3 && size.size() + 2 == input.dim(),
        "interpolate: input of shape ", input.sizes(), " cannot be brought to spatial size ", size);
  Dims sizes{input.sizes()[0], input.sizes()[1]};
  for (int64_t n : size) sizes.push_back(n);
  for (int64_t d = 1; d < input.dim(); ++d)
    check(input.sizes()[d] > 0, "interpolate: Non-empty ", input.dim(),
          "D data tensor expected but got a tensor with sizes ", input.sizes());
  for (int64_t n : size)
    check(n > 0, "interpolate: Input and output sizes should be greater than 0, but got input ",
          input.sizes(), " and output ", sizes);
  Tensor out = empty_suggested(sizes, input, input.dtype());
  kernel(physical(input), physical(out), g);
  return out;
}

kernels::GridSampling sampling_of(const Dims& orders, const std::string& mode,
                                  const std::string& padding_mode, bool align_corners) {
  check(mode == "bilinear" || mode == "nearest" || mode == "bicubic",
        "grid_sample: expected mode bilinear, nearest or bicubic, got ", mode);
  check(padding_mode == "zeros" || padding_mode == "border" || padding_mode == "reflection",
        "grid_sample: expected padding_mode zeros, border or reflection, got ", padding_mode);
  check(mode != "bicubic" || orders.size() == 2,
        "grid_sample: bicubic interpolation only supports 4D input");
  kernels::GridSampling how;
  how.mode = mode == "bilinear"  ? kernels::GridMode::Bilinear
             : mode == "nearest" ? kernels::GridMode::Nearest
                                 : kernels::GridMode::Bicubic;
  how.padding = padding_mode == "zeros"    ? kernels::GridPadding::Zeros
                : padding_mode == "border" ? kernels::GridPadding::Border
                                           : kernels::GridPadding::Reflection;
  how.align_corners = align_corners;
  check(orders.size() <= 3, "grid_sample: expected an order for each column of the grid, got ",
        orders);
  for (int64_t d = 0; d < orders.size(); ++d) how.orders[d] = static_cast<int>(orders[d]);
  return how;
}

void check_grid(const Tensor& images, const Tensor& grid, const Dims& orders) {
  int64_t dims = images.dim() - 2;
  check(images.dtype() == grid.dtype(),
        "grid_sample: expected input and grid to have the same dtype but got ", images.dtype(),
        " and ", grid.dtype());
  check((dims == 2 || dims == 3) && grid.dim() == images.dim() && grid.size(-1) == dims &&
            orders.size() == dims,
        "grid_sample: expected a 4D or 5D input, and a grid of as many dims whose last has size ",
        dims, ", but got shapes ", images.sizes(), " and ", grid.sizes());
  check(grid.sizes()[0] == images.sizes()[0],
        "grid_sample: expected grid and input to have same batch size, but got shapes ",
        images.sizes(), " and ", grid.sizes());
}

}  // namespace

Tensor grid_sample_kernel(const Tensor& input, const Tensor& grid, const Dims& orders,
                          const std::string& mode, const std::string& padding_mode,
                          bool align_corners) {
  check_grid(input, grid, orders);
  if (is_reduced(input.dtype()))
    return ops::to(grid_sample_kernel(ops::to(input, DType::Float32), ops::to(grid, DType::Float32),
                                      orders, mode, padding_mode, align_corners),
                   input.dtype());
  for (int64_t d = 2; d < input.dim(); ++d)
    check(input.sizes()[d] > 0,
          "grid_sample: expected input to have non-empty spatial dimensions, but got shape ",
          input.sizes());
  Dims sizes{input.sizes()[0], input.sizes()[1]};
  for (int64_t d = 1; d + 1 < grid.dim(); ++d) sizes.push_back(grid.sizes()[d]);
  Tensor out = rl::empty(sizes, options(input));
  Tensor x = ops::contiguous(input), places = ops::contiguous(grid);
  launch::grid_sample(x, places, out, sampling_of(orders, mode, padding_mode, align_corners));
  return out;
}

Tensor grid_sample_adjoint(const Tensor& grad, const Tensor& grid, const Dims& size,
                           const Dims& orders, const std::string& mode,
                           const std::string& padding_mode, bool align_corners) {
  check_grid(grad, grid, orders);
  if (is_reduced(grad.dtype()))
    return ops::to(grid_sample_adjoint(ops::to(grad, DType::Float32), ops::to(grid, DType::Float32),
                                       size, orders, mode, padding_mode, align_corners),
                   grad.dtype());
  check(size.size() == orders.size(), "grid_sample_adjoint: expected ", orders.size(),
        " sizes, got ", size);
  Dims sizes{grad.sizes()[0], grad.sizes()[1]};
  for (int64_t n : size) sizes.push_back(n);
  for (int64_t d = 1; d + 1 < grid.dim(); ++d)
    check(grid.sizes()[d] == grad.sizes()[d + 1], "grid_sample_adjoint: values of shape ",
          grad.sizes(), " do not fit a grid of shape ", grid.sizes());
  Tensor out = rl::empty(sizes, options(grad));
  Tensor values = ops::contiguous(grad), places = ops::contiguous(grid);
  launch::grid_scatter(values, places, out, sampling_of(orders, mode, padding_mode, align_corners));
  return out;
}

Tensor interpolate_kernel(const Tensor& input, const Dims& size, const std::string& mode,
                          bool align_corners, bool antialias, const std::vector<double>& scales) {
  return resampled(input, size, geometry_of(mode, align_corners, antialias, scales),
                   launch::interpolate);
}
Tensor interpolate_gradient(const Tensor& grad, const Dims& size, const std::string& mode,
                            bool align_corners, bool antialias, const std::vector<double>& scales) {
  return resampled(grad, size, geometry_of(mode, align_corners, antialias, scales),
                   launch::interpolate_backward);
}

}  // namespace impl

namespace grad {

// By each column: the samples with one more derivative by it, weighed and summed over the channels.
Tensor grid_gradient(const Tensor& values, const Tensor& images, const Tensor& grid,
                     const Dims& orders, const std::string& mode, const std::string& padding_mode,
                     bool align_corners) {
  if (mode == "nearest") return ops::zeros_like(grid);
  if (!grad_enabled() && !is_reduced(grid.dtype())) {
    Tensor out = rl::empty(grid.sizes(), options(grid));
    Tensor weights = ops::contiguous(values), x = ops::contiguous(images),
           places = ops::contiguous(grid);
    launch::grid_slopes(weights, x, places, out,
                        impl::sampling_of(orders, mode, padding_mode, align_corners));
    return out;
  }
  TensorList columns;
  for (int64_t d = 0; d < orders.size(); ++d) {
    Dims more = orders;
    ++more[d];
    Tensor slope = ops::grid_sample_kernel(images, grid, more, mode, padding_mode, align_corners);
    columns.push_back(ops::sum(values * slope, Dims{1}, false));
  }
  return ops::stack(columns, -1);
}
Dims spatial_of(const Dims& sizes) { return Dims(IntSpan(sizes.data() + 2, sizes.size() - 2)); }
}  // namespace grad
}  // namespace rl
