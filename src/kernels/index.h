// Reading and writing at computed places.
//
// Strides are free unless "contiguous" is said. Every index is checked before it is used:
// IndexError (RuntimeError where torch raises that) names the op, the index and the size. Index
// dtypes are int64 or int32. Writes happen in row-major order of the index, so that the last of
// several writes to one place stays and sums are the same for any number of threads. `dim` is in
// [0, ndim), 0 for a 0-d view. `self` is read and written in place.
#pragma once
#include "core/view.h"

namespace rl::kernels {

enum class Combine { Set, Sum, Prod, Mean, Max, Min };

// out[i][j][k] = input[index[i][j][k]][j][k] for dim 0. index and out have the same sizes, which
// may be smaller than input's in the other dims.
void gather(const View& input, int64_t dim, const View& index, const View& out);
// self[index[i][j][k]][j][k] (op)= src[i][j][k]. src has at least index's sizes (a value expanded
// with strides 0 will do) and self's dtype. Unless include_self, a place that is written starts
// from the op's identity. Mean divides by the count, self included if include_self.
// Nothing is written if an index is outside, unless self is fresh: nobody sees it then.
void scatter(const View& self, int64_t dim, const View& index, const View& src, Combine op,
             bool include_self = true, bool fresh = false);

// Whole slices along dim; index is 1-D (or 0-d). out and src have index.numel slices along dim.
void index_select(const View& input, int64_t dim, const View& index, const View& out);
void index_combine(const char* op_name, const View& self, int64_t dim, const View& index,
                   const View& src, Combine op, bool include_self = true,
                   bool negative_indices = false);
inline void index_add(const View& self, int64_t dim, const View& index, const View& src) {
  index_combine("index_add", self, dim, index, src, Combine::Sum);
}
inline void index_copy(const View& self, int64_t dim, const View& index, const View& src) {
  index_combine("index_copy", self, dim, index, src, Combine::Set);
}
// `src` is the value expanded to self's sizes with index.numel along dim. Negative indices count.
inline void index_fill(const View& self, int64_t dim, const View& index, const View& src) {
  index_combine("index_fill", self, dim, index, src, Combine::Set, true, true);
}

// Flat places in row-major order; negative ones count from the end. out or src has index's sizes.
void take(const View& input, const View& index, const View& out);
void put(const View& self, const View& index, const View& src, bool accumulate);

// Advanced indexing. `indices` hold one view for each of input's first `count` dims, all of the
// same sizes B (broadcast by strides 0); out and values have sizes B + input.sizes[count:].
// Negative indices count from the end. The caller permutes the indexed dims to the front.
void index(const View& input, Views indices, const View& out);
void index_put(const View& self, Views indices, const View& values, bool accumulate);

// Masks are bool and have self's sizes (broadcast by strides 0).
int64_t count_true(const View& mask);
// out: 1-D, of count_true(mask) elements.
void masked_select(const View& input, const View& mask, const View& out);
// The i-th true place gets src's i-th element in row-major order; RuntimeError if src is too short.
void masked_scatter(const View& self, const View& mask, const View& src);

// Offsets of elements that are not zero, in row-major order. out: (count_nonzero(input), ndim),
// int64.
void nonzero(const View& input, const View& out);

void flip(const View& input, IntSpan dims, const View& out);
void roll(const View& input, IntSpan shifts, IntSpan dims, const View& out);  // wrapped dims
// Keeps column - row <= diagonal (tril) or >= diagonal (triu) of the last two dims, zero elsewhere.
void tril(const View& input, int64_t diagonal, const View& out);
void triu(const View& input, int64_t diagonal, const View& out);

}  // namespace rl::kernels
