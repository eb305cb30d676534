// Functions that gradient formulas use and that are no ops of their own. All are differentiable.
#pragma once
#include <array>
#include <optional>
#include <string>

#include "autograd/node.h"
#include "core/scalar.h"
#include "tensor/tensor.h"

namespace rl::grad {

// A number that was given for a tensor: by itself it would count in the default dtype, so that the
// `1 - weight` of a float64 gradient would be rounded to float32.
Tensor tensor_of_number(const Tensor& number, DType dtype);
inline Tensor number_in(const Tensor& t, const Tensor& grad) {
  bool precise = grad.dtype() == DType::Float64 || grad.dtype() == DType::Complex128;
  bool number = t.defined() && t.impl()->wrapped_number;
  return number && precise && grad_enabled() ? tensor_of_number(t, grad.dtype()) : t;
}
Tensor relu_backward(const Tensor& grad, const Tensor& out);
Tensor scale(const Tensor& grad, const Scalar& factor);  // grad itself where the factor is 1
// Sums over the dims that a broadcast to grad's shape made or widened.
Tensor sum_to(const Tensor& grad, IntSpan sizes);
// Puts back dims that a reduction dropped (dims empty: all) and broadcasts to `sizes`.
Tensor expand_reduced(const Tensor& t, IntSpan dims, bool keepdim, IntSpan sizes);
Tensor unsqueeze_all(const Tensor& t, IntSpan dims, int64_t ndim);
Dims dims_or_all(const std::optional<Dims>& dims);
Tensor zeros_of(const Tensor& like, IntSpan sizes);
Tensor values_at(const Tensor& t, const TensorList& indices);

// Views: zeros with grad where the view looks.
Tensor permute_backward(const Tensor& grad, const Dims& dims);
Tensor as_strided_backward(const Tensor& grad, const OutputMeta& base, const Dims& base_strides,
                           int64_t base_offset, IntSpan sizes, IntSpan strides,
                           std::optional<int64_t> offset);
Tensor unfold_backward(const Tensor& grad, IntSpan sizes, int64_t dimension, int64_t size,
                       int64_t step);
TensorList cat_backward(const Tensor& grad, const std::vector<OutputMeta>& inputs, int64_t dim);

Tensor channel_unshuffle(const Tensor& grad, int64_t groups);
Tensor roll_backward(const Tensor& grad, Dims shifts, const Dims& dims);
Tensor repeat_backward(const Tensor& grad, const Dims& repeats, IntSpan sizes);

// Reductions. `dims` empty: all.
int64_t count_reduced(IntSpan sizes, IntSpan dims);
inline std::optional<Scalar> correction_of(bool unbiased) { return Scalar(unbiased ? 1 : 0); }
inline Dims dims_of(int64_t dim) { return Dims{dim}; }
inline int64_t turned_back(int64_t right_angles) { return -(right_angles % 4); }
inline Dims negated(Dims values) {
  for (int64_t& v : values) v = -v;
  return values;
}

// Writing at computed places.
Tensor masked_scatter_source(const Tensor& grad, const Tensor& mask, IntSpan sizes);

Tensor grid_gradient(const Tensor& values, const Tensor& images, const Tensor& grid,
                     const Dims& orders, const std::string& mode, const std::string& padding_mode,
                     bool align_corners);
Dims spatial_of(const Dims& sizes);  // of (N, C, *)

// Convolutions over `dims` spatial dims; unbatched inputs pass too.
Tensor convolve(int64_t dims, const Tensor& input, const Tensor& weight, const Tensor& bias,
                const Dims& stride, const Dims& padding, const Dims& dilation, int64_t groups);
Tensor convolve_named(int64_t dims, const Tensor& input, const Tensor& weight, const Tensor& bias,
                      const Dims& stride, const std::string& padding, const Dims& dilation,
                      int64_t groups);
Tensor convolve_transposed(int64_t dims, const Tensor& input, const Tensor& weight,
                           const Tensor& bias, const Dims& stride, const Dims& padding,
                           const Dims& output_padding, int64_t groups, const Dims& dilation);

// Pooling.
int64_t length(const Dims& dims);
Dims or_else(const std::optional<Dims>& stride, const Dims& kernel_size);
int64_t checked_divisor(std::optional<int64_t> divisor);
Tensor first(const std::array<Tensor, 2>& pair);
Tensor gather_planes(const Tensor& t, const Tensor& indices, int64_t ndim);

// Of the input, the first states, the weights and the biases of a layer with its input's product.
// The last four are made where they are wanted, both biases' together.
std::array<Tensor, 7> recurrent_gradients(
    const Tensor& grad_output, const Tensor& grad_cells, const Tensor& grad_gates,
    const Tensor& input, const Tensor& hidden, const Tensor& cell, const Tensor& w_ih,
    const Tensor& w_hh, const Tensor& b_ih, const Tensor& b_hh, const Tensor& output,
    const Tensor& cells, const Tensor& gates, const std::string& mode, const Dims& batch_sizes,
    bool reverse, bool of_input, bool of_w_ih, bool of_w_hh, bool of_biases);
// Of query, key and value of the attention kernel.
std::array<Tensor, 3> attention_gradients(const Tensor& grad, const Tensor& query,
                                          const Tensor& key, const Tensor& value,
                                          const Tensor& mask, const Tensor& kept,
                                          const Tensor& output, const Tensor& log_sum,
                                          bool is_causal, double scale, double kept_scale);
// Normalisation: of input, weight and bias, undefined where it is not wanted.
std::array<Tensor, 3> batch_norm_gradients(const Tensor& grad, const Tensor& input,
                                           const Tensor& weight, const Tensor& mean,
                                           const Tensor& invstd, bool training, double eps,
                                           bool of_input, bool of_weight, bool of_bias);
std::array<Tensor, 3> layer_norm_gradients(const Tensor& grad, const Tensor& input,
                                           const Dims& size, const Tensor& mean, const Tensor& rstd,
                                           const Tensor& weight, double eps, bool of_input,
                                           bool of_weight, bool of_bias);
std::array<Tensor, 3> rms_norm_gradients(const Tensor& grad, const Tensor& input, const Dims& size,
                                         const Tensor& rstd, const Tensor& weight, double eps,
                                         bool of_input, bool of_weight);
std::array<Tensor, 3> group_norm_gradients(const Tensor& grad, const Tensor& input,
                                           int64_t num_groups, const Tensor& mean,
                                           const Tensor& rstd, const Tensor& weight, double eps,
                                           bool of_input, bool of_weight, bool of_bias);

// Raises: of one input of an op that has gradients for the others. `what` names both.
Tensor missing_gradient(const char* what);

int64_t hstack_dim(const Tensor& t);  // 1, or 0 of a vector
Tensor in_order(const Tensor& t);     // a copy in row-major order

// Elements.
Scalar checked_alpha(const Scalar& alpha);  // of celu: not 0

}  // namespace rl::grad
