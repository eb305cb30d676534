// Arguments of attention, in both worlds.
#pragma once
#include <cstdint>

namespace rl::cuda {

// (N, H, rows, columns), by steps in elements.
struct HeadMatrices {
  void* data = nullptr;
  int64_t sample = 0, head = 0, row = 0, column = 0;
};

struct AttentionArgs {
  HeadMatrices query, key, value, out, mask, kept;  // mask, kept: data may be null
  int mask_dtype, causal;
  int64_t samples, heads, shared_heads;  // shared_heads: of key and value
  int64_t queries, keys, width, value_width;
  double scale, kept_scale;
  const int64_t* state;  // of which `kept` is made, or null
  void *log_sum, *dots;  // for each query, of the type that is computed in
  HeadMatrices grad, grad_query, grad_key, grad_value;
};

}  // namespace rl::cuda
