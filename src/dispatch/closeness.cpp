// Comparison of whole tensors.
#include "dispatch/generated.h"
#include "dispatch/guards.h"
#include "ops_basic.h"
#include "ops_closeness.h"
#include "ops_create.h"
#include "ops_reduction.h"

namespace rl::ops {
namespace {
bool truth(const char* op, const Tensor& t) {
  check_elements(op, t);
  return item<bool>(to_dtype(t, DType::Bool));
}
}  // namespace

Tensor isclose(const Tensor& input, const Tensor& other, double rtol, double atol, bool equal_nan) {
  check(input.dtype() == other.dtype(), "isclose: ", input.dtype(), " did not match ",
        other.dtype());
  check(rtol >= 0, "isclose: rtol must be greater than or equal to zero, but got ", rtol);
  check(atol >= 0, "isclose: atol must be greater than or equal to zero, but got ", atol);
  NoGradGuard guard;
  Tensor close = eq(input, other);
  if (equal_nan && is_differentiable(input.dtype()))
    close = logical_or(close, logical_and(ne(input, input), ne(other, other)));
  if (rtol == 0 && atol == 0) return close;
  bool exact = is_integral_or_bool(input.dtype());
  Tensor a = exact ? to(input, default_dtype()) : input,
         b = exact ? to(other, default_dtype()) : other;
  Tensor distance = abs(a - b), allowed = abs(b * Scalar(rtol)) + Scalar(atol);
  return logical_or(close, logical_and(isfinite(distance), le(distance, allowed)));
}

bool allclose(const Tensor& input, const Tensor& other, double rtol, double atol, bool equal_nan) {
  return truth("allclose", all(isclose(input, other, rtol, atol, equal_nan)));
}

bool equal(const Tensor& input, const Tensor& other) {
  if (input.sizes() != other.sizes()) return false;
  NoGradGuard guard;
  return truth("equal", all(eq(input, other)));
}

bool is_same_size(const Tensor& input, const Tensor& other) {
  return input.sizes() == other.sizes();
}

}  // namespace rl::ops
