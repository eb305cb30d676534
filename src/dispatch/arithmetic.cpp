// Arithmetic rows that choose between loops.
#include <cmath>
#include <cstring>
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
  if (other.numel() == 0 || input.numel() == 0) return;
  bool number = other.impl()->wrapped_number && other.dtype() == DType::Int64;
  bool possible = number ? item<int64_t>(other) != 0
                         : item_or(unrecorded([&] { return ops::all(other); }), true);
  check(possible, op, ": ZeroDivisionError: an integer is divided by 0");
}

void check_own_number(const char* op, const Scalar& value, const Tensor& input) {
  constexpr double largest = std::numeric_limits<float>::max();
  bool moderate = value.is_floating() && std::fabs(value.real()) <= largest;
  if (!moderate || !is_floating(input.dtype())) check_fits(op, value, compute_dtype(input.dtype()));
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

void check_kind_of_factor(const char* op, const char* name, const Scalar& factor, DType result) {
  check(!factor.is_bool() || result == DType::Bool, op, ": Boolean ", name,
        " only supported for Boolean results, got a result of ", result);
  check(!factor.is_floating() || !is_integral_or_bool(result), op,
        ": For integral input tensors, argument ", name,
        " must not be a floating point number, got ", factor, " beside ", result);
  check(!factor.is_complex() || is_complex(result), op,
        ": For non-complex input tensors, argument ", name, " must not be a complex number, got ",
        factor, " beside ", result);
}

void check_same_dtype(const char* op, const Tensor& input, const char* name, const Tensor& other) {
  check(input.dtype() == other.dtype(), op,
        ": not implemented for tensors of different dtypes: ", "expected dtype ", input.dtype(),
        " for `", name, "`, got ", other.dtype());
}

void check_lerp(const Tensor& input, const Tensor& end, const Tensor& weight) {
  check_same_dtype("lerp", input, "end", end);
  if (weight.dim() > 0) return check_same_dtype("lerp", input, "weight", weight);
  check_implemented(!is_integral_or_bool(input.dtype()), "lerp: not implemented for dtype ",
                    input.dtype());
  check(is_complex(input.dtype()) || !is_complex(weight.dtype()), "lerp: a complex weight needs ",
        "complex tensors, got ", input.dtype());
}

void check_addcdiv(const Tensor& input, const Tensor& tensor1, const Tensor& tensor2,
                   const Scalar& value) {
  check(!is_integral_or_bool(tensor1.dtype()) || !is_integral_or_bool(tensor2.dtype()),
        "Integer division with addcdiv is no longer supported, got tensor1 of ", tensor1.dtype(),
        " and tensor2 of ", tensor2.dtype(),
        "; make one of them floating point, or use input + value * torch.trunc(tensor1 / tensor2)");
  check_real("addcdiv", "value", value, input, tensor1, tensor2);
}

namespace impl {

namespace {
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

Tensor nextafter(const Tensor& input, const Tensor& other, const Tensor& out) {
  DType common = result_type(input, other);
  return written_to(out,
                    is_reduced(common)
                        ? next_reduced(ops::to(input, common), ops::to(other, common))
                        : ops::nextafter_elements(input, other),
                    "nextafter_");
}

// std::frexp, by the bits of numbers that are neither 0, tiny, infinite nor NaN.
static double split_number(double x, int32_t* exponent) {
  constexpr uint64_t one = uint64_t(1) << 52, all = 0x7ff * one;
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  if ((bits & all) == 0 || (bits & all) == all) return std::frexp(x, exponent);
  *exponent = static_cast<int32_t>((bits & all) / one) - 1022;
  bits = (bits & ~all) | 1022 * one;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

std::array<Tensor, 2> frexp(const Tensor& input) {
  check(input.is_floating(), "frexp: only supports floating-point dtypes, got ", input.dtype());
  Tensor from = on_host(ops::contiguous(input)),
         exponent = rl::empty(input.sizes(), options(input, DType::Int32));
  Tensor mantissa = written_by_host(rl::empty(input.sizes(), options(input)), [&](const Tensor& m) {
    exponent = written_by_host(exponent, [&](const Tensor& e) {
      visit_floating("frexp", input.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        const T* x = from.data<T>();
        T* mantissas = m.data<T>();
        int32_t* exponents = e.data<int32_t>();
        for (int64_t i = 0; i < from.numel(); ++i)
          mantissas[i] = static_cast<T>(split_number(static_cast<double>(x[i]), exponents + i));
      });
    });
  });
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

namespace grad {
Scalar checked_alpha(const Scalar& alpha) {
  check(!alpha.equals(0), "celu: ZeroDivisionError: alpha cannot be 0 for CELU");
  return alpha;
}
}  // namespace grad
}  // namespace rl
