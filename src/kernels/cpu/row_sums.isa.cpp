#include "kernels/cpu/row_sums.h"

#include "kernels/cpu/lanes.h"

namespace rl::kernels::RL_ISA {
namespace {

// The columns [j, j + vectors * lanes) of the sum stay in registers.
template <int vectors, class R> void add_columns(const RowSum<R>& job, int64_t j) {
  constexpr int lanes = Vector<R>::lanes;
  vec<R> sums[vectors];
  for (int v = 0; v < vectors; ++v) sums[v] = load(job.sum + j + v * lanes);
  for (int64_t i = 0; i < job.count; ++i) {
    const R* row = job.table + job.rows[i] * job.row_step + j;
    for (int v = 0; v < vectors; ++v)
      sums[v] = mul_add(load(row + v * lanes), job.factors[i], sums[v]);
  }
  for (int v = 0; v < vectors; ++v) store(job.sum + j + v * lanes, sums[v]);
}

template <class R> void add_rows(const RowSum<R>& job) {
  constexpr int lanes = Vector<R>::lanes;
  int64_t j = 0;
  for (; j + 8 * lanes <= job.width; j += 8 * lanes) add_columns<8>(job, j);
  for (; j + 4 * lanes <= job.width; j += 4 * lanes) add_columns<4>(job, j);
  for (; j + lanes <= job.width; j += lanes) add_columns<1>(job, j);
  if (j == job.width) return;
  for (int64_t i = 0; i < job.count; ++i) {
    const R* row = job.table + job.rows[i] * job.row_step;
    for (int64_t k = j; k < job.width; ++k)
      job.sum[k] = mul_add(row[k], job.factors[i], job.sum[k]);
  }
}

// Columns [j, j + vectors * lanes) of bag b; of the last vector the first `part`, if not 0.
template <int vectors>
RL_INLINE void sum_bag(const BagSums& job, int64_t b, int64_t j, int64_t part) {
  constexpr int lanes = Vector<float>::lanes, ahead = 8;
  vec<float> sums[vectors] = {};
  const int64_t begin = job.starts[b], end = job.starts[b + 1], all = job.starts[job.last];
  for (int64_t i = begin; i < end; ++i) {
    if (job.far && i + ahead < all) {
      const float* later = job.table + job.rows[i + ahead] * job.row_step + j;
      for (int v = 0; v < vectors; ++v) __builtin_prefetch(later + v * lanes);
    }
    const float* row = job.table + job.rows[i] * job.row_step + j;
    for (int v = 0; v < vectors; ++v) {
      const vec<float> x = part ? load_part(row, part) : load(row + v * lanes);
      sums[v] = mul_add(x, job.factors[i], sums[v]);
    }
  }
  float* out = job.out + b * job.out_step + j;
  const float count = static_cast<float>(job.mean && begin < end ? end - begin : 1);
  for (int v = 0; v < vectors; ++v) {
    sums[v] /= count;
    if (part) store_part(out, sums[v], part);
    else store(out + v * lanes, sums[v]);
  }
}

template <class R> R dot(const R* a, const R* b, int64_t n) {
  constexpr int lanes = Vector<R>::lanes, together = 4;
  vec<R> sums[together] = {};
  int64_t i = 0;
  for (; i + together * lanes <= n; i += together * lanes)
    for (int v = 0; v < together; ++v)
      sums[v] = mul_add(load(a + i + v * lanes), load(b + i + v * lanes), sums[v]);
  for (; i + lanes <= n; i += lanes) sums[0] = mul_add(load(a + i), load(b + i), sums[0]);
  if (i < n) sums[1] = mul_add(load_part(a + i, n - i), load_part(b + i, n - i), sums[1]);
  const vec<R> total = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  R sum;
  fold_lanes<Add, R>(total, &sum);
  return sum;
}

}  // namespace

void dot_of_floats(const float* a, const float* b, int64_t n, float* sum) { *sum = dot(a, b, n); }
void dot_of_doubles(const double* a, const double* b, int64_t n, double* sum) {
  *sum = dot(a, b, n);
}
void sum_bags_of_floats(const BagSums& job) {
  constexpr int lanes = Vector<float>::lanes;
  for (int64_t b = job.first; b < job.last; ++b) {
    int64_t j = 0;
    for (; j + 4 * lanes <= job.width; j += 4 * lanes) sum_bag<4>(job, b, j, 0);
    for (; j < job.width; j += lanes)
      sum_bag<1>(job, b, j, job.width - j < lanes ? job.width - j : 0);
  }
}

void add_rows_of_floats(const RowSum<float>& job) { add_rows(job); }
void add_rows_of_doubles(const RowSum<double>& job) { add_rows(job); }

}  // namespace rl::kernels::RL_ISA
