// Reductions over any set of dims.
//
// `out` tells what is reduced: it has the input's ndim, and size 1 in each reduced dim (the shape
// of keepdim=True). All strides are free on both sides. Results come from a tree of fixed shape:
// they depend on sizes and strides of the input, never on the number of threads. Accumulators:
// float32 for float32, float16 and bfloat16, int64 for integers and bool, else the input's dtype;
// the result is then converted to out's dtype, whatever that is.
#pragma once
#include "core/view.h"

namespace rl::kernels {

void sum(const View& input, const View& out);
void nansum(const View& input, const View& out);  // floating inputs
void mean(const View& input, const View& out);    // floating and complex inputs
void prod(const View& input, const View& out);
void all(const View& input, const View& out);
void any(const View& input, const View& out);
void count_nonzero(const View& input, const View& out);

// NaN where one is met. RuntimeError if the reduced dims hold no element. Real inputs.
void amax(const View& input, const View& out);
void amin(const View& input, const View& out);

// Extremes with their places; either one dim is reduced or all are (then places count elements in
// row-major order). The first of equals wins, and the first NaN before all else. `values` (input's
// dtype) and `indices` (int64) have out's form; `values` may be null.
void max_with_index(const View& input, const View* values, const View& indices);
void min_with_index(const View& input, const View* values, const View& indices);

// (sum |x|^p)^(1/p); p = 0 counts what is not zero, p = +-inf takes the largest or smallest |x|.
// Floating and complex inputs, real out. With p = +-inf (or p < 0) an empty input is a
// RuntimeError.
void norm(const View& input, double p, const View& out);

// Sum of squared distances from the mean over max(0, n - correction), and its root if `root`. The
// mean goes to *mean if not null. Floating and complex inputs; out is real, mean of input's kind.
void var(const View& input, double correction, bool root, const View& out, const View* mean);

// log(sum(exp(x))), stable; -inf where nothing is summed. Floating inputs.
void logsumexp(const View& input, const View& out);

}  // namespace rl::kernels
