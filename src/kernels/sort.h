// Order along one dim: sort, selection, search, distinct values, histograms. `dim` is in [0, ndim),
// 0 for a 0-d input. Strides are free unless "contiguous" is said. NaN counts as larger than every
// number. values have the input's dtype, indices are int64. Real dtypes.
#pragma once
#include "core/view.h"

namespace rl::kernels {

// Always stable. `values` and `indices` have the input's sizes; values may be null (argsort).
void sort(const View& input, int64_t dim, bool descending, const View* values, const View& indices);

// values and indices have size k along dim, in falling (rising if not largest) order; `sorted`
// asks for no more than that order, so it is always kept. RuntimeError if k > size.
void topk(const View& input, int64_t dim, int64_t k, bool largest, const View& values,
          const View& indices);

// The k-th smallest (k from 1) and its place. Outputs have size 1 along dim.
void kthvalue(const View& input, int64_t dim, int64_t k, const View& values, const View& indices);
// The lower of the two middles; NaN if the line holds one, unless ignore_nan.
void median(const View& input, int64_t dim, bool ignore_nan, const View& values,
            const View& indices);
// The most frequent value, the smallest of several such, and the last of its places. NaN equals
// nothing: of a line of NaN alone, the first is taken.
void mode(const View& input, int64_t dim, const View& values, const View& indices);

// Distinct elements of a contiguous 1-D input. Outputs are contiguous 1-D of the input's size, of
// which the first `count` (returned) elements of values and counts get filled. inverse and counts
// may be null.
int64_t unique(const View& input, const View& values, const View* inverse, const View* counts);
int64_t unique_consecutive(const View& input, const View& values, const View* inverse,
                           const View* counts);
// Distinct rows of a contiguous 2-D input, in lexicographic order, or in order of appearance and
// only among neighbours if `consecutive`. first[i], i < count, is a row equal to the i-th of them.
int64_t unique_rows(const View& input, bool consecutive, const View& first, const View* inverse,
                    const View* counts);

// out[..., j] is the place in row [...] of `sorted` where values[..., j] belongs: before equals, or
// after them if `right`. `sorted` is 1-D, or has the leading sizes of `values`. sorter (int64, of
// sorted's sizes, may be null) lists the row's elements in order. sorted and values have one dtype;
// out is int64 or int32. All contiguous.
void searchsorted(const View& sorted, const View& values, bool right, const View* sorter,
                  const View& out);

// Counts of elements in `out.numel` equal bins over [low, high], high included; what lies outside
// (or is NaN) is not counted. If low == high the input's own range is taken, and widened by 1 on
// both sides if that is a point. input and out are floating, out is 1-D.
void histc(const View& input, double low, double high, const View& out);

// The least size bincount's out may have: 1 + the largest element, 0 for an empty input.
// RuntimeError unless input is 1-D, integral and has no negative element.
int64_t bincount_size(const View& input);
// out[v] += 1 (int64 out) or weights[i] (float32 or float64, out's dtype) for each v = input[i].
// out is 1-D, contiguous, set to zero here.
void bincount(const View& input, const View* weights, const View& out);

}  // namespace rl::kernels
