#include "dispatch/sparse.h"

#include <algorithm>
#include <vector>

#include "autograd/meta.h"
#include "autograd/node.h"
#include "dispatch/generated.h"
#include "kernels/sparse_product.h"
#include "ops_basic.h"
#include "ops_calculus.h"
#include "ops_closeness.h"
#include "ops_create.h"
#include "ops_indexing.h"
#include "ops_masking.h"
#include "ops_order.h"
#include "ops_reduction.h"
#include "ops_scatter.h"
#include "ops_shape.h"

namespace rl::sparse {

namespace {

Tensor number(int64_t n) { return wrap_number(Scalar(n)); }
Tensor counted(int64_t n, Device device) {
  return ops::arange(Scalar(n), DType::Int64, {}, device);
}
Tensor long_indices(const Tensor& t) { return ops::to_dtype(t, DType::Int64); }
Tensor flat(const Tensor& t) { return ops::reshape(t, Dims{-1}); }

// How many dims of the values are places: batch, count, and block.
int64_t place_dims(const SparsePattern& p) {
  return (is_compressed(p.layout) ? p.indices.dim() : 1) + 2 * has_blocks(p.layout);
}

Dims dims(IntSpan sizes, int64_t begin, int64_t end) {
  return Dims(IntSpan(sizes.data() + begin, end - begin));
}

// (first, *rest of the sizes from dim `from` on)
Dims with_rest(int64_t first, IntSpan sizes, int64_t from) {
  Dims all{first};
  for (int64_t d = from; d < sizes.size(); ++d) all.push_back(sizes[d]);
  return all;
}

Tensor flat_values(const Tensor& values, const SparsePattern& p) {
  int64_t places = place_dims(p);
  int64_t count = product(dims(values.sizes(), 0, places));
  return ops::reshape(values, with_rest(count, values.sizes(), places));
}

// A dense tensor as one row for each place.
Tensor rows(const Tensor& dense, int64_t dense_dim) {
  int64_t places = dense.dim() - dense_dim;
  int64_t count = product(dims(dense.sizes(), 0, places));
  return ops::reshape(dense, with_rest(count, dense.sizes(), places));
}

// They may have changed since the tensor was made.
void check_indices(const Tensor& row, int64_t dim, int64_t size) {
  if (!row.numel()) return;
  check(item_or<int64_t>(ops::amin(row), 0) >= 0 && item_or<int64_t>(ops::amax(row), 0) < size,
        "sparse tensor: an index of dim ", dim, " is not in [0, ", size, ")");
}

Tensor coo_positions(const Tensor& indices, IntSpan sizes) {
  Tensor keys = ops::zeros(Dims{indices.size(1)}, DType::Int64, {}, indices.device());
  for (int64_t d = 0; d < indices.size(0); ++d) {
    Tensor row = ops::clone(ops::select(indices, 0, d));  // others may change it meanwhile
    check_indices(row, d, sizes[d]);
    keys = ops::add(ops::mul(keys, number(sizes[d])), row);
  }
  return keys;
}

Tensor compressed_positions(const SparsePattern& p, const Dims& value_sizes) {
  int64_t batch_dims = p.indices.dim() - 1;
  int64_t height = p.sizes[batch_dims], width = p.sizes[batch_dims + 1];
  int64_t p0 = 1, p1 = 1;
  if (has_blocks(p.layout)) {
    p0 = value_sizes[batch_dims + 1];
    p1 = value_sizes[batch_dims + 2];
  }
  // Which row of which batch each element is in, counted through.
  Tensor counts = flat(ops::diff(long_indices(p.indices)));
  Tensor outer = ops::repeat_interleave(counted(counts.numel(), counts.device()), counts);
  Tensor inner = ops::clone(flat(long_indices(p.plain)));
  check_indices(inner, batch_dims + !compresses_columns(p.layout),
                compresses_columns(p.layout) ? height / p0 : width / p1);
  Tensor row, column;
  if (compresses_columns(p.layout)) {
    Tensor lines = number(width / p1);
    Tensor batch = ops::floor_divide(outer, lines);
    column = ops::remainder(outer, lines);
    row = ops::add(ops::mul(batch, number(height / p0)), inner);
  } else {
    row = outer;
    column = inner;
  }
  if (has_blocks(p.layout)) {
    Tensor block_row = ops::reshape(ops::mul(row, number(p0)), Dims{-1, 1, 1});
    Tensor block_column = ops::reshape(ops::mul(column, number(p1)), Dims{-1, 1, 1});
    row = ops::add(block_row, ops::reshape(counted(p0, row.device()), Dims{-1, 1}));
    column = ops::add(block_column, counted(p1, column.device()));
  }
  return flat(ops::add(ops::mul(row, number(width)), column));
}

Tensor pattern_positions(const SparsePattern& p, const Dims& value_sizes) {
  NoGradGuard guard;
  if (is_compressed(p.layout)) return compressed_positions(p, value_sizes);
  return coo_positions(p.indices, p.sizes);
}

bool same_indices(const Tensor& a, const Tensor& b) {
  return a.ref() == b.ref() ||
         (a.sizes() == b.sizes() && a.dtype() == b.dtype() && ops::equal(a, b));
}

// The values of sparse `source` at some places; zero where it has none.
Tensor find(const Tensor& source, const Tensor& wanted) {
  Tensor from = coalesce(source);
  Tensor elements = flat_values(values(from), sparse_data(from).pattern);
  if (elements.sizes()[0] == 0)
    return ops::zeros(with_rest(wanted.numel(), elements.sizes(), 1), source.dtype(), {},
                      source.device());
  auto [sorted, order] = ops::sort(positions(from));
  Tensor place =
      ops::clamp(ops::searchsorted(sorted, wanted), std::nullopt, Scalar(sorted.numel() - 1));
  Tensor known = ops::eq(ops::index_select(sorted, 0, place), wanted);
  Tensor found = ops::index_select(elements, 0, ops::index_select(order, 0, place));
  Dims shape(found.dim());
  for (int64_t d = 0; d < shape.size(); ++d) shape[d] = d ? 1 : -1;
  return ops::mul(found, ops::to_dtype(ops::reshape(known, shape), found.dtype()));
}

// Equal indices have equal gradients, that of their place: one of each.
SparsePattern without_repetition(const SparsePattern& p, Tensor& gradient) {
  auto [sorted, order] = ops::sort(coo_positions(p.indices, p.sizes), -1, false, true);
  Tensor first = ops::ne(ops::diff(sorted, 1, -1, ops::sub(ops::slice(sorted, 0, 0, 1), number(1))),
                         number(0));
  Tensor chosen = ops::masked_select(order, first);
  gradient = ops::index_select(gradient, 0, chosen);
  return {p.layout, true, ops::index_select(p.indices, 1, chosen), {}, p.sizes};
}

class Construct final : public Node {
 public:
  Construct(SparsePattern pattern, const Tensor& values)
      : Node(is_compressed(pattern.layout) ? "sparse_compressed_tensor"
                                           : "sparse_coo_tensor_with_dims_and_tensors"),
        pattern_(std::move(pattern)),
        sizes_(values.sizes()) {}
  void apply(Gradients& grads, Gradients& results) override {
    results[0] = take(grads[0], pattern_, sizes_);
  }

