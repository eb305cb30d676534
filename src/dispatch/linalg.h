// What the files of linear algebra share: checks of matrices, and shapes of batches.
#pragma once
#include "dispatch/generated.h"

namespace rl {

void check_matrix(const char* op, const Tensor& a, const char* name = "A");
void check_square(const char* op, const Tensor& a, const char* name = "A");
// Raises LinAlgError for the first matrix whose LAPACK code is not 0.
void check_info(const char* op, const Tensor& info, const char* what);
Dims batch_of(const Tensor& a);
Dims with_matrix(Dims batch, int64_t rows, int64_t columns);

}  // namespace rl
