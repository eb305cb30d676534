// Sparse tensors: a tensor whose impl has, in place of data, the elements that may differ from zero
// and where they are. It lies on a device and has sizes, a dtype and a history like any other; its
// storage is empty, so that whatever asks for data or for a view meets an error that names the
// layout.
//
// Dims are, in this order: batch dims (of compressed layouts alone), sparse dims, dense dims.
#pragma once
#include "tensor/tensor.h"

namespace rl {

// Where the elements are. In COO layout `indices` is (sparse_dim, nnz) and `plain` undefined. In
// compressed layouts `indices` says where each row begins (column, for CSC and BSC; counted in
// blocks for BSR and BSC), of shape (*batch, rows + 1), and `plain` which column each element is
// in, (*batch, nnz).
struct SparsePattern {
  Layout layout = Layout::SparseCoo;
  bool coalesced = false;  // COO: the indices were sorted, none twice; see is_coalesced()
  Tensor indices;
  Tensor plain;
  Dims sizes;            // of the whole tensor
  uint32_t version = 0;  // of `indices` when `coalesced` was true of them

  // Indices that were changed since may be neither sorted nor different.
  bool is_coalesced() const { return coalesced && indices.version() == version; }
};

struct SparseData {
  SparsePattern pattern;
  Tensor values;  // (*batch, nnz, *block, *dense), without history
};

const char* name(Layout layout);  // "sparse_coo"
inline bool is_compressed(Layout layout) { return layout > Layout::SparseCoo; }
inline bool has_blocks(Layout layout) { return layout >= Layout::SparseBsr; }
inline bool compresses_columns(Layout layout) {
  return layout == Layout::SparseCsc || layout == Layout::SparseBsc;
}

// A sparse tensor without history, which shares the memory of indices and values.
Tensor make_sparse(SparsePattern pattern, Tensor values);
const SparseData& sparse_data(const Tensor& t);
// `t` comes to have the elements of `from`, which is of the same layout and sizes.
void replace_sparse(const Tensor& t, const Tensor& from);

}  // namespace rl
