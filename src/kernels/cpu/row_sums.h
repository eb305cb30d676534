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

struct BagSums {
  const float* table;
  int64_t row_step;
  const int64_t* rows;
  const float* factors;
  const int64_t* starts;  // of bags among the rows, and where the last one ends
  int64_t first, last;    // bags to sum up
  bool mean;
  bool far;  // rows come from memory
  float* out;
  int64_t out_step, width;
};

// Row b of `out` is the sum, or the mean, of factors[i] * table[rows[i] * row_step + j] for the i
// of bag b in order: zeros of an empty one.
RL_ISA_KERNEL(sum_bags_of_floats, (const BagSums& job))

// *sum = a . b of n elements.
RL_ISA_KERNEL(dot_of_floats, (const float* a, const float* b, int64_t n, float* sum))
RL_ISA_KERNEL(dot_of_doubles, (const double* a, const double* b, int64_t n, double* sum))

}  // namespace rl::kernels
