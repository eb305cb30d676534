// Max and average pooling over the last 1, 2 or 3 dims; leading dims are planes pooled alike.
// Any strides. Max pooling takes floating and integer dtypes, the others floating ones.
#pragma once
#include "core/view.h"

namespace rl::kernels {

struct PoolGeometry {
  int dims = 2;  // spatial dims; the arrays below are valid up to here
  int64_t kernel[3] = {1, 1, 1};
  int64_t stride[3] = {1, 1, 1};
  int64_t padding[3] = {0, 0, 0};
  int64_t dilation[3] = {1, 1, 1};  // max pooling only
  bool ceil_mode = false;
};

// Sizes of the output, with torch's checks and errors; `op` names the caller in messages.
Dims pool_output_sizes(IntSpan input, const PoolGeometry& geometry, const char* op);

// `indices` (int64, shape of out), unless nullptr, receives where in its plane each maximum lies,
// counted in row-major order whatever the strides. NaN wins.
void max_pool(const View& input, const View& out, const View* indices,
              const PoolGeometry& geometry);
// grad_input (any floating dtype) is overwritten: zeros, plus each grad_out at its index.
// Serves adaptive_max_pool, and as the gradient of any plane-wise gather over `dims` dims.
void max_pool_backward(const View& grad_out, const View& indices, const View& grad_input, int dims);
// out is overwritten: zeros, plus each input at its index. IndexError (with torch's text) outside.
void max_unpool(const View& input, const View& indices, const View& out, int dims);

// divisor_override 0: none.
void avg_pool(const View& input, const View& out, const PoolGeometry& geometry,
              bool count_include_pad, int64_t divisor_override);
void avg_pool_backward(const View& grad_out, const View& grad_input, const PoolGeometry& geometry,
                       bool count_include_pad, int64_t divisor_override);

// The output sizes are those of `out`.
void adaptive_avg_pool(const View& input, const View& out, int dims);
void adaptive_avg_pool_backward(const View& grad_out, const View& grad_input, int dims);
void adaptive_max_pool(const View& input, const View& out, const View& indices, int dims);

}  // namespace rl::kernels
