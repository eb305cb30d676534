// Convolutions and transposed convolutions over 1, 2 or 3 spatial dims.
//
// An input may come as a formula instead of elements: its view, channels_last, then has no data.
// Where no kernel evaluates the formula as it reads, nothing happens and the result is false: the
// caller computes the elements and calls again.
//
// Views are batched: input (N, C, *), output (N, O, *), weight (O, C / groups, *), or for a
// transposed convolution weight (C, O / groups, *). Any strides; channels_last input and output are
// read and written in place, other layouts cost a reorder. float32 and bfloat16 run in kernels of
// their own, float16 as float32; every other dtype (all but bool) as im2col and matrix products.
#pragma once
#include "core/view.h"
#include "kernels/strip_formula.h"

namespace rl::kernels {

struct ConvGeometry {
  int dims = 2;  // spatial dims; the arrays below are valid up to here
  int64_t stride[3] = {1, 1, 1};
  int64_t padding[3] = {0, 0, 0};
  int64_t dilation[3] = {1, 1, 1};
  int64_t output_padding[3] = {0, 0, 0};  // transposed only
  int64_t groups = 1;
  bool transposed = false;
};

// Sizes of the output. Throws what torch throws for shapes and parameters that do not fit, so that
// after it the kernels below need not check. `bias` is nullptr where there is none.
Dims conv_output_sizes(IntSpan input, IntSpan weight, const IntSpan* bias,
                       const ConvGeometry& geometry);

bool conv_forward(const View& input, const View& weight, const View* bias, const View& out,
                  const ConvGeometry& geometry, const StripFormula* formula = nullptr);
void conv_backward_input(const View& grad_out, const View& weight, const View& grad_input,
                         const ConvGeometry& geometry);
// grad_bias (O) may be nullptr.
bool conv_backward_weight(const View& grad_out, const View& input, const View& grad_weight,
                          const View* grad_bias, const ConvGeometry& geometry,
                          const StripFormula* formula = nullptr);

}  // namespace rl::kernels
