// Products of matrices and vectors.
#include <algorithm>

#include "autograd/geometry.h"
#include "dispatch/generated.h"
#include "dispatch/grad.h"
#include "dispatch/gradient_buffer.h"
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
extern const Loop relu_loop, relu_backward_input_loop, gelu_erf_loop, gelu_tanh_loop;
}  // namespace kernels

namespace {

// May `input` be added to a product of these sizes?
void check_addable(const char* op, const Tensor& input, DType dtype, const Dims& sizes) {
  check(input.dtype() == dtype, op,
        ": expected input and the product to have the same dtype, but got ", input.dtype(), " and ",
        dtype);
  check(broadcast_sizes(sizes, input.sizes(), op) == sizes, op,
        ": The expanded size of the tensor ", sizes, " must match the existing size ",
        input.sizes());
}

Scalar whole_for(DType dtype, const Scalar& s) {
  if (dtype == DType::Bool) return Scalar(s.to<bool>());
  return is_integral_or_bool(dtype) ? Scalar(s.to<int64_t>()) : s;
}

void check_same_dtype(const char* op, const Tensor& a, const Tensor& b) {
  check(a.dtype() == b.dtype(), op,
        ": expected m1 and m2 to have the same dtype, but got: ", a.dtype(), " != ", b.dtype());
  check_implemented(a.dtype() != DType::Bool, op, ": not implemented for dtype ", a.dtype());
}

}  // namespace