 private:
  SparsePattern pattern_;
  Dims sizes_;
};

class Values final : public Node {
 public:
  explicit Values(SparsePattern pattern) : Node("values"), pattern_(std::move(pattern)) {}
  void apply(Gradients& grads, Gradients& results) override {
    Tensor gradient = grads[0];
    bool repeats = !is_compressed(pattern_.layout) && !pattern_.is_coalesced();
    SparsePattern where = repeats ? without_repetition(pattern_, gradient) : pattern_;
    results[0] = construct(gradient, where);
  }

 private:
  SparsePattern pattern_;
};

// The gradient of a place is that of all that was added up there.
class Coalesce final : public Node {
 public:
  Coalesce() : Node("coalesce") {}
  void apply(Gradients& grads, Gradients& results) override { results[0] = grads[0]; }
};

template <class N, class... Args>
Tensor record(Tensor result, const Tensor& input, const Args&... args) {
  if (!grad_enabled() || !requires_grad(input)) return result;
  Ref<Node> node = make_ref<N>(args...);
  node->add_input(input);
  set_history(result, node);
  return result;
}

Tensor sum_of_equal(const Tensor& values, const Tensor& groups, int64_t count) {
  DType dtype = values.dtype();
  bool as_numbers = dtype == DType::Bool;
  Tensor terms = as_numbers ? ops::to_dtype(values, DType::Int32) : values;
  Tensor total =
      ops::zeros(with_rest(count, values.sizes(), 1), terms.dtype(), {}, values.device());
  total = ops::index_add(total, 0, groups, terms);
  return as_numbers ? ops::to_dtype(total, dtype) : total;
}

Tensor coalesced(const SparseData& data) {
  const SparsePattern& p = data.pattern;
  NoGradGuard guard;
  auto [keys, inverse, counts] = ops::unique(coo_positions(p.indices, p.sizes));
  int64_t sparse_dim = p.indices.size(0);
  TensorList index;
  Tensor rest = keys;
  for (int64_t d = sparse_dim - 1; d >= 0; --d) {
    Tensor size = number(std::max<int64_t>(1, p.sizes[d]));
    index.insert(index.begin(), ops::remainder(rest, size));
    rest = ops::floor_divide(rest, size);
  }
  Tensor indices = sparse_dim ? ops::stack(index)
                              : ops::zeros(Dims{0, keys.numel()}, DType::Int64, {}, keys.device());
  Tensor values = sum_of_equal(data.values, inverse, keys.numel());
  return make_sparse({p.layout, true, indices, {}, p.sizes}, values);
}

// Rows of a matrix, of which the elements may be anything until they are checked.
void check_rows(const Tensor& starts, const Tensor& columns, int64_t width) {
  const int64_t *start = starts.data<int64_t>(), rows = starts.numel() - 1;
  check(rows >= 0 && start[0] == 0 && start[rows] == columns.numel(),
        "sparse tensor: rows must begin at 0 and end at ", columns.numel());
  for (int64_t i = 0; i < rows; ++i)
    check(start[i] <= start[i + 1], "sparse tensor: row ", i, " ends before it begins");
  check_indices(columns, 1, width);
}

Tensor add_sparse(const Tensor& a, const Tensor& b) {
  const SparsePattern &p = sparse_data(a).pattern, &q = sparse_data(b).pattern;
  check(a.sizes() == b.sizes(), "add: sparse tensors of shapes ", a.sizes(), " and ", b.sizes());
  check(p.layout == q.layout, "add: tensors in layouts ", name(p.layout), " and ", name(q.layout));
  if (same_pattern(p, q)) {
    SparsePattern both = p;
    both.coalesced = p.is_coalesced() && q.is_coalesced();
    return construct(ops::add(values(a), values(b)), both);
  }
  check_implemented(!is_compressed(p.layout), "add: tensors in layout ", name(p.layout),
                    " with different indices");
  check(p.indices.size(0) == q.indices.size(0), "add: sparse tensors with ", p.indices.size(0),
        " and ", q.indices.size(0), " sparse dims");
  Tensor total = construct(ops::cat({values(a), values(b)}),
                           {p.layout, false, ops::cat({p.indices, q.indices}, 1), {}, p.sizes});
  return p.is_coalesced() && q.is_coalesced() ? coalesce(total) : total;
}

}  // namespace

int64_t dense_dims(const Tensor& t) {
  const SparseData& data = sparse_data(t);
  return data.values.dim() - place_dims(data.pattern);
}

bool same_pattern(const SparsePattern& a, const SparsePattern& b) {
  return a.layout == b.layout && a.sizes == b.sizes && same_indices(a.indices, b.indices) &&
         (!is_compressed(a.layout) || same_indices(a.plain, b.plain));
}

Tensor construct(const Tensor& values, SparsePattern pattern) {
  return record<Construct>(make_sparse(pattern, alias(values)), values, pattern, values);
}

Tensor values(const Tensor& t) {
  const SparseData& data = sparse_data(t);
  return record<Values>(alias(data.values), t, data.pattern);
}

Tensor coalesce(const Tensor& t) {
  const SparseData& data = sparse_data(t);
  if (is_compressed(data.pattern.layout) || data.pattern.is_coalesced()) return t;
  return record<Coalesce>(coalesced(data), t);
}

Tensor positions(const Tensor& t) {
  const SparseData& data = sparse_data(t);
  return pattern_positions(data.pattern, data.values.sizes());
}

Tensor take(const Tensor& source, const SparsePattern& pattern, const Dims& value_sizes) {
  int64_t dense_dim = value_sizes.size() - place_dims(pattern);
  bool same_dims = source.is_sparse() && dense_dims(source) == dense_dim;
  if (same_dims && same_pattern(sparse_data(source).pattern, pattern)) {
    Tensor found = values(source);
    if (found.sizes() == value_sizes) return found;
  }
  Tensor wanted = pattern_positions(pattern, value_sizes);
  Tensor found;
  if (same_dims) {
    found = find(source, wanted);
  } else {
    Tensor dense = source.is_sparse() ? to_dense(source) : source;
    found = ops::index_select(rows(dense, dense_dim), 0, wanted);
  }
  return ops::reshape(found, value_sizes);
}

namespace {

// Copies of the indices of two matrices, which others may change, and their product.
struct IndexProduct {
  IndexProduct(const MatrixRows& a, const MatrixRows& b, int64_t width)
      : a_(rows_of(a, b.starts.numel() - 1)),
        b_(rows_of(b, width)),
        kernel(compressed(a_), compressed(b_), width),
        starts(empty(a.starts.sizes(), {DType::Int64, Device()})) {}

