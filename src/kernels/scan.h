// Running reductions along one dim. `dim` is in [0, ndim); a 0-d input is scanned as one element.
// `out` has the input's sizes; strides are free, and out may be the input itself.
#pragma once
#include "core/view.h"

namespace rl::kernels {

// out may be of another dtype than the input: elements are converted first. With `reverse` the scan
// runs from the last element to the first, as the gradient of a scan needs.
void cumsum(const View& input, int64_t dim, const View& out, bool reverse = false);
void cumprod(const View& input, int64_t dim, const View& out, bool reverse = false);
// floating dtypes, the same for both
void logcumsumexp(const View& input, int64_t dim, const View& out, bool reverse = false);

// values: input's dtype; indices: int64. The last of equals wins; NaN, once met, stays.
void cummax(const View& input, int64_t dim, const View& values, const View& indices);
void cummin(const View& input, int64_t dim, const View& values, const View& indices);

// d(sum(grad * cumprod(input)))/d(input), exact where the input holds zeros, in linear time.
// All of one dtype, floating or complex (then the conjugate, as autograd means it).
void cumprod_backward(const View& grad, const View& input, int64_t dim, const View& grad_input);
// The same for logcumsumexp, from its result `out`.
void logcumsumexp_backward(const View& grad, const View& input, const View& out, int64_t dim,
                           const View& grad_input);

}  // namespace rl::kernels
