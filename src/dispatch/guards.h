// What rows refuse by looking at elements, before all else.
#pragma once
#include "tensor/tensor.h"

namespace rl {

// Complex numbers have no order.
inline void check_real(const char* op, const Tensor& input) {
  check_implemented(!input.is_complex(), op, ": not implemented for dtype ", input.dtype());
}

inline void check_floating(const char* op, const Tensor& input) {
  check_implemented(input.is_floating(), op, ": not implemented for dtype ", input.dtype());
}

inline void check_norm(const Tensor& input) {
  check(is_differentiable(input.dtype()),
        "linalg.vector_norm: Expected a floating point or complex tensor as input. Got ",
        input.dtype());
}

inline void check_differentiable(const char* op, const Tensor& input) {
  check_implemented(is_differentiable(input.dtype()), op, ": not implemented for dtype ",
                    input.dtype());
}

// Of multinomial.
void check_weights_to_draw_by(const Tensor& input, int64_t num_samples, bool replacement);

inline void check_matrices(const char* op, const Tensor& input) {
  check(input.dim() >= 2, op, ": input tensor must have at least 2 dimensions, got shape ",
        input.sizes());
}

// Of where: warns of numbers in place of truth values.
void check_condition(const Tensor& condition);

// Of embedding.
void check_indices(const char* op, const Tensor& indices);
void check_row_products(const Tensor& grad_output, const Tensor& weight, const Tensor& indices,
                        const Tensor& offsets);
inline void check_table(const char* op, const Tensor& weight) {
  check(weight.dim() == 2, op, ": 'weight' must be 2-D, got shape ", weight.sizes());
}

// The dims that are reduced, all where none is named, must hold an element.
void check_not_empty(const char* op, const Tensor& input, const std::optional<Dims>& dims);
// The same, as a RuntimeError where no dim is named.
void check_extreme(const char* op, const Tensor& input, const std::optional<Dims>& dims);

// Variances are of floating and complex numbers; a warning where they divide by 0.
void check_spread(const char* op, const Tensor& input, const std::optional<Dims>& dims,
                  const std::optional<Scalar>& correction);

// Refuses a tensor on meta, which has no elements for the result to depend on.
void check_elements(const char* op, const Tensor& t);

// An op's own number must be one that it can compute with beside the input: neither complex nor too
// large. Small integers, which defaults are, always are.
void check_own_number(const char* op, const Scalar& value, const Tensor& input);
inline bool is_small_integer(const Scalar& value) {
  return value.is_integral() && static_cast<uint64_t>(value.to<int64_t>()) < 128;
}
inline void check_number_of(const char* op, const Scalar& value, const Tensor& input) {
  if (!is_small_integer(value)) check_own_number(op, value, input);
}
// Orders of norms, corrections and bounds are real, whatever the elements are.
inline void check_real_number(const char* op, const char* name, const Scalar& value) {
  check(!value.is_complex(), op, ": Expected a non-complex scalar as ", name, ", got ", value);
}

// Integers cannot be divided by 0; floats can, and mixed operands are floats by then.
void check_divisor(const char* op, const Tensor& input, const Tensor& other);

// A Python number among the operands must be one that an element of the result can be: 300 is no
// bound for bytes. Tensors wrap around instead, as in arithmetic.
void check_number(const char* op, const Tensor& number, const Tensor& other);

// The same of a 0-d tensor that stands for a number.
void check_element(const char* op, const Tensor& value, DType t);

// Of ops that do not promote. `name` is the argument.
void check_same_dtype(const char* op, const Tensor& input, const char* name, const Tensor& other);
void check_lerp(const Tensor& input, const Tensor& end, const Tensor& weight);
void check_addcdiv(const Tensor& input, const Tensor& tensor1, const Tensor& tensor2,
                   const Scalar& value);

// The number as a 0-d tensor of like's dtype and device, if an element can be it.
Tensor element_like(const char* op, const Scalar& value, const Tensor& like);

// Of losses: names of reductions, weights as many as inputs, probabilities in [0, 1].
void check_reduction(const std::string& reduction);
void check_loss_weight(const Tensor& input, const Tensor& weight);
void check_probabilities(const char* op, const Tensor& input);

// Of padding, unfold and fold.
void check_padded(const Tensor& input, const std::string& mode, const Dims& pad);
void check_image_blocks(const Tensor& input, const Dims& kernel_size, const Dims& dilation,
                        const Dims& padding, const Dims& stride);
void check_columns(const Tensor& input, const Dims& output_size, const Dims& kernel_size,
                   const Dims& dilation, const Dims& padding, const Dims& stride);

// index must fit into `outer` in every dim but `free`.
void check_index_shape(const Tensor& index, const Tensor& outer, int64_t free, const char* op,
                       const char* what);

// `source` must be the slices of `input` along a dim, one for each index.
void check_slices(const char* op, const Tensor& input, int64_t dim, const Tensor& index,
                  const Tensor& source);

// src must have the shape of the view that it is written to.
void check_place(const char* op, const Tensor& place, const Tensor& src);
// Of lu_unpack.
void check_unpacked(const Tensor& lu, const Tensor& pivots, bool unpack_pivots);

// Whether the device's kernels draw random numbers where they need them.
inline bool draws_in_kernel(const Tensor& t) { return t.device().type == DeviceType::CUDA; }

// Of random numbers: parameters of distributions, dtypes that can hold what is drawn.
void check_drawn(const char* op, DType dtype);
void check_uniform(const Tensor& t, double from, double to);
void check_permutation(int64_t n, DType dtype);
void check_deviation(double std);
void check_normal(const Tensor& t, double std);
void check_exponential(const Tensor& t, double lambd);
void check_cauchy(const Tensor& t, double sigma);
void check_log_normal(const Tensor& t, double std);
void check_geometric(double p);
void check_bernoulli(double p);
void check_range(int64_t low, int64_t high);
void check_binomial(const Tensor& count, const Tensor& prob);

}  // namespace rl