  static MatrixRows rows_of(const MatrixRows& m, int64_t width) {
    MatrixRows copy{ops::clone(m.starts), ops::clone(m.columns), {}};
    check_rows(copy.starts, copy.columns, width);
    return copy;
  }
  static kernels::CompressedRows compressed(const MatrixRows& m) {
    return {m.starts.data<int64_t>(), m.columns.data<int64_t>(), m.starts.numel() - 1};
  }

 private:
  MatrixRows a_, b_;

 public:
  const kernels::SparseProduct kernel;
  const Tensor starts;
};

template <class T> Tensor vector_of(const std::vector<T>& elements, DType dtype) {
  Tensor made = empty(Dims{int64_t(elements.size())}, {dtype, Device()});
  std::copy(elements.begin(), elements.end(), made.data<T>());
  return made;
}

template <class T> MatrixRows multiplied(const MatrixRows& a, const MatrixRows& b, int64_t width) {
  const IndexProduct indices(a, b, width);
  std::vector<T> values;
  const std::vector<int64_t> columns = indices.kernel.multiply(
      indices.starts.data<int64_t>(), a.values.data<T>(), b.values.data<T>(), values);
  return {indices.starts, vector_of(columns, DType::Int64), vector_of(values, a.values.dtype())};
}

}  // namespace

ProductPattern product_pattern(const MatrixRows& a, const MatrixRows& b, int64_t width) {
  const IndexProduct indices(a, b, width);
  const Dims count{indices.kernel.count()};
  const TensorOptions whole{DType::Int64, Device()};
  Tensor left = empty(count, whole), right = empty(count, whole), places = empty(count, whole);
  const std::vector<int64_t> columns =
      indices.kernel.find(indices.starts.data<int64_t>(), left.data<int64_t>(),
                          right.data<int64_t>(), places.data<int64_t>());
  return {indices.starts, vector_of(columns, DType::Int64), left, right, places};
}

MatrixRows product(const MatrixRows& a, const MatrixRows& b, int64_t width) {
  return a.values.dtype() == DType::Float64 ? multiplied<double>(a, b, width)
                                            : multiplied<float>(a, b, width);
}

Tensor product(const MatrixRows& a, const Tensor& vector) {
  const int64_t height = a.starts.numel() - 1;
  const kernels::CompressedRows rows{a.starts.data<int64_t>(), a.columns.data<int64_t>(), height};
  Tensor out = rl::empty(Dims{height}, options(vector));
  auto multiply = [&](auto tag) {
    using T = typename decltype(tag)::type;
    rows.multiply(a.values.data<T>(), a.values.numel(), vector.data<T>(), vector.numel(),
                  out.data<T>());
  };
  if (vector.dtype() == DType::Float64) multiply(TypeTag<double>());
  else multiply(TypeTag<float>());
  return out;
}

Tensor row_starts(const Tensor& rows, int64_t height) {
  Tensor all = ops::contiguous(rows), out = rl::empty(Dims{height + 1}, options(rows));
  kernels::CompressedRows::find_starts(all.data<int64_t>(), all.numel(), height,
                                       out.data<int64_t>());
  return out;
}

Tensor to_dense(const Tensor& t) {
  Tensor source = coalesce(t);
  const SparseData& data = sparse_data(source);
  Tensor elements = flat_values(values(source), data.pattern);
  int64_t count = product(dims(t.sizes(), 0, t.dim() - dense_dims(t)));
  Tensor zeros = ops::zeros(with_rest(count, elements.sizes(), 1), t.dtype(), {}, t.device());
  return ops::reshape(ops::index_copy_(zeros, 0, positions(source), elements), t.sizes());
}

Tensor clone(const Tensor& t) {
  SparsePattern p = sparse_data(t).pattern;
  {
    NoGradGuard guard;
    p.indices = ops::clone(p.indices);
    if (p.plain.defined()) p.plain = ops::clone(p.plain);
  }
  return construct(ops::clone(values(t)), p);
}

Tensor add(const Tensor& a, const Tensor& b) {
  if (a.is_sparse() && b.is_sparse()) return add_sparse(a, b);
  return ops::add(a.is_sparse() ? to_dense(a) : a, b.is_sparse() ? to_dense(b) : b);
}

void add_(const Tensor& to, const Tensor& t) {
  NoGradGuard guard;
  if (to.is_sparse()) {
    check(t.is_sparse(), "add_: a dense tensor cannot be added to one in layout ",
          name(to.layout()), " in place");
    return replace_sparse(to, add_sparse(to, t));
  }
  if (!to.is_contiguous() || to.sizes() != t.sizes() || to.dtype() != t.dtype()) {
    ops::add_(to, to_dense(t));
    return;
  }
  const SparseData& data = sparse_data(t);
  ops::index_add_(rows(to, dense_dims(t)), 0, positions(t), flat_values(data.values, data.pattern));
}

}  // namespace rl::sparse
