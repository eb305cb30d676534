// Softmax along one dim and its gradient from the output. Floating dtypes, one for all views;
// strides are free. `dim` is in [0, ndim), 0 for a 0-d input. out may be the input.
#pragma once
#include "core/view.h"

namespace rl::kernels {

void softmax(const View& input, int64_t dim, const View& out);
void log_softmax(const View& input, int64_t dim, const View& out);
void softmax_backward(const View& grad, const View& output, int64_t dim, const View& grad_input);
void log_softmax_backward(const View& grad, const View& output, int64_t dim,
                          const View& grad_input);

}  // namespace rl::kernels
