// Arithmetic rows that choose between loops.
#include <cmath>
#include <limits>

#include "dispatch/generated.h"
#include "dispatch/guards.h"
#include "dispatch/host_elements.h"
#include "impl_arithmetic.h"
#include "impl_basic.h"
#include "impl_create.h"
#include "impl_unary.h"
#include "launch_copy.h"
#include "ops_activation.h"
#include "ops_arithmetic.h"
#include "ops_basic.h"
#include "ops_create.h"
#include "ops_reduction.h"
#include "ops_shape.h"
#include "ops_unary.h"
#include "tensor/output_layout.h"

namespace rl {

void check_divisor(const char* op, const Tensor& input, const Tensor& other) {
  if (!is_integral_or_bool(input.dtype()) || !is_integral_or_bool(other.dtype())) return;
  if (other.is_meta() || other.numel() == 0 || input.numel() == 0) return;
  bool number = other.impl()->wrapped_number && other.dtype() == DType::Int64;
  bool possible =
      number ? item<int64_t>(other) != 0 : item<bool>(unrecorded([&] { return ops::all(other); }));
  check(possible, op, ": ZeroDivisionError: an integer is divided by 0");
}

void check_element(const char* op, const Tensor& value, DType t) {
  if (value.dtype() != t && !value.is_meta()) check_fits(op, item(value), t);
}

Tensor element_like(const char* op, const Scalar& value, const Tensor& like) {
  check_fits(op, value, like.dtype());
  Tensor one = empty(Dims(), options(like));
  launch::fill(one, value);
  return one;
}

void check_number(const char* op, const Tensor& number, const Tensor& other) {
  if (!number.impl()->wrapped_number) return;
  DType t = result_type(number, other);
  if (t != number.dtype()) check_fits(op, item(number), t);
}

namespace impl {

namespace {
Tensor power(const Tensor& input, const Scalar& exponent) {
  check(
      !(is_integral_or_bool(input.dtype()) && exponent.is_integral() && exponent.to<int64_t>() < 0),
      "pow: Integers to negative integer powers are not allowed, got exponent ", exponent);
  if (input.dtype() == DType::Bool && exponent.is_bool())
    return exponent.to<bool>() ? clone(input) : ops::ones_like(input);
  if (is_integral_or_bool(input.dtype()) && exponent.kind() == DType::Float64)
    return power(ops::to(input, default_dtype()), exponent);
  if (is_integral(input.dtype()) && exponent.is_integral())
    check_fits("pow", exponent, input.dtype());
  bool floats = is_differentiable(input.dtype()) && (!exponent.is_complex() || input.is_complex());
  if (floats && !exponent.is_complex()) {
    double p = exponent.real();
    if (p == 2) return ops::square_elements(input);
    if (p == 3) return ops::cube_elements(input);
    if (p == 0.5) return ops::sqrt(input);
    if (p == -0.5) return ops::rsqrt(input);
    if (p == -1) return ops::reciprocal(input);
    if (p == 1) return clone(input);
    if (p == -2 && !is_reduced(input.dtype()))  // whose squares overflow where the result does not
      return ops::reciprocal(ops::square_elements(input));
  }
  return ops::pow(input, wrap_number(exponent));
}

// By their bits: numbers of one sign are ordered as their bits are.
Tensor next_reduced(const Tensor& a, const Tensor& b) {
  Dims sizes = broadcast_sizes(a.sizes(), b.sizes(), "nextafter");
  Tensor x = ops::contiguous(ops::expand(a, sizes)), y = ops::contiguous(ops::expand(b, sizes));
  Tensor zero = wrap_number(Scalar(0.0)), up = ops::lt(x, y), bits = ops::view(x, DType::Int16);
  Tensor step =
      ops::where(ops::eq(up, ops::gt(x, zero)), wrap_number(Scalar(1)), wrap_number(Scalar(-1)));
  Tensor smallest =
      ops::where(up, wrap_number(Scalar(1)), wrap_number(Scalar(-32767)));  // of either sign
  Tensor moved = ops::where(ops::eq(x, zero), smallest, bits + step);
  Tensor next = ops::view(ops::contiguous(ops::to(moved, DType::Int16)), x.dtype());
  next = ops::where(ops::eq(x, y), y, next);
  return ops::where(ops::logical_or(ops::isnan(x), ops::isnan(y)), x + y, next);
}
}  // namespace

Tensor pow(const Tensor& input, const Scalar& exponent, const Tensor& out) {
  return written_to(out, power(input, exponent), "pow_");
}

Tensor nextafter(const Tensor& input, const Tensor& other, const Tensor& out) {
  DType common = result_type(input, other);
  return written_to(out,
                    is_reduced(common)
                        ? next_reduced(ops::to(input, common), ops::to(other, common))
                        : ops::nextafter_elements(input, other),
                    "nextafter_");
}

std::array<Tensor, 2> frexp(const Tensor& input) {
  check(input.is_floating(), "frexp: only supports floating-point dtypes, got ", input.dtype());
  Tensor from = on_host(ops::contiguous(input)), mantissa = rl::empty(input.sizes(), options(from)),
         exponent = rl::empty(input.sizes(), options(from, DType::Int32));
  visit_floating("frexp", input.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (from.is_meta()) return;
    for (int64_t i = 0; i < from.numel(); ++i) {
      int power = 0;
      mantissa.data<T>()[i] =
          static_cast<T>(std::frexp(static_cast<double>(from.data<T>()[i]), &power));
      exponent.data<int32_t>()[i] = power;
    }
  });
  mantissa = moved_to(mantissa, input.device());
  exponent = moved_to(exponent, input.device());
  const Tensor* inputs[] = {&input};
  Dims strides = elementwise_strides(input.sizes(), inputs, 1);
  if (has_standard_strides(input.sizes(), strides)) return {mantissa, exponent};
  auto laid_out = [&](const Tensor& t) {
    Tensor out = empty_strided(t.sizes(), strides, options(t));
    launch::copy(t, out);
    return out;
  };
  return {laid_out(mantissa), laid_out(exponent)};
}

}  // namespace impl

