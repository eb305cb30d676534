// Attention.
#include <cmath>

#include "dispatch/generated.h"

namespace rl::ops {
namespace {

void check_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, bool is_causal) {
  const char* op = "scaled_dot_product_attention";
  check(q.dtype() == k.dtype() && q.dtype() == v.dtype(), op, ": Expected query, key, and value to have the same dtype, but got ", q.dtype(),
        ", ", k.dtype(), " and ", v.dtype());
  check(q.dim() >= 2 && k.dim() >= 2 && v.dim() >= 2, op, ": Expected query, key, and value to all be at least 2 dimensional, but got ",
        q.dim(), ", ", k.dim(), " and ", v.dim());
  check(!mask.defined() || mask.dtype() == DType::Bool || mask.dtype() == q.dtype() || mask.dtype() == DType::Float32, op,
        ": Expected attn_mask dtype to be bool or float or to match query dtype, but got ", mask.defined() ? mask.dtype() : q.dtype());
  check(!(mask.defined() && is_causal), op, ": Explicit attn_mask should not be set when is_causal=True");
}

// Key and value heads shared by groups of query heads.
Tensor for_each_query_head(const Tensor& t, int64_t heads) {
  check(t.dim() >= 3 && t.size(-3) > 0 && heads % t.size(-3) == 0,
        "scaled_dot_product_attention: with enable_gqa the number of heads in query (", heads, ") must be a multiple of those in key and value, got shape ",
        t.sizes());
  return repeat_interleave(t, heads / t.size(-3), -3);
}

// softmax along the last dim; rows that are -inf throughout become zeros, with gradient zero.
Tensor masked_softmax(const Tensor& scores) {
  Tensor dead = all(eq(scores, wrap_number(Scalar(-INFINITY))), Dims{-1}, true);
  return masked_fill(softmax(masked_fill(scores, dead, Scalar(0)), -1), dead, Scalar(0));
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& attn_mask, double dropout_p,
                                    bool is_causal, std::optional<double> scale, bool enable_gqa) {
  check_attention(query, key, value, attn_mask, is_causal);
  if (is_reduced(query.dtype())) {  // scores of half precision would be off by half their weights
    auto wide = [](const Tensor& t) { return t.defined() && t.dtype() != DType::Bool ? to(t, DType::Float32) : t; };
    return to(scaled_dot_product_attention(wide(query), wide(key), wide(value), wide(attn_mask), dropout_p, is_causal, scale, enable_gqa),
              query.dtype());
  }
  Tensor k = enable_gqa ? for_each_query_head(key, query.dim() > 2 ? query.size(-3) : 1) : key;
  Tensor v = enable_gqa ? for_each_query_head(value, query.dim() > 2 ? query.size(-3) : 1) : value;
  // Both sides take the root of the scale: the products then overflow later.
  double size = static_cast<double>(query.size(-1)), factor = scale.value_or(1 / std::sqrt(size));
  double root = std::sqrt(std::abs(factor));
  Tensor q = query * Scalar(factor < 0 ? -root : root);
  Tensor scores = matmul(q, transpose(k, -2, -1) * Scalar(root));
  Tensor mask = attn_mask;
  if (is_causal) mask = tril(ones(Dims{query.size(-2), key.size(-2)}, DType::Bool, {}, query.device()));
  if (mask.defined())
    scores = mask.dtype() == DType::Bool ? masked_fill(scores, logical_not(mask), Scalar(-INFINITY)) : scores + to(mask, query.dtype());
  Tensor weights = mask.defined() && !is_causal ? masked_softmax(scores) : softmax(scores, -1);
  if (dropout_p > 0) weights = dropout(weights, dropout_p, true);
  return matmul(weights, v);
}

}  // namespace rl::ops
