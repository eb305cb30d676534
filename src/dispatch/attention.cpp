// Attention.

#include <cmath>
#include <optional>

#include "autograd/geometry.h"
#include "dispatch/generated.h"
#include "dispatch/guards.h"
#include "impl_attention.h"
#include "impl_create.h"
#include "launch_attention.h"
#include "ops_attention.h"
#include "ops_basic.h"
#include "ops_create.h"
#include "ops_loss.h"
#include "ops_masking.h"
#include "ops_matrix.h"
#include "ops_random.h"
#include "ops_reduction.h"
#include "ops_reshaping.h"
#include "ops_shape.h"
#include "tensor/output_layout.h"

namespace rl {
namespace {

// Where draws_in_kernel(), `kept` is two random numbers.
constexpr int64_t widest_head_on_gpu = 256;

void check_shape(const char* what, const Tensor& t, const Dims& sizes, DType dtype) {
  check(t.sizes() == sizes && t.dtype() == dtype, "attention: expected ", what, " of shape ", sizes,
        " and dtype ", dtype, ", got ", t.sizes(), " and ", t.dtype());
}

void check_operands(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
                    const Tensor& kept) {
  check(query.dim() == 4 && key.dim() == 4 && value.dim() == 4 && query.numel() > 0 &&
            key.numel() > 0 && value.numel() > 0,
        "attention: expected query (N, H, L, E), key (N, G, S, E) and value (N, G, S, V) that are "
        "not empty, got ",
        query.sizes(), ", ", key.sizes(), " and ", value.sizes());
  const Dims &q = query.sizes(), &k = key.sizes(), &v = value.sizes();
  check(k[0] == q[0] && q[1] % k[1] == 0 && k[3] == q[3] && v[0] == q[0] && v[1] == k[1] &&
            v[2] == k[2],
        "attention: query ", q, ", key ", k, " and value ", v, " do not fit each other");
  DType dtype = query.dtype();
  check_implemented(is_floating(dtype), "attention: not implemented for dtype ", dtype);
  check(key.dtype() == dtype && value.dtype() == dtype, "attention: expected one dtype, got ",
        dtype, ", ", key.dtype(), " and ", value.dtype());
  Dims weights{q[0], q[1], q[2], k[2]};
  bool any = mask.defined() &&
             (mask.dtype() == DType::Bool || (draws_in_kernel(query) && is_floating(mask.dtype())));
  if (mask.defined()) check_shape("mask", mask, weights, any ? mask.dtype() : compute_dtype(dtype));
  if (kept.defined() && draws_in_kernel(query)) check_shape("kept", kept, Dims{2}, DType::Int64);
  else if (kept.defined()) check_shape("kept", kept, weights, DType::Bool);
}

// The views of a call of the kernels.
class Operands {
 public:
  Operands(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
           const Tensor& kept, bool is_causal, double scale, double kept_scale)
      : views{query.view(), key.view(), value.view(), nullptr,
              nullptr,      is_causal,  scale,        kept_scale} {
    launch::place_of("attention", query, key, value, mask, kept);
    if (mask.defined()) views.mask = &mask_.emplace(mask.view());
    if (kept.defined()) views.kept = &kept_.emplace(kept.view());
  }
  Operands(const Operands&) = delete;

 private:
  std::optional<View> mask_, kept_;

