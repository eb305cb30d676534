// Products of matrices and vectors.
#include "dispatch/body.h"
#include "dispatch/generated.h"
#include "dispatch/grad.h"
#include "dispatch/gradient_buffer.h"
#include "dispatch/result_memory.h"
#include "impl_matrix.h"
#include "impl_shape.h"
#include "launch_gemm.h"
#include "ops_activation.h"
#include "ops_basic.h"
#include "ops_create.h"
#include "ops_matrix.h"
#include "ops_reduction.h"
#include "ops_shape.h"

namespace rl {

namespace kernels {
extern const Loop relu_loop, relu_backward_input_loop, gelu_erf_loop, gelu_tanh_loop, mul_loop,
    addcmul_loop;
}  // namespace kernels

Scalar whole_for(DType dtype, const Scalar& s) {
  if (dtype == DType::Bool) return Scalar(s.to<bool>());
  return is_integral_or_bool(dtype) ? Scalar(s.to<int64_t>()) : s;
}

void check_same_factors(const char* op, const Tensor& a, const Tensor& b) {
  check(a.dtype() == b.dtype(), op,
        ": expected m1 and m2 to have the same dtype, but got: ", a.dtype(), " != ", b.dtype());
  check_implemented(a.dtype() != DType::Bool, op, ": not implemented for dtype ", a.dtype());
}

namespace impl {
namespace {

// The sizes of products, for what can be multiplied.
Dims product_of_matrices(const char* op, const Tensor& a, const Tensor& b) {
  check(a.dim() == 2, op, ": input must be a matrix, got shape ", a.sizes());
  check(b.dim() == 2, op, ": mat2 must be a matrix, got shape ", b.sizes());
  check_same_factors(op, a, b);
  check(a.sizes()[1] == b.sizes()[0], op, ": mat1 and mat2 shapes cannot be multiplied (",
        a.sizes()[0], "x", a.sizes()[1], " and ", b.sizes()[0], "x", b.sizes()[1], ")");
  return Dims{a.sizes()[0], b.sizes()[1]};
}

// Whether each element of a product is one term: loops over elements take a quarter of the time of
// tiles.
bool is_outer(const Tensor& a, const Tensor& b) {
  return a.sizes().back() == 1 && !a.is_sparse() && !b.is_sparse();
}

// finish(beta * input + alpha * a @ b), rounded once; beta 0 drops the input, NaNs included. In
// place where `given` is the input.
Tensor added_product(const char* op, const Dims& sizes, const Tensor& input, const Tensor& a,
                     const Tensor& b, const Scalar& beta, const Scalar& alpha, const Tensor& given,
                     const kernels::Loop* finish = nullptr) {
  grad::check_addable(op, input, a, sizes);
  check_real(op, "alpha", alpha, input);
  check_real(op, "beta", beta, input);
  kernels::GemmScale scale{whole_for(input.dtype(), alpha), whole_for(input.dtype(), beta), finish};
  // Of complex numbers, alpha times infinity would have a part that is not a number.
  if (is_outer(a, b) && scale.beta.equals(1) && !a.is_complex() && sizes == input.sizes()) {
    Tensor out = given.defined() ? given : ResultMemory::take(sizes, a.dtype(), a.device());
    if (!out.defined()) out = rl::empty(sizes, options(a));
    elementwise(kernels::addcmul_loop, LoopType::Common, &scale.alpha, out, input, a, b);
    return finish ? elementwise(*finish, LoopType::Common, nullptr, out, out) : out;
  }
  Tensor out = given.defined() && given.sizes() == sizes ? given : rl::empty(sizes, options(a));
  Tensor whole = ops::expand(input, sizes);
  Tensor left = given.defined() ? copy_if_overlapping(a, given) : a,
         right = given.defined() ? copy_if_overlapping(b, given) : b;
  launch::gemm(left, right, out, scale, whole);
  return written_to(given, out, op);
}

}  // namespace

Tensor mm(const Tensor& input, const Tensor& mat2) {
  Tensor out = rl::empty(product_of_matrices("mm", input, mat2), options(input));
  if (is_outer(input, mat2))
    return elementwise(kernels::mul_loop, LoopType::Common, nullptr, out, input, mat2);
  launch::gemm(input, mat2, out, {}, nullptr);
  return out;
}

Tensor addmm(const Tensor& input, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
             const Scalar& alpha, const Tensor& out) {
  return added_product("addmm", product_of_matrices("addmm", mat1, mat2), input, mat1, mat2, beta,
                       alpha, out);
}

Tensor baddbmm(const Tensor& input, const Tensor& batch1, const Tensor& batch2, const Scalar& beta,
               const Scalar& alpha, const Tensor& out) {
  return added_product("baddbmm", grad::product_of_batches("baddbmm", batch1, batch2), input,
                       batch1, batch2, beta, alpha, out);
}

namespace {

// out = finish(input @ weight.T + each row's bias), without tensors for the transposed weight and
// the expanded bias, which took half as long as a product of 8 rows of 32.
void multiply_turned(const Tensor& input, const Tensor& weight, const Tensor& out,
                     const kernels::GemmScale& scale, const Tensor& bias) {
  if (weight.is_sparse() || (bias.defined() && bias.is_sparse())) {  // which the launch refuses
    launch::gemm(input, transpose(weight, 0, 1), out, scale, bias);
    return;
  }
  const Dims &size = weight.sizes(), &step = weight.strides();
  const int64_t turned_sizes[2] = {size[1], size[0]}, turned_strides[2] = {step[1], step[0]};
  View turned = weight.view();
  turned.sizes = turned_sizes;
  turned.strides = turned_strides;
  if (!bias.defined()) return launch::gemm(input, turned, out, scale, nullptr);
  const int64_t bias_strides[2] = {0, bias.strides()[0]};
  View added = bias.view();
  added.sizes = out.sizes().data();
  added.strides = bias_strides;
  added.ndim = 2;
  added.numel = out.numel();
  launch::gemm(input, turned, out, scale, added);
}

// finish(input @ weight.T + bias)
Tensor finished_linear(const Tensor& input, const Tensor& weight, const Tensor& bias,
                       const kernels::Loop* finish) {
  check(weight.dim() == 1 || weight.dim() == 2,
        "linear: weight must be a matrix or a vector, got shape ", weight.sizes());
  check(input.dim() >= 1, "linear: input must have at least one dim, got shape ", input.sizes());
  check_same_factors("linear", input, weight);
  int64_t in = input.sizes().back();
  check(in == weight.sizes().back(), "linear: mat1 and mat2 shapes cannot be multiplied (",
        in ? input.numel() / in : 0, "x", in, " and ", weight.sizes().back(), "x",
        weight.dim() == 2 ? weight.sizes()[0] : 1, ")");
  auto finished = [&](const Tensor& out) {
    return finish ? elementwise(*finish, LoopType::Common, nullptr, Tensor(), out) : out;
  };
  if (weight.dim() == 1) {
    Tensor out = ops::matmul(input, weight);
    return finished(bias.defined() ? ops::add(out, bias) : out);
  }
  int64_t rows = product(IntSpan(input.sizes().data(), input.dim() - 1)),
          columns = weight.sizes()[0];
  Dims sizes = input.sizes();
  sizes.back() = columns;
  Tensor out = rl::empty(sizes, options(input));
  Tensor matrix = input.dim() == 2 ? input : ops::reshape(input, Dims{rows, in});
  Tensor flat = input.dim() == 2 ? out : alias(out, Dims{rows, columns}, Dims{columns, 1}, 0);
  bool row = bias.defined() && bias.dim() == 1 && bias.sizes()[0] == columns &&
             bias.dtype() == input.dtype();
  bool whole = row || !bias.defined();
  multiply_turned(matrix, weight, flat, {1, row ? 1 : 0, whole ? finish : nullptr},
                  row ? bias : Tensor());
  return whole ? out : finished(written_to(out, ops::add(out, bias), "linear"));
}

}  // namespace

Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  return finished_linear(input, weight, bias, nullptr);
}

Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias, bool rectified) {
  return finished_linear(input, weight, bias, rectified ? &kernels::relu_loop : nullptr);
}

