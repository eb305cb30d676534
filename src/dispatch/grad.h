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

Tensor repeat_backward(const Tensor& grad, const Dims& repeats, IntSpan sizes);
Tensor trace_backward(const Tensor& grad, IntSpan sizes);

// Reductions. `dims` empty: all.
int64_t count_reduced(IntSpan sizes, IntSpan dims);
Tensor extreme_backward(const Tensor& grad, const Tensor& input, const Tensor& out, const Dims& dim,
                        bool keepdim);
Tensor median_backward(const Tensor& grad, const Tensor& input, const Tensor& out);
Tensor prod_backward(const Tensor& grad, const Tensor& input);
Tensor prod_dim_backward(const Tensor& grad, const Tensor& input, int64_t dim, bool keepdim);
Tensor var_backward(const Tensor& grad, const Tensor& input, const std::optional<Dims>& dim,
                    const std::optional<Scalar>& correction, bool keepdim);
Tensor std_backward(const Tensor& grad, const Tensor& input, const Tensor& out,
                    const std::optional<Dims>& dim, const std::optional<Scalar>& correction,
                    bool keepdim);
Tensor norm_backward(const Tensor& grad, const Tensor& input, const Tensor& out, const Scalar& ord,
                     const Dims& dims, bool keepdim);
Tensor logsumexp_backward(const Tensor& grad, const Tensor& input, const Tensor& out,
                          const Dims& dim, bool keepdim);
Tensor cumprod_backward(const Tensor& grad, const Tensor& input, int64_t dim);
Tensor logcumsumexp_backward(const Tensor& grad, const Tensor& input, const Tensor& out,
                             int64_t dim);

inline std::optional<Scalar> correction_of(bool unbiased) { return Scalar(unbiased ? 1 : 0); }
inline Dims dims_of(int64_t dim) { return Dims{dim}; }
inline Dims negated(Dims values) {
  for (int64_t& v : values) v = -v;
  return values;
}

// Writing at computed places.
Tensor expand_index(const Tensor& index, int64_t dim, const Tensor& like);
Tensor scatter_reduce_input(const Tensor& grad, const Tensor& input, int64_t dim,
                            const Tensor& index, const Tensor& src, const Tensor& out,
                            const std::string& reduce, bool include_self);
Tensor scatter_reduce_src(const Tensor& grad, const Tensor& input, int64_t dim, const Tensor& index,
                          const Tensor& src, const Tensor& out, const std::string& reduce,
                          bool include_self);
Tensor index_reduce_input(const Tensor& grad, const Tensor& input, int64_t dim, const Tensor& index,
                          const Tensor& source, const Tensor& out, const std::string& reduce,
                          bool include_self);
Tensor index_reduce_source(const Tensor& grad, const Tensor& input, int64_t dim,
                           const Tensor& index, const Tensor& source, const Tensor& out,
                           const std::string& reduce, bool include_self);
Tensor index_fill_value(const Tensor& grad, int64_t dim, const Tensor& index);
Tensor index_copy_source(const Tensor& grad, int64_t dim, const Tensor& index, IntSpan sizes);
Tensor masked_scatter_source(const Tensor& grad, const Tensor& mask, IntSpan sizes);

Tensor embedding_second(const Tensor& grad, const Tensor& indices, int64_t padding_idx,
                        bool scale_grad_by_freq);
Tensor embedding_bag_second(const Tensor& grad, const Tensor& indices, const Tensor& offsets,
                            const std::string& mode, const Tensor& weights, int64_t padding_idx,
                            bool scale_grad_by_freq, const Tensor& places);
Tensor embedding_bag_second_weights(const Tensor& grad, const Tensor& grad_output,
                                    const Tensor& indices, const Tensor& offsets,
                                    int64_t padding_idx, bool scale_grad_by_freq);
Tensor bag_sum(const Tensor& weight, const Tensor& indices, const Tensor& offsets,
               const Tensor& weights, int64_t padding_idx);
Tensor bag_sum_gradient(const Tensor& grad_output, const Tensor& indices, const Tensor& offsets,
                        const Tensor& weights, int64_t padding_idx, IntSpan sizes);
Tensor grid_gradient(const Tensor& values, const Tensor& images, const Tensor& grid,
                     const Dims& orders, const std::string& mode, const std::string& padding_mode,
                     bool align_corners);
Dims spatial_of(const Dims& sizes);  // of (N, C, *)

// Convolutions over `dims` spatial dims; unbatched inputs pass too.
Tensor convolution_bias(const Tensor& grad);
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

