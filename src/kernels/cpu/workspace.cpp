#include "kernels/cpu/workspace.h"

namespace rl::kernels {

RowMajor::RowMajor(IntSpan sizes, DType dtype)
    : sizes_(sizes),
      strides_(contiguous_strides(sizes)),
      numel_(product(sizes)),
      dtype_(dtype),
      memory_(numel_ * itemsize(dtype)) {}

}  // namespace rl::kernels
