// What the files of linear algebra share: checks of matrices, and shapes of batches.
#pragma once
#include "dispatch/generated.h"
#include "dispatch/shape_rules.h"
#include "tensor/output_layout.h"

namespace rl {

void check_matrix(const char* op, const Tensor& a, const char* name = "A");
void check_square(const char* op, const Tensor& a, const char* name = "A");
// Raises LinAlgError for the first matrix whose LAPACK code is not 0.
void check_info(const char* op, const Tensor& info, const char* what);
// The conjugate transpose as a tensor of its own where it is complex, for what reads it often.
Tensor adjoint_now(const Tensor& a);
Dims batch_of(const Tensor& a);
Dims with_matrix(Dims batch, int64_t rows, int64_t columns);
Dims with_last(Dims batch, int64_t last);
// New tensors for results: as LAPACK writes matrices, and its code for each.
Tensor matrices_like(const Tensor& a);
Tensor info_for(const Tensor& a);

namespace shape {
OutputSpec matrix_like(const Tensor& a);
OutputSpec vectors_of(const Tensor& a);  // a number for each column or row of which there are fewer
}  // namespace shape

}  // namespace rl
