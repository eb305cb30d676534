// Differences, integrals, statistics and products of vectors.
#include <algorithm>
#include <cmath>

#include "autograd/geometry.h"
#include "core/warning.h"
#include "dispatch/generated.h"
#include "dispatch/host_elements.h"
#include "ops_basic.h"
#include "ops_calculus.h"
#include "ops_create.h"
#include "ops_indexing.h"
#include "ops_matrix.h"
#include "ops_reduction.h"
#include "ops_shape.h"

namespace rl::grad {

Tensor trace_backward(const Tensor& grad, IntSpan sizes) {
  Tensor result = zeros_of(grad, sizes);
  ops::copy_(ops::diagonal(result, 0, 0, 1), grad);
  return result;
}

}  // namespace rl::grad

namespace rl::ops {

Tensor diff(const Tensor& input, int64_t n, int64_t dim, const Tensor& prepend,
            const Tensor& append) {
  check(input.dim() > 0, "diff: expects input to be at least one-dimensional");
  check(n >= 0, "diff: order must be non-negative but got ", n);
  int64_t d = wrap_dim(dim, input.dim(), "diff");
  TensorList parts;
  for (const Tensor& t : {prepend, input, append})
    if (t.defined()) {
      check(t.dim() == input.dim(),
            "diff: expects prepend or append to be the same dimension as input, got shapes ",
            t.sizes(), " and ", input.sizes());
      parts.push_back(t);
    }
  Tensor t = parts.size() > 1 ? cat(parts, d) : input;
  if (n == 0) return clone(input);
  for (; n > 0 && t.sizes()[d] > 0; --n) {
    Tensor later = slice(t, d, 1, std::nullopt, 1), sooner = slice(t, d, 0, t.sizes()[d] - 1, 1);
    t = t.dtype() == DType::Bool ? logical_xor(later, sooner) : later - sooner;
  }
  return t;
}

namespace {

// Twice the areas of the strips between neighbours along dim `d`.
Tensor strips(const Tensor& y, const Tensor& width, int64_t d) {
  int64_t n = y.sizes()[d];
  Tensor heights = slice(y, d, 1, std::nullopt, 1) + slice(y, d, 0, std::max<int64_t>(n - 1, 0), 1);
  return heights * width;
}

void check_not_bool(const Tensor& t, const char* op) {
  check(t.dtype() != DType::Bool, op, ": received a bool input, but bool is not supported");
}

Tensor strips_at(const char* op, const Tensor& y, const Tensor& x, int64_t dim) {
  int64_t d = wrap_dim(dim, y.dim(), op);
  check_not_bool(y, op);
  check_not_bool(x, op);
  check(x.dim() > 0, op, ": x must have at least one dim");
  if (x.dim() != 1) {
    int64_t at = wrap_dim(dim, x.dim(), op);
    return strips(y,
                  slice(x, at, 1, std::nullopt, 1) -
                      slice(x, at, 0, std::max<int64_t>(x.sizes()[at] - 1, 0), 1),
                  d);
  }
  check(x.sizes()[0] == y.sizes()[d], op,
        ": There must be one `x` value for each sample point, got ", x.sizes()[0], " and ",
        y.sizes()[d]);
  Dims sizes(y.dim(), 1);
  sizes[d] = std::max<int64_t>(x.numel() - 1, 0);
  return strips(y, reshape(slice(x, 0, 1, std::nullopt, 1) - slice(x, 0, 0, sizes[d], 1), sizes),
                d);
}

void check_spacing(const char* op, const Tensor& y, const Scalar& dx) {
  check_not_bool(y, op);
  check(!dx.is_complex() && !dx.is_bool(), op, ": Currently, we only support dx as a real number");
}

// An integral over no point at all is 0.
Tensor no_points(const Tensor& y, int64_t dim) {
  Dims sizes = y.sizes();
  sizes.erase(wrap_dim(dim, y.dim(), "trapezoid"));
  return zeros(sizes, y.dtype(), {}, y.device());
}

}  // namespace

Tensor trapezoid(const Tensor& y, const Tensor& x, int64_t dim) {
  if (y.size(dim) == 0) return no_points(y, dim);
  return sum(strips_at("trapezoid", y, x, dim), Dims{dim}) / Scalar(2);
}
// The sum, less half of both ends: a pass over y alone.
Tensor trapezoid(const Tensor& y, const Scalar& dx, int64_t dim) {
  if (y.size(dim) == 0) return no_points(y, dim);
  check_spacing("trapezoid", y, dx);
  Tensor ends = select(y, dim, 0) + select(y, dim, -1);
  return (sum(y, Dims{dim}) - ends * Scalar(0.5)) * wrap_number(dx);
}
Tensor cumulative_trapezoid(const Tensor& y, const Tensor& x, int64_t dim) {
  return cumsum(strips_at("cumulative_trapezoid", y, x, dim), dim) / Scalar(2);
}
Tensor cumulative_trapezoid(const Tensor& y, const Scalar& dx, int64_t dim) {
  check_spacing("cumulative_trapezoid", y, dx);
  int64_t d = wrap_dim(dim, y.dim(), "cumulative_trapezoid");
  return cumsum(strips(y, wrap_number(dx), d), d) / Scalar(2);
}

namespace {

void check_weights(const Tensor& w, const Tensor& input, const char* name) {
  check(w.dim() <= 1, "cov: expected ", name, " to have one or fewer dimensions but got ", w.dim());
  int64_t count = input.dim() ? input.sizes().back() : 1;
  check(w.numel() == count, "cov: expected ", name,
        " to have the same numel as there are observations, got ", w.numel(), " and ", count);
  if (w.is_meta() || w.numel() == 0) return;
  check(item<double>(min(w)) >= 0, "cov: ", name, " cannot be negative");
}

}  // namespace

Tensor cov(const Tensor& input, int64_t correction, const Tensor& fweights,
           const Tensor& aweights) {
  check(input.dim() <= 2,
        "cov: expected input to have two or fewer dimensions but got an input with ", input.dim(),
        " dimensions");
  check(input.dtype() != DType::Bool, "cov: bool dtype is not supported for input");
  Tensor x = input.dim() < 2 ? reshape(input, Dims{1, -1}) : input, weights;
  if (fweights.defined()) {
    check(is_integral(fweights.dtype()),
          "cov: expected fweights to have integral dtype but got fweights with ", fweights.dtype());
    check_weights(fweights, input, "fweights");
    weights = reshape(fweights, Dims{-1});
  }
  if (aweights.defined()) {
    check(aweights.is_floating(),
          "cov: expected aweights to have floating point dtype but got aweights with ",
          aweights.dtype());
    check_weights(aweights, input, "aweights");
    Tensor given = reshape(aweights, Dims{-1});
    weights = weights.defined() ? weights * given : given;
  }
  Tensor total = weights.defined() ? sum(weights) : wrap_number(Scalar(x.sizes()[1]));
  Tensor average =
      weights.defined()
          ? sum(x * weights, Dims{1}, true) / total
          : mean(is_integral_or_bool(x.dtype()) ? to(x, default_dtype()) : x, Dims{1}, true);
  Tensor norm = correction == 0      ? total
                : aweights.defined() ? total - sum(weights * aweights) * Scalar(correction) / total
                                     : total - Scalar(correction);
  if (!weights.defined() && x.sizes()[1] <= correction)
    warn(
        "cov: degrees of freedom is <= 0: correction should be less than the number of "
        "observations");
  norm = maximum(norm, zeros_like(norm));
  Tensor centred = x - average;
  Tensor weighed = conj_now(weights.defined() ? centred * weights : centred);
  DType common = rl::result_type(centred, weighed);
  Tensor products = mm(to(centred, common), t(to(weighed, common)));
  Tensor result = products / norm;
  if (input.dim() < 2) return reshape(result, Dims());
  return result.numel() == 1 ? reshape(result, Dims()) : result;
}

Tensor renorm(const Tensor& input, const Scalar& p, int64_t dim, const Scalar& maxnorm) {
  check(!p.is_complex() && p.real() > 0, "renorm: non-positive norm not supported, got p = ", p);
  check(!maxnorm.is_complex() && maxnorm.real() >= 0,
        "renorm: expected maxnorm to be >= 0 but got ", maxnorm);
  check(input.dim() > 1, "renorm: input needs at least 2 dimensions, got ", input.dim(),
        " dimensions");
  int64_t d = wrap_dim(dim, input.dim(), "renorm");
  if (is_reduced(input.dtype()))  // whose norms overflow where the result does not
    return to(renorm(to(input, DType::Float32), p, dim, maxnorm), input.dtype());
  Dims others;
  for (int64_t i = 0; i < input.dim(); ++i)
    if (i != d) others.push_back(i);
  Tensor norm = vector_norm(input, p, others, true), large = gt(norm, wrap_number(maxnorm));
  // Slices that stay as they are have no norm in the graph: its derivative may be NaN.
  if (grad_enabled() && input.requires_grad())
    norm = vector_norm(where(large, input, wrap_number(Scalar(0))), p, others, true);
  Tensor factor = where(large, wrap_number(maxnorm) / (norm + Scalar(1e-7)), ones_like(norm));
  return contiguous(input * to(factor, norm.dtype()));
}

Tensor kron(const Tensor& input, const Tensor& other) {
  int64_t ndim = std::max(input.dim(), other.dim());
  Dims left, right, sizes;
  for (int64_t d = 0; d < ndim; ++d) {
    int64_t a = d < ndim - input.dim() ? 1 : input.sizes()[d - ndim + input.dim()];
    int64_t b = d < ndim - other.dim() ? 1 : other.sizes()[d - ndim + other.dim()];
    left.push_back(a);
    left.push_back(1);
    right.push_back(1);
    right.push_back(b);
    sizes.push_back(product(Dims{a, b}));
  }
  return without_base(reshape(reshape(input, left) * reshape(other, right), sizes));
}

namespace {
// n over r, or so many that no memory holds them.
int64_t choices(int64_t n, int64_t r) {
  double estimate = 1;
  __int128 count = 1;
  for (int64_t i = 1; i <= std::min(r, n - r); ++i) {
    estimate = estimate * static_cast<double>(n - i + 1) / static_cast<double>(i);
    if (estimate > static_cast<double>(max_numel)) return max_numel;
    count = count * (n - i + 1) / i;
  }
  return static_cast<int64_t>(count);
}
}  // namespace

Tensor combinations(const Tensor& input, int64_t r, bool with_replacement) {
  check(input.dim() == 1, "combinations: Expect a 1D vector, but got shape ", input.sizes());
  check(r >= 0, "combinations: Expect a non-negative number, but got ", r);
  int64_t n = input.numel();
  if (r == 0) return empty(Dims{0}, input.dtype(), {}, input.device());
  const bool none = n == 0 || (!with_replacement && r > n);
  Tensor index = rl::empty(Dims{none ? 0 : choices(with_replacement ? n + r - 1 : n, r), r},
                           {DType::Int64, input.is_meta() ? input.device() : Device{}});
  if (!index.is_meta() && !none) {  // each row follows the one above in lexicographic order
    int64_t* row = index.data<int64_t>();
    for (int64_t i = 0; i < r; ++i) row[i] = with_replacement ? 0 : i;
    for (int64_t left = index.sizes()[0] - 1; left > 0; --left) {
      const int64_t* above = row;
      row = std::copy(above, above + r, row + r) - r;
      int64_t i = r - 1;
      while (row[i] == (with_replacement ? n - 1 : n - r + i)) --i;
      ++row[i];
      for (int64_t k = i + 1; k < r; ++k) row[k] = with_replacement ? row[i] : row[k - 1] + 1;
    }
  }
  Tensor places = moved_to(reshape(index, Dims{-1}), input.device());
  return without_base(reshape(index_select(input, 0, places), index.sizes()));
}

namespace {
// How many places (row, col) have col - row <= offset; `first` is the first row with such a place.
int64_t count_lower(int64_t rows, int64_t columns, int64_t offset, int64_t& first) {
  first = std::clamp<int64_t>(-offset, 0, rows);
  int64_t full = std::clamp(columns - offset - 1, first, rows);  // from here on, all of a row
  return (full - first) * (first + full + 2 * offset + 1) / 2 + (rows - full) * columns;
}

// Offsets (row, col) of the lower triangle, where col - row <= offset, or of the upper one, where
// it is more; row by row.
Tensor triangle_offsets(const char* op, int64_t rows, int64_t columns, int64_t offset, bool lower,
                        std::optional<DType> dtype, std::optional<Device> device) {
  check(rows >= 0 && columns >= 0, op, ": row and col must be non-negative, got ", rows, " and ",
        columns);
  int64_t all = product(Dims{rows, columns}), count = 0,
          row = 0;  // product: an error beyond max_numel
  offset = std::clamp(offset, -rows, columns);
  if (all > 0) count = count_lower(rows, columns, offset, row);
  if (!lower) count = all - count, row = 0;
  Tensor out = rl::empty(Dims{2, count}, {DType::Int64, Device{}});
  int64_t *row_at = out.data<int64_t>(), *column_at = row_at + count, *end = column_at;
  for (; row_at < end; ++row) {
    int64_t edge = std::clamp<int64_t>(row + offset + 1, 0, columns);
    for (int64_t column = lower ? 0 : edge; column < (lower ? edge : columns); ++column) {
      *row_at++ = row;
      *column_at++ = column;
    }
  }
  return to(out, device, dtype.value_or(DType::Int64));
}
}  // namespace

Tensor tril_indices(int64_t row, int64_t col, int64_t offset, std::optional<DType> dtype,
                    std::optional<Device> device, LayoutArgument, bool) {
  return triangle_offsets("tril_indices", row, col, offset, true, dtype, device);
}
Tensor triu_indices(int64_t row, int64_t col, int64_t offset, std::optional<DType> dtype,
                    std::optional<Device> device, LayoutArgument, bool) {
  return triangle_offsets("triu_indices", row, col, offset > INT64_MIN ? offset - 1 : offset, false,
                          dtype, device);
}

}  // namespace rl::ops
