// Distances between rows.

#include <cmath>

#include "dispatch/linalg.h"
#include "impl_distance.h"
#include "launch_distance.h"
#include "ops_basic.h"
#include "ops_calculus.h"
#include "ops_create.h"
#include "ops_distance.h"
#include "ops_indexing.h"
#include "ops_matrix.h"
#include "ops_reduction.h"
#include "ops_shape.h"

namespace rl {
namespace impl {

Tensor cdist_kernel(const Tensor& x1, const Tensor& x2, double p) {
  Tensor out = rl::empty(with_matrix(batch_of(x1), x1.size(-2), x2.size(-2)), options(x1));
  Tensor a = ops::contiguous(x1), b = ops::contiguous(x2);
  launch::pair_distances(a, b, p, out);
  return out;
}

Tensor pdist_kernel(const Tensor& input, double p) {
  int64_t n = input.size(0);
  int64_t pairs = n % 2 ? product(Dims{n, (n - 1) / 2}) : product(Dims{n / 2, n ? n - 1 : 0});
  Tensor out = rl::empty(Dims{pairs}, options(input));
  launch::own_distances(ops::contiguous(input), p, out);
  return out;
}

}  // namespace impl

namespace ops {
namespace {

void check_rows(const char* op, const Tensor& x, const char* name) {
  check(x.is_floating(), op, " only supports floating-point dtypes, ", name, " got: ", x.dtype());
}

// Of rows and ones beside their squares: |a|^2 + |b|^2 - 2 a b.
Tensor euclidean_distances(const Tensor& x1, const Tensor& x2) {
  Tensor left = sum(square(x1), Dims{-1}, true), right = sum(square(x2), Dims{-1}, true);
  Tensor squares = matmul(cat({x1 * Scalar(-2), left, ones_like(left)}, -1),
                          transpose(cat({x2, ones_like(right), right}, -1), -2, -1));
  if (!records(squares)) return sqrt_(clamp_min_(squares, wrap_number(Scalar(0))));
  // Below 0 by rounding; the distance 0 has no slope, its gradient is 0.
  Tensor zero = wrap_number(Scalar(0)), near = le(squares, zero);
  return where(near, zero, sqrt(where(near, wrap_number(Scalar(1)), squares)));
}

}  // namespace

Tensor cdist(const Tensor& x1, const Tensor& x2, double p, const std::string& compute_mode) {
  check_rows("cdist", x1, "X1");
  check_rows("cdist", x2, "X2");
  check(x1.dim() >= 2, "cdist only supports at least 2D tensors, X1 got: ", x1.dim(), "D");
  check(x2.dim() >= 2, "cdist only supports at least 2D tensors, X2 got: ", x2.dim(), "D");
  bool always = compute_mode == "use_mm_for_euclid_dist",
       if_many = compute_mode == "use_mm_for_euclid_dist_if_necessary";
  if (!always && !if_many && compute_mode != "donot_use_mm_for_euclid_dist")
    fail(ErrorKind::Value, compute_mode, " is not a valid value for compute_mode");
  check(x1.size(-1) == x2.size(-1),
        "X1 and X2 must have the same number of columns. X1: ", x1.size(-1), " X2: ", x2.size(-1));
  check(p >= 0, "cdist only supports non-negative p values");
  check(x1.dtype() == x2.dtype(), "cdist: expected X1 and X2 to have the same dtype, got ",
        x1.dtype(), " and ", x2.dtype());
  if (p == 2 && (always || (if_many && std::max(x1.size(-2), x2.size(-2)) > 25)))
    return euclidean_distances(x1, x2);
  if (is_reduced(x1.dtype()))
    return to(cdist(to(x1, DType::Float32), to(x2, DType::Float32), p, compute_mode), x1.dtype());
  Dims batch = broadcast_sizes(batch_of(x1), batch_of(x2), "cdist");
  return cdist_kernel(expand(x1, with_matrix(batch, x1.size(-2), x1.size(-1))),
                      expand(x2, with_matrix(batch, x2.size(-2), x2.size(-1))), p);
}

Tensor pdist(const Tensor& input, double p) {
  check_rows("pdist", input, "input");
  check(input.dim() == 2, "pdist only supports 2D tensors, got: ", input.dim(), "D");
  check(p >= 0, "pdist only supports non-negative p values");
  if (is_reduced(input.dtype()))
    return to(pdist_kernel(to(input, DType::Float32), p), input.dtype());
  return pdist_kernel(input, p);
}

}  // namespace ops

namespace grad {

using namespace ops;

namespace {

// Made of differentiable ops: the gradient by a, less that by b, of distances of a - b.
Tensor difference_gradient(const Tensor& grad, const Tensor& difference, double p,
                           const Tensor& distance) {
  Tensor zero = wrap_number(Scalar(0)), weight = unsqueeze(grad, -1), far = unsqueeze(distance, -1);
  if (p == 1) return weight * sgn(difference);
  if (std::isinf(p)) return weight * sgn(difference) * eq(abs(difference), far);
  // Where it is 0, the derivative of the quotient would be NaN, and not 0 for being masked.
  Tensor none = eq(far, zero), divisor = where(none, wrap_number(Scalar(1)), far);
  if (p == 2) return difference * where(none, zero, weight / divisor);
  weight = where(none, zero, weight / pow(divisor, Scalar(p - 1)));
  Tensor same = eq(difference, zero), size = where(same, wrap_number(Scalar(1)), abs(difference));
  return where(same, zero, weight * sgn(difference) * pow(size, Scalar(p - 1)));
}

Tensor row_gradient(const Tensor& grad, const Tensor& distances, const Tensor& a, const Tensor& b,
                    double p, bool by_columns) {
  Tensor out = rl::empty(a.sizes(), options(a));
  launch::pair_distance_gradient(grad, distances, a, b, p, by_columns, out);
  return out;
}

}  // namespace

std::array<Tensor, 2> cdist_gradients(const Tensor& grad, const Tensor& x1, const Tensor& x2,
                                      double p, const Tensor& out, bool of_x1, bool of_x2) {
  std::array<Tensor, 2> result;
  if (p == 0) return {zeros_like(x1), zeros_like(x2)};
  if (grad_enabled()) {
    Tensor g = difference_gradient(grad, unsqueeze(x1, -2) - unsqueeze(x2, -3), p, out);
    if (of_x1) result[0] = sum(g, Dims{-2}, false);
    if (of_x2) result[1] = neg(sum(g, Dims{-3}, false));
    return result;
  }
  Tensor g = contiguous(grad), a = contiguous(x1), b = contiguous(x2);
  if (of_x1) result[0] = row_gradient(g, out, a, b, p, false);
  if (of_x2) result[1] = row_gradient(g, out, b, a, p, true);
  return result;
}

Tensor pdist_gradient(const Tensor& grad, const Tensor& input, double p, const Tensor& out) {
  if (p == 0) return zeros_like(input);
  if (grad_enabled()) {
    int64_t n = input.size(0);
    Tensor places = triu_indices(n, n, 1, std::nullopt, input.device(), {}, false);
    Tensor first = select(places, 0, 0), second = select(places, 0, 1);
    Tensor g = difference_gradient(
        grad, index_select(input, 0, first) - index_select(input, 0, second), p, out);
    return index_add(index_add(zeros_like(input), 0, first, g, Scalar(1)), 0, second, g,
                     Scalar(-1));
  }
  Tensor result = rl::empty(input.sizes(), options(input));
  launch::own_distance_gradient(contiguous(grad), out, contiguous(input), p, result);
  return result;
}

}  // namespace grad
}  // namespace rl
