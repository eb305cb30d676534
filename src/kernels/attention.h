// Scaled dot-product attention in blocks: the matrix of weights never exists as a whole.
//
// query (N, H, L, E), key (N, G, S, E), value (N, G, S, V) of floats with any strides; G divides H,
// and groups of H / G query heads share a head of key and value. `mask` may be null, else
// (N, H, L, S), bool (false: not attended) or of the query's dtype, float for 16-bit floats (added
// to the scores), usually expanded. `kept` may be null, else bool (N, H, L, S): the weights that
// dropout keeps, times kept_scale. A device that draws them itself takes for `kept` two random
// numbers (int64) of which attention_kept would make the same. With `causal`, query i attends to
// the keys 0 ... i. Queries that may attend to nothing get zeros. Splits work over heads and
// queries; results do not depend on the number of threads.
#pragma once
#include "core/view.h"

namespace rl::kernels {

struct AttentionViews {
  View query, key, value;
  const View *mask, *kept;
  bool causal;
  double scale, kept_scale;
};

// out (N, H, L, V); log_sum (N, H, L), contiguous: the logarithm of each query's sum of
// exponentials, -inf where it attends to nothing.
void attention(const AttentionViews& a, const View& out, const View& log_sum);

// Gradients in the shapes of query, key and value.
void attention_backward(const AttentionViews& a, const View& grad, const View& out,
                        const View& log_sum, const View& grad_query, const View& grad_key,
                        const View& grad_value);

// kept (N, H, L, S), contiguous, of two random numbers.
void attention_kept(const View& state, double kept_scale, const View& kept);

}  // namespace rl::kernels