Tensor relu(const Tensor& input, bool known) { return known ? alias(input) : ops::relu(input); }

}  // namespace impl

namespace ops {

Tensor addmm_activation(const Tensor& input, const Tensor& mat1, const Tensor& mat2,
                        const Scalar& beta, const Scalar& alpha, bool use_gelu) {
  if (records(input, mat1, mat2)) {
    Tensor sum = addmm(input, mat1, mat2, beta, alpha);
    return use_gelu ? gelu_erf(sum) : relu(sum);
  }
  return impl::added_product(
      "_addmm_activation", impl::product_of_matrices("_addmm_activation", mat1, mat2), input, mat1,
      mat2, beta, alpha, Tensor(), use_gelu ? &kernels::gelu_erf_loop : &kernels::relu_loop);
}

Tensor linear_activation(const Tensor& input, const Tensor& weight, const Tensor& bias,
                         const std::string& activation) {
  bool recorded = records(input, weight, bias);
  if (activation == "relu")
    return recorded ? relu(linear(input, weight, bias, true), true)
                    : impl::linear(input, weight, bias, true);
  bool tanh = activation == "gelu_tanh";
  check(tanh || activation == "gelu", "linear_activation: unknown activation ", activation);
  if (recorded) return (tanh ? gelu_tanh : gelu_erf)(linear(input, weight, bias));
  return impl::finished_linear(input, weight, bias,
                               tanh ? &kernels::gelu_tanh_loop : &kernels::gelu_erf_loop);
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  check(a.dim() > 0 && b.dim() > 0,
        "matmul: both arguments to matmul need to be at least 1D, but they are ", a.dim(), "D and ",
        b.dim(), "D");
  if (a.dim() == 2 && b.dim() == 2) return mm(a, b);
  if (a.dim() == 1 && b.dim() == 1) return dot(a, b);
  if (a.dim() == 2 && b.dim() == 1) return mv(a, b);
  if (a.dim() == 1) return without_base(squeeze(matmul(unsqueeze(a, 0), b), Dims{-2}));
  if (b.dim() == 1) {
    check(a.size(-1) == b.size(0), "matmul: mat1 and mat2 shapes cannot be multiplied, got ",
          a.sizes(), " and ", b.sizes());
    Dims sizes = without_last(a.sizes());
    Tensor rows = reshape(a, Dims{product(sizes), a.size(-1)});
    return without_base(unsafe_view(mv(rows, b), sizes));
  }
  if (b.dim() == 2) {  // the rows of all batches in one product
    check(a.size(-1) == b.size(0), "matmul: mat1 and mat2 shapes cannot be multiplied, got ",
          a.sizes(), " and ", b.sizes());
    Dims sizes = a.sizes();
    sizes.back() = b.sizes()[1];
    Tensor rows = reshape(a, Dims{product(without_last(a.sizes())), a.size(-1)});
    return without_base(unsafe_view(mm(rows, b), sizes));
  }
  return grad::batched_matmul(a, b);
}

}  // namespace ops

