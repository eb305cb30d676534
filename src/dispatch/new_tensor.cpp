#include "dispatch/new_tensor.h"

#include <limits>

#include "launch_copy.h"

namespace rl {

void fill_with_nan(const Tensor& t) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Scalar value(nan);
  if (is_integral_or_bool(t.dtype()))
    visit_integral_bool("empty", t.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      value = Scalar(static_cast<int64_t>(std::numeric_limits<compute_t<T>>::max()));
    });
  launch::fill(t, value);
}

void ask_gradient(const Tensor& t, const char* op) {
  check(is_differentiable(t.dtype()), op,
        ": Only Tensors of floating point and complex dtype can require gradients, got ",
        t.dtype());
  t.impl()->requires_grad = true;
}

}  // namespace rl