namespace impl {
namespace {

// The sizes of products, for what can be multiplied.
Dims product_of_matrices(const char* op, const Tensor& a, const Tensor& b) {
  check(a.dim() == 2, op, ": input must be a matrix, got shape ", a.sizes());
  check(b.dim() == 2, op, ": mat2 must be a matrix, got shape ", b.sizes());
  check_same_dtype(op, a, b);
  check(a.sizes()[1] == b.sizes()[0], op, ": mat1 and mat2 shapes cannot be multiplied (",
        a.sizes()[0], "x", a.sizes()[1], " and ", b.sizes()[0], "x", b.sizes()[1], ")");
  return Dims{a.sizes()[0], b.sizes()[1]};
}

Dims product_of_batches(const char* op, const Tensor& a, const Tensor& b) {
  check(a.dim() == 3 && b.dim() == 3, op, ": batch1 and batch2 must be 3D tensors, got ", a.sizes(),
        " and ", b.sizes());
  check_same_dtype(op, a, b);
  check(a.sizes()[0] == b.sizes()[0] && a.sizes()[2] == b.sizes()[1], op,
        ": Expected size for first two dimensions of batch2 tensor to be: [", a.sizes()[0], ", ",
        a.sizes()[2], "] but got: [", b.sizes()[0], ", ", b.sizes()[1], "].");
  return Dims{a.sizes()[0], a.sizes()[1], b.sizes()[2]};
}

// finish(beta * input + alpha * a @ b), rounded once; beta 0 drops the input, NaNs included. In
// place where `given` is the input.
Tensor added_product(const char* op, const Dims& sizes, const Tensor& input, const Tensor& a,
                     const Tensor& b, const Scalar& beta, const Scalar& alpha, const Tensor& given,
                     const kernels::Loop* finish = nullptr) {
  check_addable(op, input, a.dtype(), sizes);
  Tensor out = given.defined() && given.sizes() == sizes ? given : rl::empty(sizes, options(a));
  kernels::GemmScale scale{whole_for(input.dtype(), alpha), whole_for(input.dtype(), beta), finish};
  Tensor whole = ops::expand(input, sizes);
  Tensor left = given.defined() ? copy_if_overlapping(a, given) : a,
         right = given.defined() ? copy_if_overlapping(b, given) : b;
  launch::gemm(left, right, out, scale, whole);
  return written_to(given, out, op);
}

}  // namespace

Tensor mm(const Tensor& input, const Tensor& mat2) {
  Tensor out = rl::empty(product_of_matrices("mm", input, mat2), options(input));
  launch::gemm(input, mat2, out, {}, nullptr);
  return out;
}

Tensor int_mm(const Tensor& input, const Tensor& mat2) {
  for (const Tensor* t : {&input, &mat2})
    check(t->dim() == 2, "_int_mm: Expected ", t == &input ? "self" : "mat2",
          " to be of dimension 2 but got ", t->dim());
  check(input.dtype() == DType::Int8 || input.dtype() == DType::UInt8,
        "_int_mm: Expected self dtype to be int8 or uint8 but got ", input.dtype());
  check(mat2.dtype() == DType::Int8, "_int_mm: Expected mat2 dtype to be int8 but got ",
        mat2.dtype());
  check(input.sizes()[1] == mat2.sizes()[0],
        "_int_mm: self.size(1) needs to match mat2.size(0) but got ", input.sizes()[1], " and ",
        mat2.sizes()[0]);
  Tensor out = rl::empty(Dims{input.sizes()[0], mat2.sizes()[1]}, options(input, DType::Int32));
  launch::gemm_bytes(input, mat2, out);
  return out;
}

Tensor group_mm(const Tensor& input, const Tensor& integers, const Tensor& scales) {
  for (const Tensor* t : {&input, &integers, &scales})
    check(t->dim() == 2, "_group_mm: Expected ",
          t == &input      ? "input"
          : t == &integers ? "integers"
                           : "scales",
          " to be of dimension 2 but got ", t->dim());
  check(input.dtype() == DType::Float32 && scales.dtype() == DType::Float32,
        "_group_mm: Expected input and scales of dtype float32 but got ", input.dtype(), " and ",
        scales.dtype());
  bool four_bits = integers.dtype() == DType::UInt8;
  check(four_bits || integers.dtype() == DType::Int8,
        "_group_mm: Expected integers of dtype int8, or of uint8 (two of 4 bits each), but got ",
        integers.dtype());
  int64_t terms = input.size(1), columns = integers.size(0), groups = scales.size(1);
  check(integers.size(1) * (four_bits ? 2 : 1) == terms && scales.size(0) == columns,
        "_group_mm: integers of shape ", integers.sizes(), " and scales of shape ", scales.sizes(),
        " do not go with an input of shape ", input.sizes());
  check(groups > 0 && terms % groups == 0 && terms / groups % 32 == 0,
        "_group_mm: Expected groups of a multiple of 32 columns but got ", groups, " groups of ",
        terms, " columns");
  Tensor out = rl::empty(Dims{input.size(0), columns}, options(input));
  launch::gemm_groups(input, ops::contiguous(integers), ops::contiguous(scales), out);
  return out;
}

Tensor bmm(const Tensor& input, const Tensor& mat2) {
  Tensor out = rl::empty(product_of_batches("bmm", input, mat2), options(input));
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
  return added_product("baddbmm", product_of_batches("baddbmm", batch1, batch2), input, batch1,
                       batch2, beta, alpha, out);
}

Tensor mv(const Tensor& input, const Tensor& vec) {
  check(input.dim() == 2 && vec.dim() == 1, "mv: vector + matrix @ vector expected, got ",
        input.sizes(), " and ", vec.sizes());
  check_same_dtype("mv", input, vec);
  check(input.sizes()[1] == vec.sizes()[0], "mv: size mismatch, got input (", input.sizes()[0], "x",
        input.sizes()[1], "), vec (", vec.sizes()[0], ")");
  Tensor out = rl::empty(Dims{input.sizes()[0]}, options(input));
  launch::matvec(input, vec, out, {});
  return out;
}

Tensor dot(const Tensor& input, const Tensor& tensor) {
  check(input.dim() == 1 && tensor.dim() == 1, "dot: 1D tensors expected, but got ", input.dim(),
        "D and ", tensor.dim(), "D tensors");
  check_same_dtype("dot", input, tensor);
  check(input.numel() == tensor.numel(), "dot: inconsistent tensor size, expected tensor [",
        input.numel(), "] and src [", tensor.numel(), "] to have the same number of elements");
  Tensor out = rl::empty(Dims(), options(input));
  launch::dot(input, tensor, out);
  return out;
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
  check_same_dtype("linear", input, weight);
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
  if (out.is_meta()) return finished(out);
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

// These are one node each, whatever they are made of.
Tensor addmv(const Tensor& input, const Tensor& mat, const Tensor& vec, const Scalar& beta,
             const Scalar& alpha) {
  check(mat.dim() == 2 && vec.dim() == 1, "addmv: vector + matrix @ vector expected, got ",
        mat.sizes(), " and ", vec.sizes());
  check(mat.sizes()[1] == vec.sizes()[0], "addmv: size mismatch, got mat ", mat.sizes(), ", vec ",
        vec.sizes());
  check_same_dtype("addmv", mat, vec);
  check_addable("addmv", input, mat.dtype(), Dims{mat.sizes()[0]});
  Tensor column = ops::addmm(ops::unsqueeze(input, -1), mat, ops::unsqueeze(vec, 1), beta, alpha);
  return without_base(ops::squeeze(column, Dims{1}));
}

Tensor addr(const Tensor& input, const Tensor& vec1, const Tensor& vec2, const Scalar& beta,
            const Scalar& alpha) {
  check(vec1.dim() == 1 && vec2.dim() == 1, "addr: Expected 1-D vec1 and vec2, but got ",
        vec1.sizes(), " and ", vec2.sizes());
  check(vec1.dtype() == vec2.dtype(),
        "addr: expected vec1 and vec2 to have the same dtype, but got ", vec1.dtype(), " and ",
        vec2.dtype());
  check_addable("addr", input, vec1.dtype(), Dims{vec1.sizes()[0], vec2.sizes()[0]});
  if (vec1.dtype() == DType::Bool)
    return ops::add(grad::scale(ops::outer(vec1, vec2), whole_for(DType::Bool, alpha)),
                    grad::scale(input, whole_for(DType::Bool, beta)));
  return ops::addmm(input, ops::unsqueeze(vec1, 1), ops::unsqueeze(vec2, 0), beta, alpha);
}

// The batch is part of what is summed over.
Tensor addbmm(const Tensor& input, const Tensor& batch1, const Tensor& batch2, const Scalar& beta,
              const Scalar& alpha) {
  Dims sizes = product_of_batches("addbmm", batch1, batch2);
  int64_t rows = sizes[1], columns = sizes[2], depth = sizes[0] * batch1.sizes()[2];
  check_addable("addbmm", input, batch1.dtype(), Dims{rows, columns});
  return ops::addmm(input, ops::reshape(ops::transpose(batch1, 0, 1), Dims{rows, depth}),
                    ops::reshape(batch2, Dims{depth, columns}), beta, alpha);
}

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

namespace {

Dims leading(const Tensor& t, int64_t count) { return Dims(IntSpan(t.sizes().data(), count)); }

// (*, n, k) by (*, k, m) with leading dims broadcast.
Tensor batched_matmul(const Tensor& a, const Tensor& b) {
  int64_t n = a.size(-2), k = a.size(-1), m = b.size(-1);
  check(k == b.size(-2), "matmul: mat1 and mat2 shapes cannot be multiplied, got ", a.sizes(),
        " and ", b.sizes());
  Dims batch = broadcast_sizes(leading(a, a.dim() - 2), leading(b, b.dim() - 2), "matmul");
  auto spread = [&](const Tensor& t, int64_t rows, int64_t columns) {
    Dims sizes = batch;
    sizes.push_back(rows);
    sizes.push_back(columns);
    return reshape(t.sizes() == sizes ? t : expand(t, sizes), Dims{product(batch), rows, columns});
  };
  Tensor out = bmm(spread(a, n, k), spread(b, k, m));
  Dims sizes = batch;
  sizes.push_back(n);
  sizes.push_back(m);
  return without_base(unsafe_view(out, sizes));
}

}  // namespace

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
    Dims sizes = leading(a, a.dim() - 1);
    Tensor rows = reshape(a, Dims{product(sizes), a.size(-1)});
    return without_base(unsafe_view(mv(rows, b), sizes));
  }
  if (b.dim() == 2) {  // the rows of all batches in one product
    check(a.size(-1) == b.size(0), "matmul: mat1 and mat2 shapes cannot be multiplied, got ",
          a.sizes(), " and ", b.sizes());
    Dims sizes = a.sizes();
    sizes.back() = b.sizes()[1];
    Tensor rows = reshape(a, Dims{product(leading(a, a.dim() - 1)), a.size(-1)});
    return without_base(unsafe_view(mm(rows, b), sizes));
  }
  return batched_matmul(a, b);
}

