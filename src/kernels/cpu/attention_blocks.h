// The inner loops of attention: one head of one sample at a time.
#pragma once
#include "core/view.h"
#include "kernels/cpu/isa.h"

namespace rl::kernels {

// A matrix in memory; steps in elements.
struct AttentionMatrix {
  void* data = nullptr;
  int64_t row = 0, column = 0;
};

struct AttentionHead {
  DType dtype;
  int64_t queries, keys, width, value_width;
  AttentionMatrix query, key, value, mask, kept;  // mask, kept: data is nullptr where there is none
  bool mask_is_bool, causal;
  double scale, kept_scale;
  bool packed;  // whether key^T is in the scratch
};

inline constexpr int64_t attention_rows = 64;   // queries of a block
inline constexpr int64_t attention_keys = 512;  // keys of a block, so that its scores stay in L2

// Elements of scratch that the functions below need.
inline int64_t attention_scratch(int64_t keys, int64_t width, int64_t value_width) {
  int64_t columns = keys < attention_keys ? keys : attention_keys;
  return (width + value_width) * keys + attention_rows * (2 * columns + value_width + 4);
}

// Writes key^T, and with `values` value^T behind it, to the start of the scratch, where the others
// look for them.
RL_ISA_KERNEL(attention_pack, (const AttentionHead& head, bool values, void* scratch))
// Queries [first, first + count) of a head, count <= attention_rows; log_sum from `first` on.
RL_ISA_KERNEL(attention_block, (const AttentionHead& head, int64_t first, int64_t count,
                                const AttentionMatrix& out, void* log_sum, void* scratch))
// The gradients of the whole head; those of key and value are added if `add`.
RL_ISA_KERNEL(attention_head_backward,
              (const AttentionHead& head, bool add, const AttentionMatrix& grad,
               const AttentionMatrix& out, const void* log_sum, const AttentionMatrix& grad_query,
               const AttentionMatrix& grad_key, const AttentionMatrix& grad_value, void* scratch))

}  // namespace rl::kernels
