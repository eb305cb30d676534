// Special functions made of others.
#include <cmath>

#include "dispatch/generated.h"
#include "ops_create.h"
#include "ops_reduction.h"
#include "ops_shape.h"
#include "ops_special.h"
#include "ops_unary.h"

namespace rl::grad {

Tensor missing_gradient(const char* what) {
  fail(ErrorKind::NotImplemented, "the derivative for '", what, "' is not implemented");
}

}  // namespace rl::grad

namespace rl::ops {

// p (p - 1) / 4 log(pi) + sum over i < p of lgamma(x - i / 2).
Tensor mvlgamma(const Tensor& input, int64_t p) {
  check(p >= 1, "mvlgamma: p has to be greater than or equal to 1, got ", p);
  check(input.dtype() != DType::Bool && !input.is_complex(), "mvlgamma: not implemented for dtype ",
        input.dtype());
  Tensor halves = arange(Scalar(0), Scalar(p), Scalar(1), default_dtype()) * Scalar(-0.5);
  Tensor terms = lgamma(unsqueeze(input, -1) +
                        to(halves, input.is_floating() ? input.dtype() : default_dtype()));
  double p_value = static_cast<double>(p);
  return sum(terms, Dims{-1}, false) + Scalar(0.25 * std::log(M_PI) * p_value * (p_value - 1));
}

}  // namespace rl::ops