 public:
  kernels::AttentionViews views;
};

}  // namespace

namespace impl {

// The result's dims lie in the order of the query's: where models made the heads by a transpose,
// they merge them by one. As in torch, not where rows have gaps, widths differ or weights are
// dropped.
std::array<Tensor, 2> attention_kernel(const Tensor& query, const Tensor& key, const Tensor& value,
                                       const Tensor& mask, const Tensor& kept, bool is_causal,
                                       double scale, double kept_scale) {
  check_operands(query, key, value, mask, kept);
  int64_t samples = query.sizes()[0], heads = query.sizes()[1], queries = query.sizes()[2],
          width = value.sizes()[3];
  Dims sizes{samples, heads, queries, width};
  bool as_query = !kept.defined() && width == query.sizes()[3];
  for (const Tensor* t : {&query, &key, &value}) as_query = as_query && t->strides()[3] == 1;
  Dims strides = as_query ? dense_strides_like(sizes, query.strides()) : contiguous_strides(sizes);
  Tensor out = empty_strided(sizes, strides, options(query));
  Tensor log_sum = rl::empty(Dims{samples, heads, queries},
                             TensorOptions{compute_dtype(query.dtype()), query.device()});
  Operands operands(query, key, value, mask, kept, is_causal, scale, kept_scale);
  launch::attention(operands.views, out, log_sum);
  return {out, log_sum};
}

std::array<Tensor, 2> attention_part(const Tensor& query, const Tensor& key, const Tensor& value,
                                     const Tensor& mask, const Tensor& kept, bool is_causal,
                                     double scale, double kept_scale) {
  return attention_kernel(query, key, value, mask, kept, is_causal, scale, kept_scale);
}

std::array<Tensor, 3> attention_kernel_gradients(const Tensor& grad, const Tensor& query,
                                                 const Tensor& key, const Tensor& value,
                                                 const Tensor& mask, const Tensor& kept,
                                                 const Tensor& output, const Tensor& log_sum,
                                                 bool is_causal, double scale, double kept_scale) {
  check_operands(query, key, value, mask, kept);
  Dims sizes = query.sizes(), lines{sizes[0], sizes[1], sizes[2]};
  sizes[3] = value.sizes()[3];
  check_shape("grad", grad, sizes, query.dtype());
  check_shape("output", output, sizes, query.dtype());
  check_shape("log_sum", log_sum, lines, compute_dtype(query.dtype()));
  std::array<Tensor, 3> grads{empty_like(query), empty_like(key), empty_like(value)};
  Operands operands(query, key, value, mask, kept, is_causal, scale, kept_scale);
  launch::attention_backward(operands.views, grad, output, ops::contiguous(log_sum), grads[0],
                             grads[1], grads[2]);
  return grads;
}

}  // namespace impl

namespace grad {

std::array<Tensor, 3> attention_gradients(const Tensor& grad, const Tensor& query,
                                          const Tensor& key, const Tensor& value,
                                          const Tensor& mask, const Tensor& kept,
                                          const Tensor& output, const Tensor& log_sum,
                                          bool is_causal, double scale, double kept_scale) {
  if (grad_enabled()) {  // by ops that can be differentiated again, of 16-bit floats in float
    DType dtype = compute_dtype(query.dtype());
    std::array<Tensor, 3> grads = composed_attention_gradients(
        ops::to(grad, dtype), ops::to(query, dtype), ops::to(key, dtype), ops::to(value, dtype),
        mask, kept, is_causal, scale, kept_scale);
    for (Tensor& each : grads) each = ops::to(each, query.dtype());
    return grads;
  }
  return impl::attention_kernel_gradients(grad, query, key, value, mask, kept, output, log_sum,
                                          is_causal, scale, kept_scale);
}

}  // namespace grad

namespace ops {
namespace {

// Whether attention_kernel computes this: (..., H, L, E) with no more to it.
bool fits_kernel(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                 double dropout_p, bool enable_gqa) {
  if (dropout_p >= 1 || !is_floating(q.dtype()) || records(mask)) return false;
  if (draws_in_kernel(q) && std::max(q.size(-1), v.size(-1)) > widest_head_on_gpu) return false;
  if (q.numel() == 0 || k.numel() == 0 || v.numel() == 0) return false;
  if (q.dim() < 2 || q.dim() > 4 || k.dim() != q.dim() || v.dim() != q.dim()) return false;
  if (k.size(-1) != q.size(-1) || v.size(-2) != k.size(-2) ||
      (mask.defined() && mask.dim() > q.dim()))
    return false;
  for (int64_t d = 0; d < q.dim() - 2; ++d)
    if (k.sizes()[d] != v.sizes()[d] ||
        (k.sizes()[d] != q.sizes()[d] && !(enable_gqa && d == q.dim() - 3)))
      return false;
  return true;
}

Tensor with_four_dims(Tensor t) {
  while (t.dim() < 4) t = unsqueeze(t, 0);
  return t;
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const Tensor& attn_mask, double dropout_p, bool is_causal,
                                    std::optional<double> scale, bool enable_gqa) {
  grad::check_attention(query, key, value, attn_mask, is_causal);
  bool fits = fits_kernel(query, key, value, attn_mask, dropout_p, enable_gqa);
  if (is_reduced(query.dtype()) && !fits) {  // scores of 16 bits would be off by half their weights
    auto wide = [](const Tensor& t) {
      return t.defined() && t.dtype() != DType::Bool ? to(t, DType::Float32) : t;
    };
    return to(scaled_dot_product_attention(wide(query), wide(key), wide(value), wide(attn_mask),
                                           dropout_p, is_causal, scale, enable_gqa),
              query.dtype());
  }
  double factor = scale.value_or(1 / std::sqrt(static_cast<double>(query.size(-1))));
  bool shares = enable_gqa && query.dim() > 2 && key.dim() > 2;
  if (shares) {
    int64_t heads = query.size(-3), shared = key.size(-3);
    check(shared > 0 && heads % shared == 0 && value.size(-3) == shared,
          "scaled_dot_product_attention: with enable_gqa the number of heads in query (", heads,
          ") must be a multiple of those in key and value, got shapes ", key.sizes(), " and ",
          value.sizes());
  }
  if (fits) {
    Tensor mask = attn_mask;
    if (mask.defined()) {
      if (mask.dtype() != DType::Bool && !draws_in_kernel(query))
        mask = to(mask, compute_dtype(query.dtype()));
      Tensor q = with_four_dims(query);
      mask = expand(mask, Dims{q.sizes()[0], q.sizes()[1], q.sizes()[2], key.size(-2)});
    }
    Tensor q = with_four_dims(query), kept;
    if (dropout_p > 0 && draws_in_kernel(query))
      kept = random_(rl::empty(Dims{2}, TensorOptions{DType::Int64, q.device()}), nullptr);
    else if (dropout_p > 0)  // as dropout draws them for the matrix of weights
      kept = bernoulli_(rl::empty(Dims{q.size(0), q.size(1), q.size(2), key.size(-2)},
                                  TensorOptions{DType::Bool, q.device()}),
                        1 - dropout_p, nullptr);
    Tensor out = attention_kernel(q, with_four_dims(key), with_four_dims(value), mask, kept,
                                  is_causal, factor, 1 / (1 - dropout_p))[0];
    for (int64_t d = query.dim(); d < 4; ++d) out = select(out, 0, 0);
    return query.dim() < 4 ? without_base(contiguous(out)) : without_base(out);
  }
  Tensor k =
      enable_gqa ? grad::for_each_query_head(key, query.dim() > 2 ? query.size(-3) : 1) : key;
  Tensor v =
      enable_gqa ? grad::for_each_query_head(value, query.dim() > 2 ? query.size(-3) : 1) : value;
  Tensor scores = grad::attention_scores(query, k, attn_mask, is_causal, factor);
  Tensor weights = attn_mask.defined() ? grad::masked_softmax(scores) : softmax(scores, -1);
  if (dropout_p > 0) weights = dropout(weights, dropout_p, true);
  return matmul(weights, v);
}

}  // namespace ops
}  // namespace rl
