// Reductions and scans.
#include <cmath>

#include "core/warning.h"
#include "dispatch/generated.h"
#include "dispatch/in_gradient.h"
#include "kernels/copy.h"
#include "kernels/reduce.h"
#include "kernels/scan.h"

namespace rl {
namespace impl {
namespace {

struct Reduced {
  Dims kept;     // sizes with 1 in the reduced dims
  Dims dropped;  // sizes without them
};

// Which dims are reduced: all when none is named.
Reduced reduced_sizes(const Tensor& input, IntSpan dims, const char* op) {
  bool reduce[max_dims] = {};
  for (int64_t d : dims) {
    int64_t at = wrap_dim(d, input.dim(), op);
    check(!reduce[at], op, ": dim ", at, " appears multiple times in the list of dims");
    reduce[at] = true;
  }
  Reduced r;
  for (int64_t d = 0; d < input.dim(); ++d) {
    bool gone = dims.empty() || reduce[d];
    r.kept.push_back(gone ? 1 : input.sizes()[d]);
    if (!gone) r.dropped.push_back(input.sizes()[d]);
  }
  return r;
}

using ReduceKernel = void (*)(const View&, const View&);

Tensor drop_dims(const Tensor& out, const Reduced& sizes, bool keepdim) {
  return keepdim ? out : alias(out, sizes.dropped, contiguous_strides(sizes.dropped), 0);
}

template <class Kernel>
Tensor reduce(const char* op, const Tensor& input, IntSpan dims, bool keepdim, DType dtype,
              Kernel&& kernel) {
  Reduced sizes = reduced_sizes(input, dims, op);
  Tensor out = rl::empty(keepdim ? sizes.kept : sizes.dropped, options(input, dtype));
  if (out.is_meta()) return out;
  View to = out.view();
  Dims strides = contiguous_strides(sizes.kept);
  to.sizes = sizes.kept.data();
  to.strides = strides.data();
  to.ndim = sizes.kept.size();
  kernel(AsItLies(input).view(), to);
  return out;
}

Tensor converted(const Tensor& input, std::optional<DType> dtype) {
  return dtype && *dtype != input.dtype() ? to_dtype(input, dtype) : input;
}
DType sum_dtype(const Tensor& input, std::optional<DType> dtype) {
  return dtype.value_or(is_integral_or_bool(input.dtype()) ? DType::Int64 : input.dtype());
}
void check_real(const Tensor& input, const char* op) {
  check_implemented(!input.is_complex(), op, ": not implemented for dtype ", input.dtype());
}
// The reduced dims must hold an element.
void check_not_empty(const Tensor& input, IntSpan dims, const char* op) {
  if (input.numel() > 0) return;
  check_index(!dims.empty(), op,
              ": Expected reduction dim to be specified for input.numel() == 0. Specify the "
              "reduction dim with the "
              "'dim' argument.");
  for (int64_t d : dims)
    check_index(input.dim() == 0 || input.sizes()[wrap_dim(d, input.dim(), op)] > 0, op,
                ": Expected reduction dim ", d, " to have non-zero size, got shape ",
                input.sizes());
}

}  // namespace

Tensor sum(const Tensor& input, const std::optional<Dims>& dim, bool keepdim,
           std::optional<DType> dtype) {
  Tensor from = converted(input, dtype);
  return reduce("sum", from, dim.value_or(Dims()), keepdim, sum_dtype(input, dtype), kernels::sum);
}
Tensor sum(const Tensor& input, std::optional<DType> dtype) {
  return sum(input, std::optional<Dims>(), false, dtype);
}

Tensor nansum(const Tensor& input, const std::optional<Dims>& dim, bool keepdim,
              std::optional<DType> dtype) {
  check(!input.is_complex(), "nansum: does not support complex inputs");
  Tensor from = converted(input, dtype);
  if (!from.is_floating()) return sum(from, dim, keepdim, dtype);
  return reduce("nansum", from, dim.value_or(Dims()), keepdim, from.dtype(), kernels::nansum);
}

Tensor mean(const Tensor& input, const std::optional<Dims>& dim, bool keepdim,
            std::optional<DType> dtype) {
  DType type = dtype.value_or(input.dtype());
  check(is_differentiable(type),
        "mean(): could not infer output dtype. Input dtype must be either a floating point or "
        "complex dtype. Got: ",
        type);
  Tensor from = converted(input, dtype);
  Tensor total = reduce("mean", from, dim.value_or(Dims()), keepdim,
                        is_reduced(type) ? DType::Float32 : type, kernels::sum);
  double count =
      total.numel() ? static_cast<double>(input.numel()) / static_cast<double>(total.numel()) : 0;
  ops::div_(total, wrap_number(Scalar(count)));
  return converted(total, type);
}
Tensor mean(const Tensor& input, std::optional<DType> dtype) {
  return mean(input, std::optional<Dims>(), false, dtype);
}

Tensor prod(const Tensor& input, std::optional<DType> dtype) {
  return reduce("prod", converted(input, dtype), {}, false, sum_dtype(input, dtype), kernels::prod);
}
Tensor prod(const Tensor& input, int64_t dim, bool keepdim, std::optional<DType> dtype) {
  return reduce("prod", converted(input, dtype), Dims{dim}, keepdim, sum_dtype(input, dtype),
                kernels::prod);
}

Tensor amax(const Tensor& input, const Dims& dim, bool keepdim) {
  check_real(input, "amax");
  check(input.numel() > 0 || !dim.empty(),
        "amax(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
        "reduction "
        "dim with the 'dim' argument.");
  check_not_empty(input, dim, "amax");
  return reduce("amax", input, dim, keepdim, input.dtype(), kernels::amax);
}
Tensor amin(const Tensor& input, const Dims& dim, bool keepdim) {
  check_real(input, "amin");
  check(input.numel() > 0 || !dim.empty(),
        "amin(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
        "reduction "
        "dim with the 'dim' argument.");
  check_not_empty(input, dim, "amin");
  return reduce("amin", input, dim, keepdim, input.dtype(), kernels::amin);
}

namespace {

using PlaceKernel = void (*)(const View&, const View*, const View&);

Tensor extreme(const char* op, const Tensor& input, ReduceKernel kernel) {
  check_real(input, op);
  check(input.numel() > 0, op,
        "(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction "
        "dim with the "
        "'dim' argument.");
  return reduce(op, input, {}, false, input.dtype(), kernel);
}

std::array<Tensor, 2> extreme_with_place(const char* op, const Tensor& input, int64_t dim,
                                         bool keepdim, PlaceKernel kernel) {
  check_real(input, op);
  int64_t d = wrap_dim(dim, input.dim(), op);
  check_not_empty(input, Dims{d}, op);
  Reduced sizes = reduced_sizes(input, Dims{d}, op);
  Tensor values = rl::empty(sizes.kept, options(input)),
         indices = rl::empty(sizes.kept, options(input, DType::Int64));
  if (!values.is_meta()) {
    View v = values.view();
    kernel(input.view(), &v, indices.view());
  }
  return {drop_dims(values, sizes, keepdim), drop_dims(indices, sizes, keepdim)};
}

Tensor place(const char* op, const Tensor& input, std::optional<int64_t> dim, bool keepdim,
             PlaceKernel kernel) {
  check_real(input, op);
  Dims dims = dim ? Dims{wrap_dim(*dim, input.dim(), op)} : Dims();
  check_not_empty(input, dims, op);
  Reduced sizes = reduced_sizes(input, dims, op);
  Tensor indices = rl::empty(sizes.kept, options(input, DType::Int64));
  if (!indices.is_meta()) kernel(input.view(), nullptr, indices.view());
  return drop_dims(indices, sizes, keepdim);
}

}  // namespace

Tensor max(const Tensor& input) { return extreme("max", input, kernels::amax); }
Tensor min(const Tensor& input) { return extreme("min", input, kernels::amin); }
std::array<Tensor, 2> max(const Tensor& input, int64_t dim, bool keepdim) {
  return extreme_with_place("max", input, dim, keepdim, kernels::max_with_index);
}
std::array<Tensor, 2> min(const Tensor& input, int64_t dim, bool keepdim) {
  return extreme_with_place("min", input, dim, keepdim, kernels::min_with_index);
}
Tensor argmax(const Tensor& input, std::optional<int64_t> dim, bool keepdim) {
  return place("argmax", input, dim, keepdim, kernels::max_with_index);
}
Tensor argmin(const Tensor& input, std::optional<int64_t> dim, bool keepdim) {
  return place("argmin", input, dim, keepdim, kernels::min_with_index);
}

namespace {
DType truth_dtype(const Tensor& input) {
  return input.dtype() == DType::UInt8 ? DType::UInt8 : DType::Bool;
}
}  // namespace

Tensor all(const Tensor& input) {
  return reduce("all", input, {}, false, truth_dtype(input), kernels::all);
}
Tensor any(const Tensor& input) {
  return reduce("any", input, {}, false, truth_dtype(input), kernels::any);
}
Tensor all(const Tensor& input, const std::optional<Dims>& dim, bool keepdim) {
  return reduce("all", input, dim.value_or(Dims()), keepdim, truth_dtype(input), kernels::all);
}
Tensor any(const Tensor& input, const std::optional<Dims>& dim, bool keepdim) {
  return reduce("any", input, dim.value_or(Dims()), keepdim, truth_dtype(input), kernels::any);
}
Tensor count_nonzero(const Tensor& input, const std::optional<Dims>& dim) {
  return reduce("count_nonzero", input, dim.value_or(Dims()), false, DType::Int64,
                kernels::count_nonzero);
}

namespace {
std::array<Tensor, 2> statistics(const char* op, const Tensor& input,
                                 const std::optional<Dims>& dim,
                                 const std::optional<Scalar>& correction, bool keepdim, bool root) {
  check(is_differentiable(input.dtype()), op,
        ": only support floating point and complex dtypes, got ", input.dtype());
  Reduced sizes = reduced_sizes(input, dim.value_or(Dims()), op);
  Tensor out = rl::empty(sizes.kept, options(input, to_real(input.dtype()))),
         mean = rl::empty(sizes.kept, options(input));
  if (!out.is_meta()) {
    View m = mean.view();
    double less = correction ? correction->real() : 1;
    if (out.numel() > 0 && static_cast<double>(input.numel() / out.numel()) <= less)
      warn(
          "var and std: degrees of freedom is <= 0. Correction should be strictly less than the "
          "reduction factor (input numel divided by output numel).");
    kernels::var(input.view(), less, root, out.view(), &m);
  }
  return {drop_dims(out, sizes, keepdim), drop_dims(mean, sizes, keepdim)};
}
}  // namespace

Tensor var(const Tensor& input, const std::optional<Dims>& dim,
           const std::optional<Scalar>& correction, bool keepdim) {
  return statistics("var", input, dim, correction, keepdim, false)[0];
}
Tensor std(const Tensor& input, const std::optional<Dims>& dim,
           const std::optional<Scalar>& correction, bool keepdim) {
  return statistics("std", input, dim, correction, keepdim, true)[0];
}

Tensor vector_norm(const Tensor& input, const Scalar& ord, const std::optional<Dims>& dim,
                   bool keepdim, std::optional<DType> dtype) {
  check(is_differentiable(input.dtype()),
        "linalg.vector_norm: Expected a floating point or complex tensor as input. Got ",
        input.dtype());
  Tensor from = converted(input, dtype);
  double p = ord.real();
  return reduce("linalg.vector_norm", from, dim.value_or(Dims()), keepdim, to_real(from.dtype()),
                [&](const View& in, const View& out) { kernels::norm(in, p, out); });
}

Tensor logsumexp(const Tensor& input, const Dims& dim, bool keepdim) {
  Tensor from = is_integral_or_bool(input.dtype()) ? to_dtype(input, default_dtype()) : input;
  if (from.is_complex()) {
    Tensor high = ops::amax(ops::real(from), dim, true);
    high = ops::where(ops::isinf(high), wrap_number(Scalar(0.0)), high);  // inf - inf would be NaN
    Tensor rest = ops::log(ops::sum(ops::exp(from - high), dim, keepdim));
    return rest + (keepdim ? high : ops::view(high, rest.sizes()));
  }
  return reduce("logsumexp", from, dim, keepdim, from.dtype(), kernels::logsumexp);
}

Tensor cumsum(const Tensor& input, int64_t dim, std::optional<DType> dtype, const Tensor& given) {
  int64_t d = wrap_dim(dim, input.dim(), "cumsum");
  Tensor out = empty_unless(given, input, sum_dtype(input, dtype));
  if (!out.is_meta()) kernels::cumsum(input.view(), d, out.view());
  return written_to(given, out, "cumsum_");
}
Tensor cumprod(const Tensor& input, int64_t dim, std::optional<DType> dtype, const Tensor& given) {
  int64_t d = wrap_dim(dim, input.dim(), "cumprod");
  Tensor out = empty_unless(given, input, sum_dtype(input, dtype));
  if (!out.is_meta()) kernels::cumprod(input.view(), d, out.view());
  return written_to(given, out, "cumprod_");
}
Tensor logcumsumexp(const Tensor& input, int64_t dim) {
  int64_t d = wrap_dim(dim, input.dim(), "logcumsumexp");
  Tensor out = rl::empty_like(input);
  if (!out.is_meta()) kernels::logcumsumexp(input.view(), d, out.view());
  return out;
}

namespace {
std::array<Tensor, 2> running_extreme(const char* op, const Tensor& input, int64_t dim,
                                      void (*kernel)(const View&, int64_t, const View&,
                                                     const View&)) {
  check_real(input, op);
  int64_t d = wrap_dim(dim, input.dim(), op);
  Tensor values = rl::empty_like(input), indices = rl::empty_like(input, DType::Int64);
  if (!values.is_meta()) kernel(input.view(), d, values.view(), indices.view());
  return {values, indices};
}
}  // namespace

std::array<Tensor, 2> cummax(const Tensor& input, int64_t dim) {
  return running_extreme("cummax", input, dim, kernels::cummax);
}
std::array<Tensor, 2> cummin(const Tensor& input, int64_t dim) {
  return running_extreme("cummin", input, dim, kernels::cummin);
}

}  // namespace impl

namespace ops {

Tensor nanmean(const Tensor& input, const std::optional<Dims>& dim, bool keepdim,
               std::optional<DType> dtype) {
  check(input.is_floating(), "nanmean: expected input to have floating point dtype but got ",
        input.dtype());
  Tensor count = sum(logical_not(isnan(input)), dim, keepdim);
  return nansum(input, dim, keepdim, dtype) / count;
}

std::array<Tensor, 2> aminmax(const Tensor& input, std::optional<int64_t> dim, bool keepdim) {
  Dims dims = dim ? Dims{*dim} : Dims();
  return {amin(input, dims, keepdim), amax(input, dims, keepdim)};
}

namespace {
std::array<Tensor, 2> with_mean(const Tensor& spread, const Tensor& input,
                                const std::optional<Dims>& dim, bool keepdim) {
  return {spread, mean(input, dim, keepdim)};
}
}  // namespace

std::array<Tensor, 2> var_mean(const Tensor& input, const std::optional<Dims>& dim,
                               const std::optional<Scalar>& correction, bool keepdim) {
  return with_mean(var(input, dim, correction, keepdim), input, dim, keepdim);
}
std::array<Tensor, 2> std_mean(const Tensor& input, const std::optional<Dims>& dim,
                               const std::optional<Scalar>& correction, bool keepdim) {
  return with_mean(std(input, dim, correction, keepdim), input, dim, keepdim);
}
std::array<Tensor, 2> var_mean(const Tensor& input, const std::optional<Dims>& dim, bool unbiased,
                               bool keepdim) {
  return var_mean(input, dim, grad::correction_of(unbiased), keepdim);
}
std::array<Tensor, 2> std_mean(const Tensor& input, const std::optional<Dims>& dim, bool unbiased,
                               bool keepdim) {
  return std_mean(input, dim, grad::correction_of(unbiased), keepdim);
}

}  // namespace ops

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

Tensor add_place(const Tensor& so_far, const Tensor& grad, IntSpan sizes, const Tensor& indices,
                 int64_t dim, bool keepdim) {
  bool scalar = sizes.size() == 0;
  Tensor full = so_far_or_zeros(so_far, grad, sizes);
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
  return (keepdim ? grad : unsqueeze(grad, d)) * conj(before * after);
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
  Tensor nowhere = p < 1 ? eq(input, zero) : eq(norm, zero);
  // Where it is 0, the derivative of this quotient would be NaN, and not 0 for being masked.
  if (grad_enabled() && p >= 1) norm = where(nowhere, wrap_number(Scalar(1)), norm);
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
    if (!result.is_meta()) kernels::cumprod_backward(grad.view(), input.view(), d, result.view());
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
    columns.push_back(sum(slice(grad, d, i, n, 1) * conj(slope), Dims{d}, false, std::nullopt));
    before = before * select(input, d, i);
  }
  return stack(columns, d);
}

Tensor logcumsumexp_backward(const Tensor& grad, const Tensor& input, const Tensor& out,
                             int64_t dim) {
  if (input.dim() == 0) return grad;
  if (!grad_enabled()) {
    Tensor result = rl::empty_like(input);
    if (!result.is_meta())
      kernels::logcumsumexp_backward(grad.view(), input.view(), out.view(),
                                     wrap_dim(dim, input.dim(), "logcumsumexp"), result.view());
    return result;
  }
  // sum over j >= i of grad[j] exp(input[i] - out[j]), all pairs side by side in the last two dims.
  Tensor x = unsqueeze(transpose(input, dim, -1), -1),
         total = unsqueeze(transpose(out, dim, -1), -2);
  Tensor later =
      triu(ones(Dims{input.size(dim), input.size(dim)}, DType::Bool, {}, input.device()));
  Tensor used = logical_and(later, logical_not(isinf(ops::real(x))));
  Tensor power = where(used, x - total, wrap_number(Scalar(0)));
  Tensor slope = where(used, conj(exp(power)), wrap_number(Scalar(0)));
  return transpose(sum(unsqueeze(transpose(grad, dim, -1), -2) * slope, Dims{-1}, false), dim, -1);
}

}  // namespace grad
}  // namespace rl
