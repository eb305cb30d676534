// Pooling.

#include "dispatch/generated.h"
#include "impl_pooling.h"
#include "kernels/unfold.h"
#include "launch_copy.h"
#include "launch_pooling.h"
#include "launch_reduce.h"
#include "ops_basic.h"
#include "ops_indexing.h"
#include "ops_pooling.h"
#include "ops_shape.h"
#include "tensor/output_layout.h"

namespace rl {

// Of the interface of kernels: numbers, sizes and dtypes, nothing that a backend computes.
using kernels::check_window;
using kernels::pool_output_sizes;

namespace {

kernels::PoolGeometry geometry_of(const char* op, const Dims& kernel_size, const Dims& stride,
                                  const Dims& padding, const Dims& dilation, bool ceil_mode) {
  kernels::PoolGeometry g;
  g.dims = static_cast<int>(kernel_size.size());
  check(g.dims >= 1 && g.dims <= 3 && stride.size() == g.dims && padding.size() == g.dims &&
            dilation.size() == g.dims,
        op, ": kernel_size ", kernel_size, ", stride ", stride, ", padding ", padding,
        " and dilation ", dilation, " must agree in length");
  check_window(op, "kernel_size", kernel_size);
  check_window(op, "stride", stride);
  check_window(op, "padding", padding);
  check_window(op, "dilation", dilation);
  for (int d = 0; d < g.dims; ++d) {
    g.kernel[d] = kernel_size[d];
    g.stride[d] = stride[d];
    g.padding[d] = padding[d];
    g.dilation[d] = dilation[d];
  }
  g.ceil_mode = ceil_mode;
  return g;
}

Dims adaptive_sizes(const char* op, const Tensor& input, const Dims& output_size) {
  int64_t dims = output_size.size();
  check(input.dim() == dims + 1 || input.dim() == dims + 2, op, ": Expected ", dims + 1, "D or ",
        dims + 2, "D tensor, but got ", input.sizes());
  Dims sizes = input.sizes();
  for (int64_t d = 0; d < dims; ++d) {
    int64_t at = input.dim() - dims + d;
    check(input.sizes()[at] > 0, op,
          ": Expected input to have non-zero size for non-batch dimensions, but input has sizes ",
          input.sizes());
    check(output_size[d] >= 0, op,
          ": elements of output_size must be greater than or equal to 0, got ", output_size);
    sizes[at] = output_size[d];
  }
  return sizes;
}

// Whether `t`, of lines, images or volumes with a batch dim, keeps its channels side by side; of
// volumes, one without a batch dim too, as in torch.
bool has_channels_last(const Tensor& t, int64_t dims) {
  if (t.impl()->standard_strides) return false;
  if (dims == 3 && t.dim() == 4) {
    Tensor one = ops::unsqueeze(t, 0);
    return is_channels_last(one.sizes(), one.strides());
  }
  if (t.dim() != dims + 2) return false;
  MemoryFormat format = dims == 1 ? suggested_format_of_lines(t) : suggested_format(t);
  return format != MemoryFormat::Contiguous;
}

// A result in physical layout where `like` lies so: pooling keeps the channels where they are.
Tensor empty_pooled(const Dims& sizes, const Tensor& like, int64_t dims, DType dtype) {
  TensorOptions wanted = options(like, dtype);
  if (has_physical_layout(like)) return empty_channels_last(sizes, wanted);
  if (!has_channels_last(like, dims)) return rl::empty(sizes, wanted);
  if (sizes.size() == dims + 2) return empty_strided(sizes, channels_last_strides(sizes), wanted);
  Dims whole = sizes;
  whole.insert(0, 1);
  return ops::squeeze(empty_strided(whole, channels_last_strides(whole), wanted), Dims{0});
}
// What torch keeps contiguous in any case.
Tensor empty_unless_physical(const Dims& sizes, const Tensor& like) {
  return has_physical_layout(like) ? empty_channels_last(sizes, options(like))
                                   : rl::empty(sizes, options(like));
}

bool is_global(const Dims& sizes, int64_t dims) {
  for (int64_t d = sizes.size() - dims; d < sizes.size(); ++d)
    if (sizes[d] != 1) return false;
  return true;
}

}  // namespace

namespace impl {

namespace {
std::array<Tensor, 2> largest(const Tensor& input, const kernels::PoolGeometry& g, bool places) {
  Dims sizes = pool_output_sizes(input.sizes(), g, "max_pool");
  Tensor values = empty_pooled(sizes, input, g.dims, input.dtype()), indices;
  if (places) indices = empty_pooled(sizes, input, g.dims, DType::Int64);
  launch::max_pool(physical(input), physical(values), physical(indices), g);
  return {values, indices};
}
}  // namespace

std::array<Tensor, 2> max_pool_kernel(const Tensor& input, const Dims& kernel_size,
                                      const Dims& stride, const Dims& padding, const Dims& dilation,
                                      bool ceil_mode) {
  return largest(input, geometry_of("max_pool", kernel_size, stride, padding, dilation, ceil_mode),
                 true);
}

Tensor max_pool_values(const Tensor& input, const Dims& kernel_size, const Dims& stride,
                       const Dims& padding, const Dims& dilation, bool ceil_mode) {
  return largest(input, geometry_of("max_pool", kernel_size, stride, padding, dilation, ceil_mode),
                 false)[0];
}

Tensor max_pool_gradient(const Tensor& grad, const Tensor& indices, const Dims& size,
                         int64_t ndim) {
  bool channels_last = has_physical_layout(indices);
  Tensor out = channels_last ? empty_channels_last(size, options(grad))
                             : empty_pooled(size, indices, ndim, grad.dtype()),
         g = in_order(grad, channels_last);
  launch::max_pool_backward(physical(g), physical(indices), physical(out), static_cast<int>(ndim));
  return out;
}

Tensor max_unpool_kernel(const Tensor& input, const Tensor& indices, const Dims& size,
                         int64_t ndim) {
  check(indices.dtype() == DType::Int64,
        "max_unpool: elements in indices should be type int64 but got: ", indices.dtype());
  check(input.sizes() == indices.sizes(),
        "max_unpool: Expected shape of indices to be same as that of the input tensor (",
        input.sizes(), ") but got indices tensor with shape: ", indices.sizes());
  check(ndim >= 1 && ndim <= 3 && input.dim() >= ndim && size.size() == input.dim(),
        "max_unpool: an output of shape ", size, " does not go with ", ndim,
        " spatial dims and input of shape ", input.sizes());
  for (int64_t d = 0; d < input.dim() - ndim; ++d)
    check(size[d] == input.sizes()[d], "max_unpool: an output of shape ", size,
          " does not go with input of shape ", input.sizes());
  Tensor out =
      ndim == 2 ? empty_pooled(size, input, ndim, input.dtype()) : rl::empty(size, options(input));
  launch::max_unpool(input, indices, out, static_cast<int>(ndim));
  return out;
}

Tensor avg_pool_kernel(const Tensor& input, const Dims& kernel_size, const Dims& stride,
                       const Dims& padding, bool ceil_mode, bool count_include_pad,
                       int64_t divisor_override) {
  kernels::PoolGeometry g =
      geometry_of("avg_pool", kernel_size, stride, padding, Dims(kernel_size.size(), 1), ceil_mode);
  Dims sizes = pool_output_sizes(input.sizes(), g, "avg_pool");
  Tensor out = g.dims == 3 ? empty_unless_physical(sizes, input)
                           : empty_pooled(sizes, input, g.dims, input.dtype());
  launch::avg_pool(physical(input), physical(out), g, count_include_pad, divisor_override);
  return out;
}

Tensor avg_pool_gradient(const Tensor& grad, const Dims& size, const Dims& kernel_size,
                         const Dims& stride, const Dims& padding, bool ceil_mode,
                         bool count_include_pad, int64_t divisor_override) {
  kernels::PoolGeometry g =
      geometry_of("avg_pool", kernel_size, stride, padding, Dims(kernel_size.size(), 1), ceil_mode);
  Tensor out = empty_pooled(size, grad, g.dims, grad.dtype());
  launch::avg_pool_backward(physical(grad), physical(out), g, count_include_pad, divisor_override);
  return out;
}

Tensor adaptive_avg_pool_kernel(const Tensor& input, const Dims& output_size) {
  Dims sizes = adaptive_sizes("adaptive_avg_pool", input, output_size);
  int64_t dims = output_size.size();
  bool channels_last = has_physical_layout(input), global = is_global(sizes, dims);
  Tensor out = dims == 3 && !(global && input.dim() == 5)
                   ? empty_unless_physical(sizes, input)
                   : empty_pooled(sizes, input, dims, input.dtype());
  if (global && channels_last) {
    launch::sum(physical(input), out);
    ops::div_(out, wrap_number(Scalar(input.numel() / out.numel())));
    return out;
  }
  launch::adaptive_avg_pool(physical(input), physical(out), static_cast<int>(dims));
  return out;
}

Tensor adaptive_avg_pool_gradient(const Tensor& grad, const Dims& size, const Dims& output_size,
                                  bool channels_last) {
  if (channels_last && is_global(grad.sizes(), output_size.size())) {
    Tensor out = empty_channels_last(size, options(grad)),
           share = grad *
                   Scalar(static_cast<double>(grad.numel()) / static_cast<double>(product(size)));
    launch::copy(ops::expand(share, size), physical(out));
    return out;
  }
  Tensor out = empty_pooled(size, grad, output_size.size(), grad.dtype());
  launch::adaptive_avg_pool_backward(physical(grad), physical(out),
                                     static_cast<int>(output_size.size()));
  return out;
}

std::array<Tensor, 2> adaptive_max_pool_kernel(const Tensor& input, const Dims& output_size) {
  Dims sizes = adaptive_sizes("adaptive_max_pool", input, output_size);
  for (int64_t d = 1; d < input.dim(); ++d)
    check(input.sizes()[d] > 0,
          "adaptive_max_pool: Expected input to have non-zero size for non-batch dimensions, but "
          "input has sizes ",
          input.sizes());
  int64_t dims = output_size.size();
  auto result = [&](DType dtype) {
    return dims == 3 || has_physical_layout(input) ? rl::empty(sizes, options(input, dtype))
                                                   : empty_pooled(sizes, input, dims, dtype);
  };
  Tensor values = result(input.dtype()), indices = result(DType::Int64);
  launch::adaptive_max_pool(input, values, indices, static_cast<int>(dims));
  return {values, indices};
}

}  // namespace impl

namespace grad {

using namespace ops;

int64_t length(const Dims& dims) { return dims.size(); }
Dims or_else(const std::optional<Dims>& stride, const Dims& kernel_size) {
  return stride && !stride->empty() ? *stride : kernel_size;
}
int64_t checked_divisor(std::optional<int64_t> divisor) {
  check(!divisor || *divisor != 0, "avg_pool: divisor must be not zero");
  return divisor.value_or(0);
}
Tensor first(const std::array<Tensor, 2>& pair) { return pair[0]; }

// The elements at places counted within planes of the last ndim dims.
Tensor gather_planes(const Tensor& t, const Tensor& indices, int64_t ndim) {
  Dims planes(IntSpan(t.sizes().data(), t.dim() - ndim)), wanted = planes;
  planes.push_back(-1);
  wanted.push_back(product(IntSpan(indices.sizes().data() + indices.dim() - ndim, ndim)));
  if (indices.numel() == 0) return zeros_of(t, indices.sizes());
  return reshape(gather(reshape(t, planes), -1, reshape(indices, wanted)), indices.sizes());
}

}  // namespace grad
}  // namespace rl
