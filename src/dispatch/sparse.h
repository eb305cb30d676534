// The steps between a sparse tensor and its values that autograd knows. All other functions of
// sparse tensors work on the values, which are an ordinary tensor, between values() and
// construct(); so their gradients follow from those of ordinary ops. The gradient of a sparse
// tensor is a sparse tensor with the same indices.
#pragma once
#include "tensor/sparse.h"

namespace rl::sparse {

// A sparse tensor with the history of `values`.
Tensor construct(const Tensor& values, SparsePattern pattern);
// The values with their history; of an uncoalesced tensor for linear functions alone.
Tensor values(const Tensor& t);
// Indices sorted, values of equal ones added up. Compressed tensors are so already.
Tensor coalesce(const Tensor& t);

// One number for each value: its place in a contiguous tensor of batch and sparse dims.
Tensor positions(const Tensor& t);
// The elements of `source`, dense or sparse, at the places of `pattern`, shaped like its values.
Tensor take(const Tensor& source, const SparsePattern& pattern, const Dims& value_sizes);
int64_t dense_dims(const Tensor& t);
bool same_pattern(const SparsePattern& a, const SparsePattern& b);

Tensor to_dense(const Tensor& t);
Tensor clone(const Tensor& t);
// Either may be dense: then the sum is. Tensors of compressed layouts must have the same indices.
Tensor add(const Tensor& a, const Tensor& b);
void add_(const Tensor& to, const Tensor& t);  // without history

// A matrix in compressed rows, whose parts are on the CPU and contiguous, indices int64.
struct MatrixRows {
  Tensor starts, columns, values;
};
// Which elements of two matrices are multiplied (`left`, `right`), and to which element of their
// product each of these is added (`places`); where its rows begin, and their columns.
struct ProductPattern {
  Tensor starts, columns, left, right, places;
};
ProductPattern product_pattern(const MatrixRows& a, const MatrixRows& b, int64_t width);
// The product of matrices of one dtype, float32 or float64, without history.
MatrixRows product(const MatrixRows& a, const MatrixRows& b, int64_t width);
// The product of a matrix and a contiguous vector of its dtype, float32 or float64, without
// history.
Tensor product(const MatrixRows& a, const Tensor& vector);
// Where each row begins among elements sorted by the row, int64 on the CPU, and where the last
// ends.
Tensor row_starts(const Tensor& rows, int64_t height);

// The same indices with other values.
template <class F> Tensor map(const Tensor& t, F&& f) {
  return construct(f(values(t)), sparse_data(t).pattern);
}

}  // namespace rl::sparse
