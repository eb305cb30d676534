// Tables of vectors.

#include "dispatch/generated.h"
#include "dispatch/gradient_buffer.h"
#include "dispatch/guards.h"
#include "dispatch/sparse.h"
#include "impl_embedding.h"
#include "launch_embedding.h"
#include "ops_basic.h"
#include "ops_create.h"
#include "ops_embedding.h"
#include "ops_indexing.h"
#include "ops_masking.h"
#include "ops_shape.h"

namespace rl {

void check_indices(const char* op, const Tensor& indices) {
  check(indices.dtype() == DType::Int64 || indices.dtype() == DType::Int32, op,
        ": Expected tensor for argument indices to have one of the following scalar types: Long, "
        "Int; but got ",
        indices.dtype());
}

void check_row_products(const Tensor& grad_output, const Tensor& weight, const Tensor& indices,
                        const Tensor& offsets) {
  const char* op = "embedding_bag_weights_gradient";
  check_indices(op, indices);
  check_indices(op, offsets);
  check(indices.dim() == 1 && offsets.dim() == 1, op,
        ": indices and offsets must have 1 dim, got shapes ", indices.sizes(), " and ",
        offsets.sizes());
  check(weight.dim() == 2 && grad_output.sizes() == Dims{offsets.numel(), weight.size(1)}, op,
        ": expected a row for each of ", offsets.numel(), " bags, as long as those of weight, of ",
        "shape ", weight.sizes(), ", got shape ", grad_output.sizes());
  check(grad_output.dtype() == weight.dtype(), op, ": expected rows of one dtype, got ",
        grad_output.dtype(), " and ", weight.dtype());
}

namespace impl {
namespace {

kernels::Bag bag_of(const std::string& mode) {
  if (mode == "sum") return kernels::Bag::Sum;
  if (mode == "mean") return kernels::Bag::Mean;
  check_value(mode == "max", "embedding_bag: mode must be sum, mean or max, got ", mode);
  return kernels::Bag::Max;
}

// The rows that were looked up, as they come: an index that occurs twice has two.
Tensor sparse_gradient(const Tensor& grad, const Tensor& indices, const Dims& size,
                       int64_t padding_idx) {
  NoGradGuard guard;
  Tensor places = ops::to(ops::reshape(indices, Dims{-1}), DType::Int64);
  Tensor rows = ops::reshape(grad, Dims{places.numel(), size[1]});
  if (padding_idx >= 0) {
    Tensor kept =
        ops::reshape(ops::nonzero(ops::ne(places, wrap_number(Scalar(padding_idx)))), Dims{-1});
    places = ops::index_select(places, 0, kept);
    rows = ops::index_select(rows, 0, kept);
  }
  return sparse::construct(rows, {Layout::SparseCoo, false, ops::unsqueeze(places, 0), {}, size});
}

}  // namespace

static void add_to_rows(const Tensor& grad, const Tensor& indices, int64_t padding_idx,
                        bool scale_grad_by_freq, const Tensor& table) {
  launch::embedding_backward(grad, indices, padding_idx, scale_grad_by_freq, table);
}

Tensor embedding_gradient(const Tensor& grad, const Tensor& indices, const Dims& size,
                          int64_t padding_idx, bool scale_grad_by_freq, bool sparse) {
  check(!sparse || !scale_grad_by_freq,
        "embedding: scale_grad_by_freq is not supported with sparse gradients");
  if (sparse) return sparse_gradient(grad, indices, size, padding_idx);
  Tensor out = ops::zeros(size, grad.dtype(), {}, grad.device());
  add_to_rows(grad, indices, padding_idx, scale_grad_by_freq, out);
  return out;
}

std::array<Tensor, 2> embedding_bag_kernel(const Tensor& weight, const Tensor& indices,
                                           const Tensor& offsets, const std::string& mode,
                                           const Tensor& weights, int64_t padding_idx, bool) {
  check_indices("embedding_bag", indices);
  check_indices("embedding_bag", offsets);
  for (const auto& [name, t] : {std::pair{"indices", &indices}, std::pair{"offsets", &offsets}})
    check(t->dim() == 1, "embedding_bag: ", name, " must have 1 dim, got shape ", t->sizes());
  check(!weights.defined() || weights.dtype() == weight.dtype(),
        "embedding_bag: expected weight and per_sample_weights to have the same dtype, got ",
        weight.dtype(), " and ", weights.defined() ? weights.dtype() : weight.dtype());
  check(weight.dim() == 2, "embedding_bag: expected a 2-D table, got shape ", weight.sizes());
  check(!weights.defined() || weights.sizes() == indices.sizes(),
        "embedding_bag: expected per_sample_weights to have the shape of the indices, ",
        indices.sizes(), ", got ", weights.defined() ? weights.sizes() : Dims());
  bool largest = mode == "max";
  Dims sizes{offsets.numel(), weight.sizes()[1]};
  Tensor out = rl::empty(sizes, options(weight)),
         places = rl::empty(largest ? sizes : Dims{0}, options(weight, DType::Int64));
  launch::embedding_bag(weight, indices, offsets, bag_of(mode), weights, padding_idx, out,
                        largest ? places : Tensor());
  return {out, places};
}

Tensor embedding_bag_gradient(const Tensor& grad, const Tensor& indices, const Tensor& offsets,
                              const std::string& mode, const Tensor& weights, int64_t padding_idx,
                              bool scale_grad_by_freq, const Tensor& places, const Dims& size) {
  Tensor out = rl::empty(size, options(grad));
  launch::embedding_bag_backward(grad, indices, offsets, bag_of(mode), weights, padding_idx,
                                 scale_grad_by_freq, mode == "max" ? places : Tensor(), out);
  return out;
}

}  // namespace impl

namespace ops {

Tensor embedding_renorm_(const Tensor& input, const Tensor& indices, double max_norm,
                         double norm_type) {
  check(input.dim() == 2, "embedding_renorm_: expected a 2-D table, got shape ", input.sizes());
  check_in_place(input, "embedding_renorm_");
  launch::embedding_renorm(input, indices, max_norm, norm_type);
  bump_version(input, "embedding_renorm_");
  if (records(input))
    refuse_gradient(input, "embedding_renorm_", "it is meant for tables outside of the graph",
                    inputs_of(input));
  return input;
}

}  // namespace ops

namespace grad {

using namespace ops;

Tensor add_rows(const Tensor& accumulated, const Tensor& grad, const Tensor& indices,
                const Dims& size, int64_t padding_idx, bool scale_grad_by_freq, bool sparse) {
  if (!accumulated.defined() || sparse) {
    Tensor rows = embedding_gradient(grad, indices, size, padding_idx, scale_grad_by_freq, sparse);
    return accumulated.defined() ? engine_ops.add(accumulated, rows) : rows;
  }
  impl::add_to_rows(grad, indices, padding_idx, scale_grad_by_freq, accumulated);
  return accumulated;
}

}  // namespace grad
}  // namespace rl
