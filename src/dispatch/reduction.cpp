// Reductions and scans.
#include <cmath>

#include "core/warning.h"
#include "dispatch/generated.h"
#include "dispatch/guards.h"
#include "dispatch/shape_rules.h"
#include "ops_create.h"
#include "ops_reduction.h"
#include "ops_shape.h"

namespace rl {
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
  if (correction) check_real_number(op, "correction", *correction);
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

}  // namespace grad
}  // namespace rl
