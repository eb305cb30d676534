// How results lie in memory. torch promises its users strides, not only sizes, and has five rules:
//
//   contiguous        empty()                  kernels that write line by line: softmax, scans
//   preserve format   empty_like()             copies, and ops that move or draw elements
//   elementwise       elementwise_strides()    ops that broadcast several operands
//   suggested format  empty_suggested()        ops on images: channels_last stays channels_last
//   column-major      empty_column_major()     what LAPACK writes
//
// An op names its rule by the function it calls. A result whose strides read contiguous may lie in
// physical layout besides (physical_layout.h): that is the caller's business, except where noted.
#pragma once
#include "core/memory_format.h"
#include "tensor/tensor.h"

namespace rl {

// Free of gaps and overlap in some order of the dims, so that strides can be kept for a result.
bool is_dense(IntSpan sizes, IntSpan strides);

// Preserve format: the strides themselves where they are dense, else dense ones in the same order.
Dims dense_strides_like(IntSpan sizes, IntSpan strides);

// Elementwise: of a result of these sizes, to which the inputs are broadcast. The first input that
// tells two dims apart decides which of them is the faster one.
Dims elementwise_strides(const Dims& sizes, const Tensor* const* inputs, int count);

// Whether the strides are those of channels_last; dims of size 1 may have any.
bool is_channels_last(IntSpan sizes, IntSpan strides);
// channels_last (of 4 dims, or 5) where the strides order the dims so, gaps or not; else
// contiguous.
MemoryFormat suggested_format(IntSpan sizes, IntSpan strides);
inline MemoryFormat suggested_format(const Tensor& t) {
  return suggested_format(t.sizes(), t.strides());
}
// Of lines (N, C, L), which count as images of one row.
MemoryFormat suggested_format_of_lines(const Tensor& t);
Dims strides_in_format(IntSpan sizes, MemoryFormat format);
// In the suggested format of `like`, or in physical layout if `like` lies so.
Tensor empty_suggested(IntSpan sizes, const Tensor& like, DType dtype);

// The last two dims column by column; the others, batches, contiguous.
Dims column_major_strides(IntSpan sizes);
inline Tensor empty_column_major(IntSpan sizes, TensorOptions options) {
  return empty_strided(sizes, column_major_strides(sizes), options);
}

}  // namespace rl
