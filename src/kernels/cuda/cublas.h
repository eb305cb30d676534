// Matrix products by cuBLASLt, where it is installed.
#pragma once
#include "core/dtype.h"
#include "kernels/cuda/device/parameters.h"

namespace rl::cuda {

// Computes the product, then max(0, .) if `relu`, and returns true; false where cuBLASLt is missing
// or does not take it, and an own kernel has to.
bool cublas_product(int device, const Product& p, int64_t batches, DType dtype, bool relu);

// Whether products of float32 may round their operands to TF32.
bool allow_tf32();
void set_allow_tf32(bool allow);

}  // namespace rl::cuda
