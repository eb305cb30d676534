// Products of matrices and vectors.
#include "dispatch/generated.h"
#include "kernels/gemm.h"

namespace rl::impl {

Tensor mm(const Tensor& input, const Tensor& mat2) {
  check(input.dim() == 2, "mm: input must be a matrix, got shape ", input.sizes());
  check(mat2.dim() == 2, "mm: mat2 must be a matrix, got shape ", mat2.sizes());
  check(input.dtype() == mat2.dtype(), "mm: expected m1 and m2 to have the same dtype, but got: ", input.dtype(), " != ", mat2.dtype());
  check(input.sizes()[1] == mat2.sizes()[0], "mm: mat1 and mat2 shapes cannot be multiplied (", input.sizes()[0], "x", input.sizes()[1],
        " and ", mat2.sizes()[0], "x", mat2.sizes()[1], ")");
  Tensor out = rl::empty(Dims{input.sizes()[0], mat2.sizes()[1]}, options(input));
  if (!out.is_meta()) kernels::gemm(input.view(), mat2.view(), out.view());
  return out;
}

}  // namespace rl::impl
