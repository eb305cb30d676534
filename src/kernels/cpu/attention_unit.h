// Attention of bfloat16 on the processor's matrix unit, a block of queries at a time.
#pragma once
#include "kernels/cpu/attention_blocks.h"

namespace rl::kernels {

// Steps of 32 of a row of queries and keys, of one of values, and of the keys; the keys of a block,
// and the step between rows of its scores.
struct AttentionUnitSizes {
  int64_t width_steps, value_steps, key_steps, columns, stride;
  AttentionUnitSizes(int64_t key_count, int64_t width, int64_t value_width);
};

// What a thread's scratch memory holds: tiles of the keys, values and queries (32 lines of 32 terms
// are two of 1024 bytes), and of a block of queries and keys the scores, as floats, the weights, as
// bfloat16, the sums of weighted values, and each query's largest score and total.
struct AttentionUnitScratch : AttentionUnitSizes {
  char *keys, *values, *queries;
  float* scores;
  bfloat16* weights;
  float *sums, *high, *total;
  int64_t bytes;

  AttentionUnitScratch(int64_t key_count, int64_t width, int64_t value_width, void* memory);
};

// The same of the gradients of a head. Tiles of keys and of values, by key; of keys, queries and
// gradients by column, which are summed over; of queries and gradients by row; and of weights by
// key. Of a block of queries and keys the products and their slopes, as floats, and then as
// bfloat16. The sums of gradients are floats.
struct AttentionUnitGradients : AttentionUnitSizes {
  char *keys, *values, *keys_by_column, *queries, *grads, *queries_by_column, *grads_by_column,
      *turned;
  float *products, *slopes;
  bfloat16 *weights, *narrow_slopes;
  float *query_sums, *key_sums, *value_sums;
  int64_t bytes;

  AttentionUnitGradients(int64_t key_count, int64_t width, int64_t value_width, void* memory);
};

// As attention_pack and attention_block, of a head of bfloat16; its mask is of truth values or of
// float. Only where has_matrix_unit().
RL_ISA_KERNEL(attention_unit_pack, (const AttentionHead& head, void* scratch))
RL_ISA_KERNEL(attention_unit_block, (const AttentionHead& head, int64_t first, int64_t count,
                                     const AttentionMatrix& out, float* log_sum, void* scratch))
// The gradients of a head. Those of key and value, whose heads are shared, are zero before the
// first of them and written after the last one.
RL_ISA_KERNEL(attention_unit_backward,
              (const AttentionHead& head, bool first, bool last, const AttentionMatrix& grad,
               const AttentionMatrix& out, const float* log_sum, const AttentionMatrix& grad_query,
               const AttentionMatrix& grad_key, const AttentionMatrix& grad_value, void* scratch))

}  // namespace rl::kernels