// Of x, the first states and the weight of an RNN or LSTM layer; of x, the first state, the weight
// and the bias of a GRU layer. Gradients of outputs may be undefined.
std::array<Tensor, 3> rnn_gradients(const Tensor& grad_output, const Tensor& hidden,
                                    const Tensor& weight, const Tensor& output, bool relu,
                                    const Dims& batch_sizes, bool reverse);
std::array<Tensor, 4> lstm_gradients(const Tensor& grad_output, const Tensor& grad_cells,
                                     const Tensor& grad_gates, const Tensor& hidden,
                                     const Tensor& cell, const Tensor& weight, const Tensor& output,
                                     const Tensor& cells, const Tensor& gates,
                                     const Dims& batch_sizes, bool reverse);
std::array<Tensor, 4> gru_gradients(const Tensor& grad_output, const Tensor& grad_gates,
                                    const Tensor& hidden, const Tensor& weight, const Tensor& bias,
                                    const Tensor& output, const Tensor& gates,
                                    const Dims& batch_sizes, bool reverse);
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

// Losses.
Tensor softmax_second(const Tensor& grad, const Tensor& grad_output, const Tensor& output,
                      int64_t dim);
Tensor nll_loss_gradient(const Tensor& grad, const Tensor& target, const Tensor& weight,
                         int64_t ignore_index, const std::string& reduction,
                         const Tensor& total_weight, const OutputMeta& input);
Tensor cross_entropy_gradient(const Tensor& grad, const Tensor& input, const Tensor& target,
                              const Tensor& weight, const Tensor& largest, const Tensor& sums,
                              const Tensor& total_weight, int64_t ignore_index,
                              const std::string& reduction, double label_smoothing);
Tensor nll_loss_kernel_first(const Tensor& input, const Tensor& target, const Tensor& weight,
                             int64_t ignore_index, const std::string& reduction);

// Distances; of x1 and x2, undefined where it is not wanted.
std::array<Tensor, 2> cdist_gradients(const Tensor& grad, const Tensor& x1, const Tensor& x2,
                                      double p, const Tensor& out, bool of_x1, bool of_x2);
Tensor pdist_gradient(const Tensor& grad, const Tensor& input, double p, const Tensor& out);

// Linear algebra; the formulas are in linalg_grad.cpp.
Tensor inverse_backward(const Tensor& grad, const Tensor& inverse);
Tensor cholesky_backward(const Tensor& grad, const Tensor& factor, bool upper);
Tensor triangular_backward_matrix(const Tensor& grad, const Tensor& a, const Tensor& x, bool upper,
                                  bool left, bool unitriangular);
std::array<Tensor, 2> solve_gradients(const Tensor& grad, const Tensor& a, const Tensor& x,
                                      const Tensor& lu, const Tensor& pivots, bool left);
Tensor lu_backward(const Tensor& grad, const Tensor& lu, const Tensor& pivots);
Tensor det_backward(const Tensor& grad, const Tensor& a, const Tensor& det, const Tensor& lu);
Tensor slogdet_backward(const Tensor& grad_sign, const Tensor& grad_logabsdet, const Tensor& a,
                        const Tensor& sign);
Tensor qr_backward(const Tensor& grad_q, const Tensor& grad_r, const Tensor& a, const Tensor& q,
                   const Tensor& r, const std::string& mode);
Tensor eigh_backward(const Tensor& grad_values, const Tensor& grad_vectors, const Tensor& values,
                     const Tensor& vectors);
Tensor eig_backward(const Tensor& grad_values, const Tensor& grad_vectors, const Tensor& a,
                    const Tensor& values, const Tensor& vectors);
Tensor svd_backward(const Tensor& grad_u, const Tensor& grad_s, const Tensor& grad_vh,
                    const Tensor& u, const Tensor& s, const Tensor& vh);
Tensor pinv_backward(const Tensor& grad, const Tensor& a, const Tensor& inverse);
Tensor lstsq_backward_right(const Tensor& grad, const Tensor& a);
Tensor lstsq_backward_matrix(const Tensor& grad, const Tensor& a, const Tensor& b, const Tensor& x);

// Elements.
Tensor bool_to_int64(const Tensor& t);  // truth values as int64
Tensor pow_backward(const Tensor& grad, const Tensor& input, const Scalar& exponent);
Tensor sinc_backward(const Tensor& grad, const Tensor& input);
Scalar checked_alpha(const Scalar& alpha);  // of celu: not 0
Tensor angle_backward(const Tensor& grad, const Tensor& input);
Tensor sgn_backward(const Tensor& grad, const Tensor& input, const Tensor& out);

}  // namespace rl::grad
