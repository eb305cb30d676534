// Sums of chosen rows of a table, as lookups of bags of rows and gradients of lookups need them.
#pragma once
#include <cstdint>

#include "kernels/cpu/isa.h"

namespace rl::kernels {

template <class R> struct RowSum {
  const R* table;
  int64_t row_step;     // from one row to the next
  const int64_t* rows;  // which ones
  const R* factors;     // of each of them
  int64_t count;        // how many
  R* sum;
  int64_t width;
};

// sum[j] += factors[i] * table[rows[i] * row_step + j] for each i in order, for all j < width.
RL_ISA_KERNEL(add_rows_of_floats, (const RowSum<float>& job))
RL_ISA_KERNEL(add_rows_of_doubles, (const RowSum<double>& job))

// *sum = a . b of n elements.
RL_ISA_KERNEL(dot_of_floats, (const float* a, const float* b, int64_t n, float* sum))
RL_ISA_KERNEL(dot_of_doubles, (const double* a, const double* b, int64_t n, double* sum))

}  // namespace rl::kernels
