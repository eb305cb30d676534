// Reading and writing at flat places and along one dim.
#include "dispatch/body.h"
#include "dispatch/generated.h"
#include "impl_create.h"
#include "impl_indexing.h"
#include "impl_scatter.h"
#include "impl_shape.h"
#include "launch_index.h"
#include "ops_basic.h"
#include "ops_create.h"
#include "ops_indexing.h"
#include "ops_masking.h"
#include "ops_reduction.h"
#include "ops_scatter.h"
#include "ops_shape.h"
#include "tensor/output_layout.h"

namespace rl {
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

// index must fit into `outer` in every dim but `free`.
void check_fits(const Tensor& index, const Tensor& outer, int64_t free, const char* op,
                const char* what) {
  check(std::max<int64_t>(index.dim(), 1) == std::max<int64_t>(outer.dim(), 1), op,
        "(): Index tensor must have the same number of dimensions as ", what,
        " tensor: ", index.sizes(), " and ", outer.sizes());
  for (int64_t d = 0; d < std::min(index.dim(), outer.dim()); ++d)
    check(d == free || index.sizes()[d] <= outer.sizes()[d], op, "(): Expected index ",
          index.sizes(), " to be no larger than ", what, " ", outer.sizes(), " in dim ", d);
}

Tensor combined(const char* op, const Tensor& input, int64_t dim, const Tensor& index,
                const Tensor& src, kernels::Combine how, bool include_self, const Tensor& given) {
  int64_t d = wrap_dim(dim, input.dim(), op);
  check(is_index(index), op, "(): Expected dtype int32/int64 for index, got ", index.dtype());
  check(src.dtype() == input.dtype(), op, "(): Expected self.dtype to be equal to src.dtype, got ",
        input.dtype(), " and ", src.dtype());
  Tensor out = contiguous_copy_unless(given, input);
  if (index.numel() == 0) return out;
  check_fits(index, input, d, op, "self");
  check_fits(index, src, -1, op, "src");
  launch::scatter(out, d, index, src, how, include_self, !given.defined());
  return out;
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
  check(source.numel() == index.numel(),
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
  check_index(source.dim() > 0 || count == 1,
              "index_copy(): When source is scalar, index should have one element (got ", count,
              ")");
  Dims expected = input.sizes();
  if (input.dim()) expected[d] = count;
  check(source.dim() == 0 || input.dim() == 0 || source.sizes() == expected,
        "index_copy(): Source/destination tensor must have same slice shapes. Got ", source.sizes(),
        ", expected ", expected);
  Tensor out = contiguous_copy_unless(given, input);
  Tensor from = source.sizes() == expected
                    ? source
                    : expand(ops::reshape(source, Dims(expected.size(), 1)), expected, false);
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
  Dims sizes = input.sizes();
  if (input.dim()) sizes[d] = index.numel();
  Tensor source =
      expand(value.dtype() == input.dtype() ? value : to_dtype(value, input.dtype()), sizes, false);
  launch::index_combine("index_fill", out, d, index, source, kernels::Combine::Set, true, true);
  return out;
}
Tensor index_fill(const Tensor& input, int64_t dim, const Tensor& index, const Scalar& value,
                  const Tensor& out) {
  return index_fill(input, dim, index, element_like("index_fill", value, input), out);
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
  return combined("scatter_reduce", input, dim, index, src, combine_of(reduce, "scatter_reduce"),
                  include_self, out);
}

}  // namespace impl

namespace ops {

Tensor take_along_dim(const Tensor& input, const Tensor& indices, std::optional<int64_t> dim) {
  check(indices.dtype() == DType::Int64,
        "take_along_dim(): dtype of indices should be Long but got ", indices.dtype());
  if (!dim) return gather(reshape(input, Dims{-1}), 0, reshape(indices, Dims{-1}));
  check(input.dim() == indices.dim(),
        "take_along_dim(): input and indices should have the same number of dimensions, but got ",
        input.dim(), " dimensions for input, and ", indices.dim(), " dimensions for indices");
  int64_t d = wrap_dim(*dim, input.dim(), "take_along_dim");
  if (input.dim() == 0) return gather(input, d, indices);
  Tensor places =
      where(lt(indices, wrap_number(Scalar(0))), indices + Scalar(input.sizes()[d]), indices);
  Dims read = input.sizes(), picked = indices.sizes();
  int64_t length = read[d], count = picked[d];
  read[d] = picked[d] = 1;
  read = picked = broadcast_sizes(read, picked, "take_along_dim");
  read[d] = length;
  picked[d] = count;
  return gather(expand(input, read), d, expand(places, picked));
}

}  // namespace ops

namespace {
// The slices of `input` that `index` names, for scatter_reduce.
struct SliceWrite {
  SliceWrite(const Tensor& input, int64_t d, const Tensor& at, const Tensor& given)
      : dim(wrap_dim(d, input.dim(), "index_reduce")) {
    Dims sizes = input.sizes();
    if (input.dim()) sizes[dim] = at.numel();
    source = ops::reshape(given, sizes);
    index = grad::expand_index(at, dim, source);
  }
  int64_t dim;
  Tensor source, index;
};
}  // namespace

namespace impl {

Tensor index_reduce(const Tensor& input, int64_t dim, const Tensor& index, const Tensor& source,
                    const std::string& reduce, bool include_self) {
  int64_t d = wrap_dim(dim, input.dim(), "index_reduce");
  check(reduce == "prod" || reduce == "mean" || reduce == "amax" || reduce == "amin",
        "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got ", reduce,
        ".");
  check_index(index.dim() <= 1,
              "index_reduce(): Index is supposed to be a vector, but got dim: ", index.dim());
  check(index.dtype() == DType::Int64 || index.dtype() == DType::Int32,
        "index_reduce(): Expected dtype int32/int64 for index, got ", index.dtype());
  check(source.dtype() == input.dtype(),
        "index_reduce(): self and source expected to have the same dtype, but got ", input.dtype(),
        " and ", source.dtype());
  Dims expected = input.sizes();
  if (input.dim()) expected[d] = index.numel();
  check(source.sizes() == expected ||
            (source.dim() <= 1 && input.dim() <= 1 && source.numel() == index.numel()),
        "index_reduce(): source has shape ", source.sizes(), ", expected ", expected);
  SliceWrite at(input, dim, index, source);
  return ops::scatter_reduce(input, at.dim, at.index, at.source, reduce, include_self);
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

namespace grad {

using namespace ops;

Tensor expand_index(const Tensor& index, int64_t dim, const Tensor& like) {
  if (like.dim() == 0) return reshape(index, Dims());
  Dims sizes(like.dim(), 1);
  sizes[dim] = index.numel();
  return expand(reshape(index, sizes), like.sizes());
}

Tensor index_reduce_input(const Tensor& grad, const Tensor& input, int64_t dim, const Tensor& index,
                          const Tensor& source, const Tensor& out, const std::string& reduce,
                          bool include_self) {
  SliceWrite at(input, dim, index, source);
  return scatter_reduce_input(grad, input, at.dim, at.index, at.source, out, reduce, include_self);
}

Tensor index_reduce_source(const Tensor& grad, const Tensor& input, int64_t dim,
                           const Tensor& index, const Tensor& source, const Tensor& out,
                           const std::string& reduce, bool include_self) {
  SliceWrite at(input, dim, index, source);
  return reshape(
      scatter_reduce_src(grad, input, at.dim, at.index, at.source, out, reduce, include_self),
      source.sizes());
}

Tensor index_fill_value(const Tensor& grad, int64_t dim, const Tensor& index) {
  Tensor all = ones(Dims{grad.dim() ? grad.size(dim) : 1}, DType::Bool, {}, grad.device());
  Tensor kept = index_fill(all, 0, index, Scalar(false));
  Dims sizes(grad.dim(), 1);
  if (grad.dim()) sizes[wrap_dim(dim, grad.dim(), "index_fill")] = kept.numel();
  return sum(masked_fill(grad, reshape(kept, sizes), Scalar(0)));
}

Tensor index_copy_source(const Tensor& grad, int64_t dim, const Tensor& index, IntSpan sizes) {
  return reshape(index_select(grad, dim, index), Dims(sizes));
}

namespace {

// How many elements are reduced into each place.
Tensor count_written(const Tensor& input, int64_t dim, const Tensor& index, const Tensor& src,
                     bool include_self) {
  Tensor start = include_self ? ones_like(input) : zeros_like(input);
  Tensor count = scatter_add(start, dim, index, ones_like(src));
  return masked_fill(count, eq(count, wrap_number(Scalar(0))), Scalar(1));
}

// The share of an extreme that each element equal to it has.
Tensor shared_extreme(const Tensor& grad, const Tensor& input, int64_t dim, const Tensor& index,
                      const Tensor& src, const Tensor& out, bool include_self) {
  Tensor from_self = to(eq(input, out), grad.dtype());
  if (!include_self) from_self = scatter(from_self, dim, index, Scalar(0));
  Tensor ties =
      scatter_add(from_self, dim, index, to(eq(src, gather(out, dim, index)), grad.dtype()));
  return grad / masked_fill(ties, eq(ties, wrap_number(Scalar(0))), Scalar(1));
}

}  // namespace

Tensor scatter_reduce_input(const Tensor& grad, const Tensor& input, int64_t dim,
                            const Tensor& index, const Tensor& src, const Tensor& out,
                            const std::string& reduce, bool include_self) {
  Tensor result;
  if (reduce == "sum") result = grad;
  if (reduce == "mean") result = grad / count_written(input, dim, index, src, include_self);
  if (reduce == "prod")
    result = grad * conj_now(scatter_reduce(ones_like(input), dim, index, src, "prod", true));
  if (!result.defined())
    result = eq(input, out) * shared_extreme(grad, input, dim, index, src, out, include_self);
  return include_self ? result : scatter(result, dim, index, Scalar(0));
}

Tensor scatter_reduce_src(const Tensor& grad, const Tensor& input, int64_t dim, const Tensor& index,
                          const Tensor& src, const Tensor& out, const std::string& reduce,
                          bool include_self) {
  if (reduce == "sum") return gather(grad, dim, index);
  if (reduce == "mean")
    return gather(grad / count_written(input, dim, index, src, include_self), dim, index);
  if (reduce != "prod")
    return eq(src, gather(out, dim, index)) *
           gather(shared_extreme(grad, input, dim, index, src, out, include_self), dim, index);
  // The product of the others: by division where nothing is zero; a single zero sees the product of
  // all the rest.
  Tensor is_zero = eq(src, wrap_number(Scalar(0)));
  Tensor zeros =
      gather(scatter_add(zeros_like(input), dim, index, to(is_zero, src.dtype())), dim, index);
  Tensor alone = logical_and(is_zero, eq(zeros, wrap_number(Scalar(1))));
  Tensor rest =
      scatter_reduce(input, dim, index, masked_fill(src, alone, Scalar(1)), "prod", include_self);
  Tensor divided =
      gather(grad * conj_now(out), dim, index) / conj_now(masked_fill(src, is_zero, Scalar(1)));
  return where(alone, gather(grad * conj_now(rest), dim, index), divided);
}

}  // namespace grad
}  // namespace rl
