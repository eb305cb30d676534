// Attention of bfloat16 and of float on the processor's matrix unit, a block of queries at a time.
#pragma once
#include "kernels/cpu/attention_blocks.h"

namespace rl::kernels {

// What a head's tiles are made of: the parts of an element (see tile_unit.h); steps of 32 of a row
// of queries and keys, of one of values, and of the keys; the keys of a block, and the step between
// rows of its scores.
struct AttentionUnitSizes {
  int64_t parts, width_steps, value_steps, key_steps, columns, stride;
  AttentionUnitSizes(DType dtype, int64_t key_count, int64_t width, int64_t value_width);
  // Of tiles of 32 lines, of so many steps.
  int64_t tiles(int64_t steps) const { return steps * parts * 2048; }
};

// What a thread's scratch memory holds: tiles of the keys, values and queries, and of a block of
// queries and keys the scores, as floats, the weights (rows of bfloat16; of float, which take the
// scores' place, their tiles), the sums of weighted values, and each query's largest score and
// total.
struct AttentionUnitScratch : AttentionUnitSizes {
  char *keys, *values, *queries;
  float* scores;
  char* weights;
  float *sums, *high, *total;
  int64_t bytes;

  AttentionUnitScratch(const AttentionUnitSizes& sizes, void* memory);
};

// The same of the gradients of a head. Tiles of keys and of values, by key; of keys, queries and
// gradients by column, which are summed over; of queries and gradients by row; and of weights by
// key. Of a block of queries and keys the products and their slopes, as floats, and then as
// bfloat16, or the tiles of the slopes. The sums of gradients are floats.
struct AttentionUnitGradients : AttentionUnitSizes {
  char *keys, *values, *keys_by_column, *queries, *grads, *queries_by_column, *grads_by_column,
      *turned;
  float *products, *slopes;
  char *weights, *narrow_slopes;
  float *query_sums, *key_sums, *value_sums;
  int64_t bytes;

  AttentionUnitGradients(const AttentionUnitSizes& sizes, void* memory);
};

// Whether the unit can tell all of the lines of a matrix of floats, along its rows and its columns.
RL_ISA_KERNEL(attention_unit_tells,
              (const AttentionMatrix& m, int64_t rows, int64_t columns, bool* all))

// As attention_pack and attention_block, of a head of bfloat16, or of float that the unit can tell;
// its mask is of truth values or of float. Only where has_matrix_unit().
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
