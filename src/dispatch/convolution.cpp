// Convolutions.
#include <algorithm>

#include "dispatch/generated.h"
#include "dispatch/lazy_expression.h"
#include "impl_convolution.h"
#include "kernels/unfold.h"
#include "launch_conv.h"
#include "ops_convolution.h"
#include "ops_reduction.h"
#include "ops_shape.h"
#include "tensor/output_layout.h"

namespace rl {

// Of the interface of kernels: numbers, sizes and dtypes, nothing that a backend computes.
using kernels::check_window;
using kernels::conv_output_sizes;

namespace {

kernels::ConvGeometry geometry_of(const Dims& stride, const Dims& padding, const Dims& dilation,
                                  bool transposed, const Dims& output_padding, int64_t groups) {
  kernels::ConvGeometry g;
  g.dims = static_cast<int>(stride.size());
  check(g.dims >= 1 && g.dims <= 3, "convolution: expected 1 to 3 spatial dims, got stride ",
        stride);
  check(padding.size() == g.dims && dilation.size() == g.dims && output_padding.size() == g.dims,
        "convolution: stride ", stride, ", padding ", padding, ", dilation ", dilation,
        " and output_padding ", output_padding, " must have one entry for each spatial dim");
  for (int d = 0; d < g.dims; ++d) {
    g.stride[d] = stride[d];
    g.padding[d] = padding[d];
    g.dilation[d] = dilation[d];
    g.output_padding[d] = output_padding[d];
  }
  g.groups = groups;
  g.transposed = transposed;
  return g;
}

bool says_channels_last(const Tensor& t) { return suggested_format(t) != MemoryFormat::Contiguous; }

// Channels_last in earnest if an operand is, but for volumes of float64, as in torch; else those of
// float32 and bfloat16 read and write channels_last behind plain strides, and others take the order
// in which results are asked for.
Tensor empty_result(const Dims& sizes, const Tensor& a, const Tensor& b) {
  bool last = says_channels_last(a) || says_channels_last(b);
  if (last && !(sizes.size() == 5 && a.dtype() == DType::Float64))
    return empty_strided(sizes, channels_last_strides(sizes), options(a));
  if (suggested_format_of_lines(b) != MemoryFormat::Contiguous)  // lines follow the weight alone
    return empty_strided(sizes, channels_last_strides(sizes), options(a));
  bool physical = a.dtype() == DType::Float32 || a.dtype() == DType::BFloat16;
  return physical ? empty_channels_last(sizes, options(a)) : rl::empty(sizes, options(a));
}

void check_conv_dtypes(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  check(input.dtype() == weight.dtype(), "convolution: Input type (", input.dtype(),
        ") and weight type (", weight.dtype(), ") should be the same");
  check(!bias.defined() || bias.dtype() == input.dtype(), "convolution: Input type (",
        input.dtype(), ") and bias type (", bias.defined() ? bias.dtype() : input.dtype(),
        ") should be the same");
}

// Calls f(view, formula) of an input: first, if it is lazy and costs no more to compute than to
// read, without its elements, which are computed only if f then returns false.
template <class F> void with_input(const Tensor& input, F&& f) {
  std::optional<LazyExpression> lazy = lazy_expression(input);
  if (lazy && lazy->streams() == 1) {
    Dims strides = channels_last_strides(input.sizes());
    View nowhere{nullptr,       input.sizes().data(), strides.data(), input.dim(),
                 input.numel(), input.dtype(),        input.device()};
    if (f(nowhere, &lazy->formula())) return;
  }
  lazy.reset();  // so that the elements may take the memory of its operand
  f(PhysicalView(input).view(), nullptr);
}

}  // namespace

namespace impl {

Tensor convolution(const Tensor& input, const Tensor& weight, const Tensor& bias,
                   const Dims& stride, const Dims& padding, const Dims& dilation, bool transposed,
                   const Dims& output_padding, int64_t groups) {
  check_conv_dtypes(input, weight, bias);
  kernels::ConvGeometry g =
      geometry_of(stride, padding, dilation, transposed, output_padding, groups);
  IntSpan bias_sizes;
  if (bias.defined()) bias_sizes = bias.sizes();
  Dims sizes =
      conv_output_sizes(input.sizes(), weight.sizes(), bias.defined() ? &bias_sizes : nullptr, g);
  Tensor out = empty_result(sizes, input, weight);
  with_input(input, [&](const View& view, const kernels::StripFormula* lazy) {
    return launch::conv_forward(view, weight, bias, physical(out), g, lazy);
  });
  return out;
}

Tensor convolution_input(const Tensor& grad, const Tensor& weight, const Dims& size,
                         const Dims& stride, const Dims& padding, const Dims& dilation,
                         bool transposed, const Dims& output_padding, int64_t groups) {
  Tensor out = empty_result(size, grad, weight);
  kernels::ConvGeometry g =
      geometry_of(stride, padding, dilation, transposed, output_padding, groups);
  launch::conv_backward_input(physical(grad), weight, physical(out), g);
  return out;
}

Tensor convolution_weight(const Tensor& grad, const Tensor& input, const Dims& size,
                          const Dims& stride, const Dims& padding, const Dims& dilation,
                          bool transposed, const Dims& output_padding, int64_t groups) {
  bool pointwise = product(IntSpan(size.data() + 2, size.size() - 2)) == 1;  // plain is both
  bool last = !pointwise && (says_channels_last(grad) || says_channels_last(input));
  Tensor out = last ? empty_result(size, grad, input) : rl::empty(size, options(grad));
  kernels::ConvGeometry g =
      geometry_of(stride, padding, dilation, transposed, output_padding, groups);
  with_input(input, [&](const View& view, const kernels::StripFormula* lazy) {
    return launch::conv_backward_weight(physical(grad), view, out, nullptr, g, lazy);
  });
  return out;
}

}  // namespace impl

namespace grad {

using namespace ops;

namespace {
// Adds a batch of one where there is none.
template <class F> Tensor batched(const char* op, int64_t dims, const Tensor& input, F&& f) {
  check(input.dim() == dims + 1 || input.dim() == dims + 2, op, ": Expected ", dims + 1,
        "D (unbatched) or ", dims + 2, "D (batched) input, but got input of size: ", input.sizes());
  if (input.dim() == dims + 2) return f(input);
  return squeeze(f(unsqueeze(input, 0)), Dims{0});
}
}  // namespace

Tensor convolve(int64_t dims, const Tensor& input, const Tensor& weight, const Tensor& bias,
                const Dims& stride, const Dims& padding, const Dims& dilation, int64_t groups) {
  return batched("conv", dims, input, [&](const Tensor& x) {
    return convolution(x, weight, bias, stride, padding, dilation, false, Dims(dims, 0), groups);
  });
}

Tensor convolve_named(int64_t dims, const Tensor& input, const Tensor& weight, const Tensor& bias,
                      const Dims& stride, const std::string& padding, const Dims& dilation,
                      int64_t groups) {
  check(padding == "valid" || padding == "same", "Invalid padding string: '", padding, "'");
  if (padding == "valid")
    return convolve(dims, input, weight, bias, stride, Dims(dims, 0), dilation, groups);
  check(weight.dim() == dims + 2, "conv: expected a ", dims + 2, "D weight, got ", weight.sizes());
  for (int64_t s : stride)
    check(s == 1, "padding='same' is not supported for strided convolutions");
  check_window("conv", "dilation", dilation);
  // What does not divide evenly goes to the end.
  Dims even(dims), extra;
  bool uneven = false;
  for (int64_t d = 0; d < dims; ++d) {
    int64_t total = dilation[d] * (weight.sizes()[d + 2] - 1);
    even[d] = total / 2;
    uneven = uneven || total % 2;
  }
  if (!uneven) return convolve(dims, input, weight, bias, stride, even, dilation, groups);
  for (int64_t d = dims - 1; d >= 0; --d) {
    extra.push_back(0);
    extra.push_back(dilation[d] * (weight.sizes()[d + 2] - 1) % 2);
  }
  return convolve(dims, constant_pad_nd(input, extra, Scalar(0)), weight, bias, stride, even,
                  dilation, groups);
}

Tensor convolve_transposed(int64_t dims, const Tensor& input, const Tensor& weight,
                           const Tensor& bias, const Dims& stride, const Dims& padding,
                           const Dims& output_padding, int64_t groups, const Dims& dilation) {
  return batched("conv_transpose", dims, input, [&](const Tensor& x) {
    return convolution(x, weight, bias, stride, padding, dilation, true, output_padding, groups);
  });
}

}  // namespace grad
}  // namespace rl
