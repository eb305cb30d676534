// Reductions and scans.
#include <cmath>

#include "core/warning.h"
#include "dispatch/generated.h"
#include "dispatch/gradient_buffer.h"
#include "dispatch/guards.h"
#include "dispatch/shape_rules.h"
#include "impl_create.h"
#include "impl_reduction.h"
#include "launch_reduce.h"
#include "launch_scan.h"
#include "ops_arithmetic.h"
#include "ops_basic.h"
#include "ops_create.h"
#include "ops_indexing.h"
#include "ops_reduction.h"
#include "ops_shape.h"

namespace rl {
namespace impl {
namespace {

// By kernels that take any strides.
template <class Kernel>
Tensor reduce(const char* op, const Tensor& input, const std::optional<Dims>& dims, bool keepdim,
              DType dtype, Kernel&& kernel) {
  Tensor out = make_output(shape::reduced(op, input, dims, keepdim, dtype), input.device());
  kernel(physical(input), reshaped(out, shape::kept_sizes(input, dims)));
  return out;
}

}  // namespace

Tensor nansum(const Tensor& input, const std::optional<Dims>& dim, bool keepdim,
              std::optional<DType> dtype) {
  check(!input.is_complex(), "nansum: does not support complex inputs");
  Tensor from = converted(input, dtype);
  if (!from.is_floating()) return sum(from, dim, keepdim, dtype);
  return reduce("nansum", from, dim, keepdim, from.dtype(), launch::nansum);
}

Tensor mean(const Tensor& input, const std::optional<Dims>& dim, bool keepdim,
            std::optional<DType> dtype) {
  DType type = dtype.value_or(input.dtype());
  check(is_differentiable(type),
        "mean(): could not infer output dtype. Input dtype must be either a floating point or "
        "complex dtype. Got: ",
        type);
  Tensor from = converted(input, dtype);
  Tensor total =
      reduce("mean", from, dim, keepdim, is_reduced(type) ? DType::Float32 : type, launch::sum);
  double count =
      total.numel() ? static_cast<double>(input.numel()) / static_cast<double>(total.numel()) : 0;
  ops::div_(total, wrap_number(Scalar(count)));
  return converted(total, type);
}
Tensor mean(const Tensor& input, std::optional<DType> dtype) {
  return mean(input, std::optional<Dims>(), false, dtype);
}

Tensor logsumexp(const Tensor& input, const Dims& dim, bool keepdim) {
  Tensor from = is_integral_or_bool(input.dtype()) ? to_dtype(input, default_dtype()) : input;
  if (from.is_complex()) {
    Tensor high = ops::amax(ops::real(from), dim, true);
    high = ops::where(ops::isinf(high), wrap_number(Scalar(0.0)), high);  // inf - inf would be NaN
    Tensor rest = ops::log(ops::sum(ops::exp(from - high), dim, keepdim));
    return rest + (keepdim ? high : ops::view(high, rest.sizes()));
  }
  return reduce("logsumexp", from, dim, keepdim, from.dtype(), launch::logsumexp);
}

}  // namespace impl

void check_not_empty(const char* op, const Tensor& input, const std::optional<Dims>& dims) {
  if (input.numel() > 0) return;
  check_index(dims && !dims->empty(), op,
              ": Expected reduction dim to be specified for input.numel() == 0. Specify the "
              "reduction dim with the 'dim' argument.");
  for (int64_t d : *dims)
    check_index(input.dim() == 0 || input.sizes()[wrap_dim(d, input.dim(), op)] > 0, op,
                ": Expected reduction dim ", d, " to have non-zero size, got shape ",
                input.sizes());
}

void check_extreme(const char* op, const Tensor& input, const std::optional<Dims>& dims) {
  check_real(op, input);
  check(input.numel() > 0 || (dims && !dims->empty()), op,
        "(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction "
        "dim with the 'dim' argument.");
  check_not_empty(op, input, dims);
}

void check_spread(const char* op, const Tensor& input, const std::optional<Dims>& dims,
                  const std::optional<Scalar>& correction) {
  check(is_differentiable(input.dtype()), op,
        ": only support floating point and complex dtypes, got ", input.dtype());
  if (input.is_meta()) return;
  int64_t results = shape::reduced(op, input, dims, true, input.dtype()).numel();
  if (results > 0 &&
      static_cast<double>(input.numel() / results) <= (correction ? correction->real() : 1))
    warn(
        "var and std: degrees of freedom is <= 0. Correction should be strictly less than the "
        "reduction factor (input numel divided by output numel).");
}

namespace grad {

using namespace ops;

int64_t count_reduced(IntSpan sizes, IntSpan dims) {
  if (dims.empty()) return product(sizes);
  int64_t n = 1;
  for (int64_t d : dims) n *= sizes.size() ? sizes[wrap_dim(d, sizes.size(), "mean")] : 1;
  return n;
}

// Equal extremes share the gradient.
Tensor extreme_backward(const Tensor& grad, const Tensor& input, const Tensor& out, const Dims& dim,
                        bool keepdim) {
  Tensor hit = eq(input, expand_reduced(out, dim, keepdim, input.sizes()));
  Tensor hits = sum(hit, dim, true, std::nullopt);
  bool whole = keepdim || dim.empty() || input.dim() == 0;
  return (whole ? grad : unsqueeze_all(grad, dim, input.dim())) / hits * hit;
}

Tensor add_place(const Tensor& accumulated, const Tensor& grad, IntSpan sizes,
                 const Tensor& indices, int64_t dim, bool keepdim) {
  bool scalar = sizes.size() == 0;
  Tensor full = accumulated_or_zeros(accumulated, grad, sizes);
  return scatter_add_(full, dim, keepdim || scalar ? indices : unsqueeze(indices, dim),
                      keepdim || scalar ? grad : unsqueeze(grad, dim));
}

Tensor prod_dim_backward(const Tensor& grad, const Tensor& input, int64_t dim, bool keepdim) {
  // The product of the others: what comes before times what comes after, so that zeros are no
  // trouble.
  if (input.dim() == 0) return grad;
  int64_t d = wrap_dim(dim, input.dim(), "prod"), n = input.sizes()[d];
  if (n == 0) return zeros_like(input);
  Tensor one = ones_like(slice(input, d, 0, 1, 1));
  Tensor before = cumprod(cat({one, slice(input, d, 0, n - 1, 1)}, d), d, std::nullopt);
  Tensor after = flip(
      cumprod(cat({one, flip(slice(input, d, 1, n, 1), Dims{d})}, d), d, std::nullopt), Dims{d});
  return (keepdim ? grad : unsqueeze(grad, d)) * conj_now(before * after);
}

Tensor prod_backward(const Tensor& grad, const Tensor& input) {
  if (input.dim() == 0) return grad;
  return reshape(prod_dim_backward(grad, reshape(input, Dims{-1}), 0, false), input.sizes());
}

Tensor var_backward(const Tensor& grad, const Tensor& input, const std::optional<Dims>& dim,
                    const std::optional<Scalar>& correction, bool keepdim) {
  Dims dims = dims_or_all(dim);
  double c = correction ? correction->real() : 1,
         count = static_cast<double>(count_reduced(input.sizes(), dims));
  return scaled_difference(
      expand_reduced(grad * Scalar(2 / (count - c)), dims, keepdim, input.sizes()), input,
      mean(input, dims, true, std::nullopt));
}

Tensor std_backward(const Tensor& grad, const Tensor& input, const Tensor& out,
                    const std::optional<Dims>& dim, const std::optional<Scalar>& correction,
                    bool keepdim) {
  Tensor half = grad / (out * Scalar(2));
  half = where(eq(out, wrap_number(Scalar(0))), zeros_like(half), half);
  return var_backward(half, input, dim, correction, keepdim);
}

Tensor norm_backward(const Tensor& grad, const Tensor& input, const Tensor& out, const Scalar& ord,
                     const Dims& dims, bool keepdim) {
  double p = ord.real();
  Tensor g = expand_reduced(grad, dims, keepdim, input.sizes()),
         norm = expand_reduced(out, dims, keepdim, input.sizes());
  Tensor zero = wrap_number(Scalar(0));
  if (p == 0) return zeros_like(input);
  if (p == 1) return g * sgn(input);
  if (std::isinf(p)) {
    Tensor size = abs(input);  // whose rounding is not that of the norm's kernel
    Tensor hit = eq(size, p > 0 ? amax(size, dims, true) : amin(size, dims, true));
    return g * sgn(input) * hit / sum(hit, dims, true, std::nullopt);
  }
  if (p == 2) return scaled_direction(g, input, norm);
  if (p < 1) {
    Tensor none = eq(input, zero), size = where(none, wrap_number(Scalar(1)), abs(input));
    Tensor power = where(none, zero, sgn(input) * pow(size, Scalar(p - 1)));
    return power * (g / pow(norm, Scalar(p - 1)));
  }
  Tensor nowhere = eq(norm, zero);
  // Where it is 0, the derivative of this quotient would be NaN, and not 0 for being masked.
  if (grad_enabled()) norm = where(nowhere, wrap_number(Scalar(1)), norm);
  Tensor t = p < 2 ? sgn(input) * pow(abs(input), Scalar(p - 1)) * (g / pow(norm, Scalar(p - 1)))
                   : input * pow(abs(input), Scalar(p - 2)) * (g / pow(norm, Scalar(p - 1)));
  return where(nowhere, zeros_like(t), t);
}

Tensor logsumexp_backward(const Tensor& grad, const Tensor& input, const Tensor& out,
                          const Dims& dim, bool keepdim) {
  Tensor total = expand_reduced(out, dim, keepdim, input.sizes());
  return scaled_exp(expand_reduced(grad, dim, keepdim, input.sizes()), input, total);
}

Tensor cumprod_backward(const Tensor& grad, const Tensor& input, int64_t dim) {
  if (input.dim() == 0) return grad;
  int64_t d = wrap_dim(dim, input.dim(), "cumprod"), n = input.sizes()[d];
  if (n == 0) return zeros_like(input);
  if (!grad_enabled() && grad.dtype() == input.dtype()) {
    Tensor result = rl::empty_like(input);
    launch::cumprod_backward(grad, input, d, result);
    return result;
  }
  // d out[k] / d input[i] = product over j <= k, j != i: one row a position, exact where the input
  // has zeros.
  TensorList columns;
  Tensor one = ones_like(select(input, d, 0));
  Tensor before = one;
  for (int64_t i = 0; i < n; ++i) {
    TensorList tail{before};
    if (i + 1 < n) {
      Tensor rest = cumprod(slice(input, d, i + 1, n, 1), d, std::nullopt);
      Tensor lead = unsqueeze(before, d);
      tail = {lead, lead * rest};
    } else {
      tail = {unsqueeze(before, d)};
    }
    Tensor slope = cat(tail, d);
    columns.push_back(sum(slice(grad, d, i, n, 1) * conj_now(slope), Dims{d}, false, std::nullopt));
    before = before * select(input, d, i);
  }
  return stack(columns, d);
}

Tensor logcumsumexp_backward(const Tensor& grad, const Tensor& input, const Tensor& out,
                             int64_t dim) {
  if (input.dim() == 0) return grad;
  if (!grad_enabled()) {
    Tensor result = rl::empty_like(input);
    launch::logcumsumexp_backward(grad, input, out, wrap_dim(dim, input.dim(), "logcumsumexp"),
                                  result);
    return result;
  }
  // sum over j >= i of grad[j] exp(input[i] - out[j]), all pairs side by side in the last two dims.
  Tensor x = unsqueeze(transpose(input, dim, -1), -1),
         total = unsqueeze(transpose(out, dim, -1), -2);
  Tensor later =
      triu(ones(Dims{input.size(dim), input.size(dim)}, DType::Bool, {}, input.device()));
  Tensor used = logical_and(later, logical_not(isneginf(ops::real(x))));
  Tensor power = where(used, x - total, wrap_number(Scalar(0)));
  Tensor slope = where(used, conj_now(exp(power)), wrap_number(Scalar(0)));
  return transpose(sum(unsqueeze(transpose(grad, dim, -1), -2) * slope, Dims{-1}, false), dim, -1);
}

}  // namespace grad
}  // namespace rl
