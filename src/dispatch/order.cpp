// Order: sorting, selection, search, distinct values, histograms.
#include <algorithm>

#include "dispatch/body.h"
#include "dispatch/generated.h"
#include "dispatch/guards.h"
#include "impl_create.h"
#include "impl_indexing.h"
#include "impl_order.h"
#include "impl_shape.h"
#include "launch_sort.h"
#include "ops_basic.h"
#include "ops_create.h"
#include "ops_reduction.h"
#include "ops_shape.h"

namespace rl {
namespace impl {
namespace {

using Distinct = std::array<Tensor, 3>;

Tensor leading(const Tensor& t, int64_t count) { return slice(t, 0, 0, count, 1); }

// The first elements of a fresh vector: in its memory, if that has not twice as many.
Tensor front_of(const Tensor& t, int64_t count) {
  if (2 * count < t.numel()) return clone(leading(t, count));
  t.impl()->sizes = Dims{count};
  t.impl()->refresh();
  return t;
}

// What is asked for besides the values: places or counts, n of them.
struct Wanted {
  Tensor tensor;
  bool is_wanted;
  Wanted(bool is_wanted, const Tensor& input, int64_t n)
      : tensor(rl::empty(Dims{is_wanted ? n : 0}, options(input, DType::Int64))),
        is_wanted(is_wanted) {}
  Tensor get() const { return is_wanted ? tensor : Tensor(); }
  Tensor first(int64_t count) const { return is_wanted ? front_of(tensor, count) : tensor; }
};

Distinct distinct_elements(const Tensor& input, bool consecutive, bool return_inverse,
                           bool return_counts) {
  Tensor from = ops::contiguous(ops::reshape(input, Dims{-1}));
  Tensor values = rl::empty(from.sizes(), options(input));
  Wanted inverse(return_inverse, input, from.numel()), counts(return_counts, input, from.numel());
  int64_t count = consecutive
                      ? launch::unique_consecutive(from, values, inverse.get(), counts.get())
                      : launch::unique(from, values, inverse.get(), counts.get());
  return {front_of(values, count),
          return_inverse ? view(inverse.tensor, input.sizes()) : inverse.tensor,
          counts.first(count)};
}

Distinct distinct_slices(const char* op, const Tensor& input, int64_t dim, bool consecutive,
                         bool return_inverse, bool return_counts) {
  int64_t d = wrap_dim(dim, input.dim(), op), n = input.dim() ? input.sizes()[d] : 1;
  check(input.numel() > 0 || n == 0 || consecutive, op,
        ": There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
  const Dims& sizes = input.sizes();
  check(n > 0 || consecutive || std::count(sizes.begin(), sizes.end(), 0) <= 1, op,
        ": Number of zero sized dimensions is more than one, so unique cannot be applied, got ",
        sizes);
  Tensor front = input.dim() ? ops::movedim(input, Dims{d}, Dims{0}) : ops::reshape(input, Dims{1});
  Tensor rows = ops::contiguous(ops::reshape(front, Dims{n, n ? input.numel() / n : 0}));
  Tensor first = rl::empty(Dims{n}, options(input, DType::Int64));
  Wanted inverse(return_inverse, input, n), counts(return_counts, input, n);
  int64_t count = launch::unique_rows(rows, consecutive, first, inverse.get(), counts.get());
  // The distinct slices lie one after the other, in front of whatever dim they belong to.
  Tensor found = index_select(front, 0, leading(first, count));
  return {input.dim() ? ops::movedim(found, Dims{0}, Dims{d}) : found, inverse.tensor,
          counts.first(count)};
}

Distinct distinct(const char* op, const Tensor& input, std::optional<int64_t> dim, bool consecutive,
                  bool inverse, bool counts) {
  check_elements(op, input);
  check_implemented(!input.is_complex(), op, ": not implemented for dtype ", input.dtype());
  return dim ? distinct_slices(op, input, *dim, consecutive, inverse, counts)
             : distinct_elements(input, consecutive, inverse, counts);
}

}  // namespace

Distinct unique(const Tensor& input, std::optional<int64_t> dim, bool inverse, bool counts) {
  return distinct("unique", input, dim, false, inverse, counts);
}
Distinct unique_consecutive(const Tensor& input, std::optional<int64_t> dim, bool inverse,
                            bool counts) {
  return distinct("unique_consecutive", input, dim, true, inverse, counts);
}

Tensor searchsorted(const Tensor& sorted, const Tensor& given, bool out_int32, bool right,
                    const std::optional<std::string>& side, const Tensor& sorter) {
  const Tensor input = number_beside(given, sorted);
  check(!side || *side == "left" || *side == "right",
        "searchsorted: side can only be 'left' or 'right' but got ", side.value_or(""));
  check(!side || *side == "right" || !right,
        "searchsorted: side and right can't be set to opposites, got side of left while right was "
        "True");
  check(sorted.dim() > 0,
        "searchsorted: the sorted sequence should have positive dimension, got shape ",
        sorted.sizes());
  check(input.dim() > 0 || sorted.dim() == 1,
        "searchsorted: a single value goes with a 1-D sorted sequence, got shape ", sorted.sizes());
  if (sorter.defined()) {
    check(sorter.sizes() == sorted.sizes(),
          "searchsorted: boundary and sorter must have the same size, but got boundary tensor ",
          sorted.sizes(), " and got sorter tensor ", sorter.sizes());
    check(sorter.dtype() == DType::Int64,
          "searchsorted: sorter must be a tensor of long dtype but got dtype ", sorter.dtype());
  }
  DType common = sorted.dtype() == input.dtype() ? input.dtype() : result_type(sorted, input);
  auto prepared = [&](const Tensor& t) {
    return ops::contiguous(t.dtype() == common ? t : to_dtype(t, common));
  };
  Tensor rows = prepared(sorted), values = prepared(input);
  Tensor out = rl::empty(input.sizes(), options(sorted, out_int32 ? DType::Int32 : DType::Int64));
  Tensor order = sorter.defined() ? ops::contiguous(sorter) : Tensor();
  launch::searchsorted(rows, values, right || (side && *side == "right"), order, out);
  return out;
}

Tensor bincount(const Tensor& input, const Tensor& weights, int64_t minlength) {
  check_elements("bincount", input);
  check(minlength >= 0, "bincount: minlength should be >= 0, got ", minlength);
  check(input.dim() == 1 && is_integral(input.dtype()),
        "bincount: only supports 1-d non-negative integral inputs, got shape ", input.sizes(),
        " and dtype ", input.dtype());
  check(!weights.defined() || weights.sizes() == input.sizes(),
        "bincount: weights should be 1-d and have the same length as input");
  int64_t size = std::max(launch::bincount_size(input), minlength);
  bool exact =
      !weights.defined() || weights.dtype() == DType::Float32 || weights.dtype() == DType::Float64;
  Tensor used = exact ? weights : to_dtype(weights, DType::Float64);
  Tensor out = rl::empty(Dims{size}, options(input, used.defined() ? used.dtype() : DType::Int64));
  launch::bincount(input, used, out);
  return out;
}

}  // namespace impl

}  // namespace rl