namespace grad {

using namespace ops;

namespace {

Tensor as_rows(const Tensor& t) {
  return reshape(t, Dims{product(IntSpan(t.sizes().data(), t.dim() - 1)), t.sizes().back()});
}

// a @ b added to what is there: layers that share an input or a weight spare a tensor and a pass.
Tensor add_product(const Tensor& accumulated, const Tensor& a, const Tensor& b) {
  launch::gemm(a, b, as_rows(accumulated), {1, 1}, nullptr);
  return accumulated;
}

}  // namespace

Tensor relu_backward(const Tensor& grad, const Tensor& out) {
  if (formula_by_ops()) return where(le(out, wrap_number(Scalar(0))), wrap_number(Scalar(0)), grad);
  return elementwise_in_gradient_buffer(kernels::relu_backward_input_loop, nullptr, true, grad,
                                        out);
}

Tensor add_linear_input(const Tensor& accumulated, const Tensor& grad, const Tensor& weight) {
  bool matrix = weight.dim() == 2;
  if (matrix && accumulated.defined() && accumulated.is_contiguous())
    return add_product(accumulated, as_rows(grad), conj_now(weight));
  Tensor product = matrix ? matmul(grad, conj_now(weight)) : unsqueeze(grad, -1) * conj_now(weight);
  return accumulated.defined() ? add_(accumulated, product) : product;
}

Tensor add_linear_weight(const Tensor& accumulated, const Tensor& grad, const Tensor& input,
                         int64_t weight_dim) {
  Tensor x = conj_now(as_rows(input));
  if (weight_dim == 1) {
    Tensor product = mv(t(x), reshape(grad, Dims{-1}));
    return accumulated.defined() ? add_(accumulated, product) : product;
  }
  Tensor g = t(as_rows(grad));
  return accumulated.defined() ? add_product(accumulated, g, x) : mm(g, x);
}

}  // namespace grad
}  // namespace rl
