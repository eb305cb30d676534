// Reading and writing at flat places and along one dim.
#include <algorithm>
#include <atomic>

#include "core/warning.h"
#include "dispatch/body.h"
#include "dispatch/generated.h"
#include "dispatch/guards.h"
#include "impl_create.h"
#include "impl_indexing.h"
#include "impl_scatter.h"
#include "impl_shape.h"
#include "launch_index.h"
#include "ops_basic.h"
#include "ops_create.h"
#include "ops_shape.h"

namespace rl {
void check_index_shape(const Tensor& index, const Tensor& outer, int64_t free, const char* op,
                       const char* what) {
  check(std::max<int64_t>(index.dim(), 1) == std::max<int64_t>(outer.dim(), 1), op,
        "(): Index tensor must have the same number of dimensions as ", what,
        " tensor: ", index.sizes(), " and ", outer.sizes());
  for (int64_t d = 0; d < std::min(index.dim(), outer.dim()); ++d)
    check(d == free || index.sizes()[d] <= outer.sizes()[d], op,
          "(): Size does not match at dimension ", d, " expected index ", index.sizes(),
          " to be no larger than ", what, " ", outer.sizes(), " apart from dimension ", free);
}

void check_slices(const char* op, const Tensor& input, int64_t dim, const Tensor& index,
                  const Tensor& source) {
  Dims expected = input.sizes();
  if (input.dim()) expected[dim] = index.numel();
  check(source.sizes() == expected, op, ": source has shape ", source.sizes(), ", expected ",
        expected);
  check_index(input.dim() || index.numel() == 1, op, ": a tensor without dims is one slice, got ",
              index.numel(), " indices");
}

namespace impl {
namespace {

bool is_index(const Tensor& t) { return t.dtype() == DType::Int64 || t.dtype() == DType::Int32; }

void check_long(const Tensor& index, const char* op) {
  check(index.dtype() == DType::Int64, op, "(): Expected a long tensor for index, but got ",
        index.dtype());
}
void check_vector(const Tensor& index, const char* op) {
  check_index(index.dim() <= 1, op, "(): Index should have dimension 1 or 0 (got ", index.dim(),
              ")");
}

kernels::Combine combine_of(const std::string& reduce, const char* op) {
  if (reduce == "sum" || reduce == "add") return kernels::Combine::Sum;
  if (reduce == "prod" || reduce == "multiply") return kernels::Combine::Prod;
  if (reduce == "mean") return kernels::Combine::Mean;
  if (reduce == "amax") return kernels::Combine::Max;
  check(reduce == "amin", op,
        ": reduce argument must be either sum, prod, mean, amax or amin, got ", reduce);
  return kernels::Combine::Min;
}

// The index as int64 or int32, which the kernels read.
Tensor readable_index(const Tensor& index, const char* op) {
  if (index.dtype() == DType::UInt8) return to_dtype(index, DType::Int64);
  check(index.dtype() == DType::Int64 || index.dtype() == DType::Int32, op,
        "(): Expected dtype int32/int64/uint8 for index, got ", index.dtype());
  return index;
}

// A 0-d tensor counts as a vector of one.
Tensor as_vector(const Tensor& t) { return t.dim() ? t : alias(t, Dims{1}, Dims{1}, t.offset()); }

// The index has been looked at: it is one that the kernels read.
Tensor scattered(const char* op, const Tensor& input, int64_t dim, const Tensor& index,
                 const Tensor& src, kernels::Combine how, bool include_self, const Tensor& given) {
  int64_t d = wrap_dim(dim, input.dim(), op);
  check(src.dtype() == input.dtype(), op, "(): Expected self.dtype to be equal to src.dtype, got ",
        input.dtype(), " and ", src.dtype());
  Tensor out = contiguous_copy_unless(given, input);
  if (index.numel() == 0) return out;
  check_index_shape(index, input, d, op, "self");
  check_index_shape(index, src, -1, op, "src");
  launch::scatter(as_vector(out), d, as_vector(index), as_vector(src), how, include_self,
                  !given.defined());
  return out;
}

Tensor combined(const char* op, const Tensor& input, int64_t dim, const Tensor& index,
                const Tensor& src, kernels::Combine how, bool include_self, const Tensor& given) {
  check(is_index(index), op, "(): Expected dtype int32/int64 for index, got ", index.dtype());
  return scattered(op, input, dim, index, src, how, include_self, given);
}

kernels::Combine old_combine(const std::string& reduce) {
  check(reduce == "add" || reduce == "multiply",
        "scatter: reduce argument must be either add or multiply, got ", reduce);
  return combine_of(reduce, "scatter");
}

}  // namespace

Tensor take(const Tensor& input, const Tensor& index) {
  check_long(index, "take");
  check_index(input.numel() > 0 || index.numel() == 0,
              "take(): tried to take from an empty tensor");
  Tensor out = rl::empty(index.sizes(), options(input));
  launch::take(input, index, out);
  return out;
}

Tensor put(const Tensor& input, const Tensor& index, const Tensor& source, bool accumulate,
           const Tensor& given) {
  check_long(index, "put");
  check(source.dtype() == input.dtype(),
        "put(): self and source expected to have the same dtype, but got self.dtype = ",
        input.dtype(), " and source.dtype = ", source.dtype());
  check_index(source.numel() == index.numel(),
              "put(): Expected source and index to have the same number of elements, but got "
              "source.numel() = ",
              source.numel(), ", index.numel() = ", index.numel());
  check_index(input.numel() > 0 || index.numel() == 0,
              "put(): Tried to put elements into an empty tensor");
  Tensor out = copy_unless(given, input), values = ops::reshape(source, index.sizes());
  launch::put(out, index, values, accumulate);
  return out;
}

Tensor index_copy(const Tensor& input, int64_t dim, const Tensor& index, const Tensor& source,
                  const Tensor& given) {
  int64_t d = wrap_dim(dim, input.dim(), "index_copy"), count = index.numel();
  check_vector(index, "index_copy");
  check(index.dtype() == DType::Int64, "index_copy(): Expected a long tensor for index, but got ",
        index.dtype());
  check(source.dtype() == input.dtype(),
        "index_copy(): self and source expected to have the same dtype, but got (self) ",
        input.dtype(), " and (source) ", source.dtype());
  check_index(source.dim() == 0 || input.dim() == 0 || source.dim() == input.dim(),
              "index_copy(): When source and destination are not scalars, their dimensionality "
              "must match. Source dimensionality (",
              source.dim(), "), destination dimensionality (", input.dim(), ")");
  Tensor from = as_vector(source);
  Dims expected = with_size(input.dim() ? input.sizes() : Dims{1}, d, from.size(d));
  check(from.sizes() == expected,
        "index_copy(): Source/destination tensor must have same slice shapes. Got ", source.sizes(),
        ", expected ", with_size(expected, d, count));
  check_index(from.size(d) == count, "index_copy(): Number of indices (", count,
              ") should be equal to source.size(dim) (", from.size(d), ")");
  Tensor out = contiguous_copy_unless(given, input);
  launch::index_combine("index_copy", out, d, index, from, kernels::Combine::Set, true, false);
  return out;
}

Tensor index_fill(const Tensor& input, int64_t dim, const Tensor& index, const Tensor& value,
                  const Tensor& given) {
  check(value.dim() == 0,
        "index_fill: only supports a 0-dimensional value tensor, but got tensor with ", value.dim(),
        " dimension(s).");
  int64_t d = wrap_dim(dim, input.dim(), "index_fill");
  check(is_index(index), "index_fill(): Expected dtype int32/int64 for index, got ", index.dtype());
  check(index.dim() <= 1, "index_fill: Index has to be a vector/scalar");
  check_element("index_fill", value, input.dtype());
  Tensor out = copy_unless(given, input);
  Dims sizes = input.dim() ? input.sizes() : Dims{1};
  sizes[d] = index.numel();
  Tensor source =
      expand(value.dtype() == input.dtype() ? value : to_dtype(value, input.dtype()), sizes, false);
  launch::index_combine("index_fill", out, d, index, source, kernels::Combine::Set, true, true);
  return out;
}
Tensor index_fill(const Tensor& input, int64_t dim, const Tensor& index, const Scalar& value,
                  const Tensor& out) {
  check(!value.is_complex() || input.dtype() != DType::Bool,  // any other tells it by itself
        "index_fill: a complex number for an element of ", input.dtype());
  return index_fill(input, dim, index, element_like("index_fill", value, input), out);
}

Tensor gather(const Tensor& input, int64_t dim, const Tensor& given, bool sparse_grad) {
  static std::atomic<bool> warned{false};
  if (sparse_grad && !warned.exchange(true))
    warn("gather: sparse_grad has no effect: the gradient has the same values, but is dense");
  int64_t d = wrap_dim(dim, input.dim(), "gather");
  Tensor index = readable_index(given, "gather");
  Tensor out = rl::empty(index.sizes(), options(input));
  if (index.numel() == 0) return out;
  check_index_shape(index, input, d, "gather", "input");
  launch::gather(as_vector(input), d, as_vector(index), as_vector(out));
  return out;
}

Tensor scatter_add(const Tensor& input, int64_t dim, const Tensor& index, const Tensor& src,
                   const Tensor& out) {
  return scattered("scatter_add", input, dim, readable_index(index, "scatter_add"), src,
                   kernels::Combine::Sum, true, out);
}
Tensor scatter(const Tensor& input, int64_t dim, const Tensor& index, const Tensor& src,
               const Tensor& out) {
  return scattered("scatter", input, dim, readable_index(index, "scatter"), src,
                   kernels::Combine::Set, true, out);
}
Tensor scatter(const Tensor& input, int64_t dim, const Tensor& index, const Scalar& value,
               const Tensor& out) {
  return scatter(input, dim, index,
                 expand(element_like("scatter", value, input), index.sizes(), false), out);
}

Tensor scatter(const Tensor& input, int64_t dim, const Tensor& index, const Tensor& src,
               const std::string& reduce, const Tensor& out) {
  warn(
      "scatter: reduce with a tensor src is deprecated: use scatter_reduce, which has more of "
      "them");
  return combined("scatter", input, dim, index, src, old_combine(reduce), true, out);
}
Tensor scatter(const Tensor& input, int64_t dim, const Tensor& index, const Scalar& value,
               const std::string& reduce, const Tensor& out) {
  return combined("scatter", input, dim, index,
                  expand(element_like("scatter", value, input), index.sizes(), false),
                  old_combine(reduce), true, out);
}
Tensor scatter_reduce(const Tensor& input, int64_t dim, const Tensor& index, const Tensor& src,
                      const std::string& reduce, bool include_self, const Tensor& out) {
  check(reduce != "add" && reduce != "multiply",
        "scatter_reduce: reduce argument must be either sum, prod, mean, amax or amin, got ",
        reduce);
  check_implemented(reduce != "mean" || input.dtype() != DType::Bool,
                    "scatter_reduce: no mean of elements of dtype ", input.dtype());
  return combined("scatter_reduce", input, dim, index, src, combine_of(reduce, "scatter_reduce"),
                  include_self, out);
}

}  // namespace impl

// With gaps and offset as they are, as in torch: the whole storage is copied.
Tensor copy_of_storage(const Tensor& input) {
  int64_t elements = input.storage()->nbytes / itemsize(input.dtype());
  Tensor whole = ops::clone(ops::as_strided(input, Dims{elements}, Dims{1}, 0));
  return ops::as_strided(whole, input.sizes(), input.strides(), input.offset());
}
Tensor clone_with_gaps(const Tensor& input) {
  bool plain = is_dense(input.sizes(), input.strides()) ||
               has_internal_overlap(input.sizes(), input.strides());
  return plain ? ops::clone(input) : copy_of_storage(input);
}

void check_place(const char* op, const Tensor& place, const Tensor& src) {
  check(place.sizes() == src.sizes(), op,
        ": expected src to have a size equal to the slice of self. src size = ", src.sizes(),
        ", slice size = ", place.sizes());
}

}  // namespace rl
