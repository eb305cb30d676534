// Matrix products of 2-D views, and of batches of them.
//
// Views may have any strides. All dtypes but bool; all views share one dtype. 16-bit floats
// accumulate in float, integers wrap. The result does not depend on the number of threads.
#pragma once
#include <atomic>

#include "core/scalar.h"
#include "kernels/elementwise.h"

namespace rl::kernels {

// Whether the factors of float32 products may be rounded to bfloat16 on the CPU, which a matrix
// unit multiplies.
extern std::atomic<bool> round_float_factors;

// out = finish(alpha * (a @ b) + beta * out). With beta = 0 the old contents of `out` are never
// read, so NaNs there do not spread. `finish` has one input and no numbers, and its result is what
// it is after the product: each tile passes it while it is in the first cache.
struct GemmScale {
  Scalar alpha = 1, beta = 0;
  const Loop* finish = nullptr;
};

// (n, k) x (k, m) -> (n, m), or batches (B, n, k) x (B, k, m) -> (B, n, m); a batch stride of 0
// repeats one matrix. `added` has the sizes of out, and is taken in its place times beta. On the
// CPU, `out` and `added` may be of Float32 where the factors are 16-bit floats.
void gemm(const View& a, const View& b, const View& out, const GemmScale& scale = {},
          const View* added = nullptr);

// The same of Int8 or UInt8 by Int8, into Int32, which lies in rows.
void gemm_bytes(const View& a, const View& b, const View& out);

// (n, k) of Float32 by the transpose of (m, k), whose rows are groups of small integers times a
// scale: `integers` of Int8, or of UInt8 and half as wide, two of 4 bits to a byte, the first one
// in the lower half and each 8 too large; `scales` (m, groups) of Float32. Groups are multiples of
// 32 long. All but x are contiguous.
void gemm_groups(const View& x, const View& integers, const View& scales, const View& out);

// (n, k) x (k) -> (n).
void matvec(const View& a, const View& x, const View& out, const GemmScale& scale = {});

// (k) x (k) -> (); nothing is conjugated.
void dot(const View& a, const View& b, const View& out);

}  // namespace rl::kernels