namespace ops {

Tensor div(const Tensor& input, const Tensor& other,
           const std::optional<std::string>& rounding_mode) {
  if (!rounding_mode) return div(input, other);
  if (*rounding_mode == "trunc") return trunc_divide(input, other);
  check(*rounding_mode == "floor",
        "div: expected rounding_mode to be one of None, 'trunc', or 'floor' but found '",
        *rounding_mode, "'");
  return floor_division(input, other);
}

Tensor float_power(const Tensor& input, const Tensor& exponent) {
  check_type(!input.impl()->wrapped_number || !exponent.impl()->wrapped_number,
             "float_power(): the input or the exponent must be Tensor, but both are numbers");
  DType dtype = input.is_complex() || exponent.is_complex() ? DType::Complex128 : DType::Float64;
  // What gradients compute from a number alone would be of the default dtype.
  if (exponent.impl()->wrapped_number) return pow(to(input, dtype), item(exponent));
  return pow(to(input, dtype), to(exponent, dtype));
}

Tensor logit(const Tensor& input, std::optional<double> eps) {
  Tensor x = is_integral_or_bool(input.dtype()) ? to(input, default_dtype()) : input;
  return logit_kernel(eps ? clamp(x, Scalar(*eps), Scalar(1 - *eps)) : x);
}

Tensor angle(const Tensor& input) {
  return angle_kernel(is_integral_or_bool(input.dtype()) ? to(input, default_dtype()) : input);
}

namespace {
double largest_finite(DType t) {
  if (t == DType::Float16) return 65504;
  if (t == DType::BFloat16) return std::ldexp(255, 120);
  return t == DType::Float32 ? std::numeric_limits<float>::max()
                             : std::numeric_limits<double>::max();
}
}  // namespace

Tensor nan_to_num(const Tensor& input, std::optional<double> nan, std::optional<double> posinf,
                  std::optional<double> neginf) {
  if (is_integral_or_bool(input.dtype())) return clone(input);
  double largest = largest_finite(to_real(input.dtype()));
  return nan_to_num_kernel(input, nan.value_or(0), posinf.value_or(largest),
                           neginf.value_or(-largest));
}

Tensor isreal(const Tensor& input) {
  return input.is_complex() ? eq(imag(input), wrap_number(Scalar(0)))
                            : full_like(input, Scalar(true), DType::Bool);
}

Tensor ldexp(const Tensor& input, const Tensor& other) {
  Tensor factor = pow(wrap_number(Scalar(2.0)), other);
  return input * (is_reduced(input.dtype()) && is_integral_or_bool(other.dtype())
                      ? to(factor, input.dtype())
                      : factor);
}

Tensor positive(const Tensor& input) {
  check(input.dtype() != DType::Bool,
        "positive: the `+` operator, on a bool tensor is not supported");
  return input;
}

Tensor polar(const Tensor& size, const Tensor& angle) {
  return complex(size * cos(angle), size * sin(angle));
}

Tensor clamp(const Tensor& input, const std::optional<Scalar>& min,
             const std::optional<Scalar>& max) {
  check(min || max, "clamp: At least one of 'min' or 'max' must not be None");
  return clamp(input, min ? wrap_number(*min) : Tensor(), max ? wrap_number(*max) : Tensor());
}

Tensor clamp(const Tensor& input, const Tensor& min, const Tensor& max) {
  check(min.defined() || max.defined(), "clamp: At least one of 'min' or 'max' must not be None");
  if (!max.defined()) return clamp_min(input, min);
  return min.defined() ? clamp_range(input, min, max) : clamp_max(input, max);
}

Tensor functional_hardtanh(const Tensor& input, double min_val, double max_val, bool inplace) {
  check_value(min_val <= max_val, "hardtanh: min_val cannot be greater than max_val, got ", min_val,
              " and ", max_val);
  check(input.dtype() != DType::Bool, "hardtanh: Bool inputs not supported for hardtanh");
  return inplace ? hardtanh_(input, min_val, max_val) : hardtanh(input, min_val, max_val);
}

Tensor prelu(const Tensor& input, const Tensor& weight) {
  check(input.dtype() == weight.dtype(), "prelu: Type promoting not supported. Got ", input.dtype(),
        " and ", weight.dtype());
  check(weight.dim() <= 1,
        "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = ", weight.dim());
  check(weight.numel() == 1 || input.dim() > 0, "prelu: Not allow zero-dim input tensor.");
  if (weight.numel() == 1) return prelu_kernel(input, reshape(weight, Dims()));
  int64_t channels = input.dim() > 1 ? input.sizes()[1] : 1;
  check(weight.numel() == channels,
        "prelu: Mismatch of parameter numbers and input channel size. Found parameter numbers = ",
        weight.numel(), " and channel size = ", channels, ".");
  Dims sizes(input.dim(), 1);
  sizes[1] = channels;
  return prelu_kernel(input, reshape(weight, sizes));
}

Tensor gelu(const Tensor& input, const std::string& approximate) {
  check(approximate == "none" || approximate == "tanh",
        "gelu: approximate argument must be either none or tanh, got ", approximate);
  return approximate == "none" ? gelu_erf(input) : gelu_tanh(input);
}

}  // namespace ops

namespace grad {
Scalar checked_alpha(const Scalar& alpha) {
  check(!alpha.equals(0), "celu: ZeroDivisionError: alpha cannot be 0 for CELU");
  return alpha;
}
}  // namespace grad
}  // namespace rl
