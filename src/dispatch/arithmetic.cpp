// Arithmetic rows that choose between loops.
#include "dispatch/generated.h"

namespace rl {
namespace impl {

Tensor pow(const Tensor& input, const Scalar& exponent) {
  check(!(is_integral_or_bool(input.dtype()) && exponent.is_integral() && exponent.to<int64_t>() < 0),
        "pow: Integers to negative integer powers are not allowed, got exponent ", exponent);
  bool floats = is_differentiable(input.dtype()) && (!exponent.is_complex() || input.is_complex());
  if (floats && !exponent.is_complex()) {
    double p = exponent.real();
    if (p == 2) return ops::square(input);
    if (p == 3) return ops::square(input) * input;
    if (p == 0.5) return ops::sqrt(input);
    if (p == -0.5) return ops::rsqrt(input);
    if (p == -1) return ops::reciprocal(input);
    if (p == 1) return clone(input);
  }
  return ops::pow(input, wrap_number(exponent));
}

}  // namespace impl

namespace ops {

Tensor clamp(const Tensor& input, const std::optional<Scalar>& min, const std::optional<Scalar>& max) {
  check(min || max, "clamp: At least one of 'min' or 'max' must not be None");
  return clamp(input, min ? wrap_number(*min) : Tensor(), max ? wrap_number(*max) : Tensor());
}

Tensor clamp(const Tensor& input, const Tensor& min, const Tensor& max) {
  check(min.defined() || max.defined(), "clamp: At least one of 'min' or 'max' must not be None");
  if (!max.defined()) return clamp_min(input, min);
  return min.defined() ? clamp_range(input, min, max) : clamp_max(input, max);
}

Tensor functional_hardtanh(const Tensor& input, double min_val, double max_val, bool inplace) {
  check_value(min_val <= max_val, "hardtanh: min_val cannot be greater than max_val, got ", min_val, " and ", max_val);
  check(input.dtype() != DType::Bool, "hardtanh: Bool inputs not supported for hardtanh");
  return inplace ? hardtanh_(input, min_val, max_val) : hardtanh(input, min_val, max_val);
}

Tensor gelu(const Tensor& input, const std::string& approximate) {
  check(approximate == "none" || approximate == "tanh", "gelu: approximate argument must be either none or tanh, got ", approximate);
  return approximate == "none" ? gelu_erf(input) : gelu_tanh(input);
}

}  // namespace ops
}  // namespace rl