Tensor bilinear(const Tensor& x1, const Tensor& x2, const Tensor& weight, const Tensor& bias) {
  check(weight.dim() == 3 && x1.dim() > 0 && x1.dim() == x2.dim(),
        "bilinear: expected weight (out, in1, in2) and inputs of equal rank, got ", weight.sizes(),
        ", ", x1.sizes(), ", ", x2.sizes());
  check(x1.sizes().back() == weight.sizes()[1] && x2.sizes().back() == weight.sizes()[2],
        "bilinear: inputs ", x1.sizes(), " and ", x2.sizes(), " do not fit weight ",
        weight.sizes());
  Dims sizes = leading(x1, x1.dim() - 1);
  check(sizes == leading(x2, x2.dim() - 1),
        "bilinear: input batch dimensions do not match: ", x1.sizes(), " and ", x2.sizes());
  sizes.push_back(weight.sizes()[0]);
  Tensor a = reshape(x1, Dims{-1, x1.sizes().back()}), b = reshape(x2, Dims{-1, x2.sizes().back()});
  Tensor inner_product = matmul(unsqueeze(a, 0), weight);  // (out, n, in2)
  Tensor columns = sum(inner_product * unsqueeze(b, 0), Dims{-1}, false, x1.dtype());
  Tensor out = reshape(clone(t(columns), MemoryFormat::Contiguous), sizes);
  return bias.defined() ? out + bias : out;
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
  if (grad_enabled()) return where(le(out, wrap_number(Scalar(0))), wrap_number(Scalar(0)), grad);
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
