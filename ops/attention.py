"""Attention."""
from ops.schema import composite, function, kernel

# The matrix of attention scores, without the softmax: -inf where a query may not attend. Both sides
# take the root of the scale: half precision then overflows later.
function("attention_scores(query: Tensor, key: Tensor, mask: Tensor | None, is_causal: bool, "
         "scale: float)", """
    root = root_of(abs(scale))
    left = query * (-root if scale < 0 else root)
    scores = matmul(left, transpose(key, -2, -1) * root)
    allowed = mask
    if is_causal:
        allowed = tril(ones([size(query, -2), size(key, -2)], bool, strided, device(query)))
    if allowed is None:
        return scores
    if dtype(allowed) == bool:
        return masked_fill(scores, logical_not(allowed), -inf)
    return scores + to(allowed, dtype(query))
         """)
# softmax along the last dim; rows that are -inf throughout become zeros, with gradient zero.
function("masked_softmax(scores: Tensor)", """
    dead = all(eq(scores, -inf), [-1], True)
    return masked_fill(softmax(masked_fill(scores, dead, 0), -1), dead, 0)
         """)
# Key and value heads shared by groups of query heads.
function("for_each_query_head(t: Tensor, heads: int)", """
    check(dim_of(t) >= 3 and size(t, -3) > 0 and heads % size(t, -3) == 0,
          "scaled_dot_product_attention: with enable_gqa the number of heads in query (", heads,
          ") must be a multiple of those in key and value, got shape ", sizes(t))
    return repeat_interleave(t, heads // size(t, -3), -3)
         """)
# A GPU draws what dropout keeps where it is needed: `kept` is then two random numbers.
kernel("attention_kept_weights(kept: Tensor, query: Tensor, key: Tensor, kept_scale: float)",
       names=(), doc="Whether dropout keeps them, for each weight.",
       grad="truth values have no gradient",
       shape="OutputSpec{Dims{query.size(0), query.size(1), query.size(2), key.size(2)}, "
             "DType::Bool}",
       launch="attention_kept(kept, kept_scale, out)")
# A gradient of the heads of queries, summed over those that share a head of the key.
function("shared_heads(t: Tensor, key: Tensor, group: int)", """
    if group == 1:
        return t
    wide = [size(key, 0), size(key, 1), group, size(key, 2), size(t, -1)]
    return sum(reshape(t, wide), [2], False)
         """)
function("dropped(t: Tensor, each: Tensor | None, kept_scale: float)",
         "t if each is None else t * (to_dtype(each, dtype(t)) * kept_scale)")
function("composed_attention_gradients(grad: Tensor, query: Tensor, key: Tensor, value: Tensor, "
         "mask: Tensor | None, kept: Tensor | None, is_causal: bool, scale: float, "
         "kept_scale: float) -> tuple[a, b, c]", """
    each = kept
    if kept is not None:
        if dtype(kept) != bool:
            each = attention_kept_weights(kept, query, key, kept_scale)
    heads = size(query, 1)
    group = heads // size(key, 1)
    k = for_each_query_head(key, heads) if group > 1 else key
    v = for_each_query_head(value, heads) if group > 1 else value
    weights = masked_softmax(attention_scores(query, k, mask, is_causal, scale))
    slopes = dropped(matmul(grad, transpose(v, -2, -1)), each, kept_scale)
    d = weights * (slopes - sum(weights * slopes, [-1], True)) * scale
    used = dropped(weights, each, kept_scale)
    return (matmul(d, k), shared_heads(matmul(transpose(d, -2, -1), query), key, group),
            shared_heads(matmul(transpose(used, -2, -1), grad), key, group))
         """)
function("check_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, is_causal: bool) "
         "-> None", """
    check(dtype(q) == dtype(k) and dtype(q) == dtype(v),
          "scaled_dot_product_attention: Expected query, key, and value to have the same dtype, "
          "but got ", dtype(q), ", ", dtype(k), " and ", dtype(v))
    check(dim_of(q) >= 2 and dim_of(k) >= 2 and dim_of(v) >= 2,
          "scaled_dot_product_attention: Expected query, key, and value to all be at least 2 "
          "dimensional, but got ", dim_of(q), ", ", dim_of(k), " and ", dim_of(v))
    check(size(q, -1) == size(k, -1) and size(k, -2) == size(v, -2),
          "scaled_dot_product_attention: Expected query and key to have the same size of the last "
          "dim, and key and value of the one before it, but got query ", sizes(q), ", key ",
          sizes(k), " and value ", sizes(v))
    if mask is not None:
        check(dtype(mask) == bool or dtype(mask) == dtype(q) or dtype(mask) == float32,
              "scaled_dot_product_attention: Expected attn_mask dtype to be bool or float or to "
              "match query dtype, but got ", dtype(mask))
        check(not is_causal,
              "scaled_dot_product_attention: Explicit attn_mask should not be set when "
              "is_causal=True")
         """)

composite("scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: "
          "Tensor | None = None, dropout_p: float = 0.0, "
          "is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False)",
          names=("nn.functional.scaled_dot_product_attention",),
          doc="softmax(query @ key.T * scale + mask) @ value; query (..., L, E), key (..., S, E), "
              "value (..., S, Ev). A bool mask is True where attention goes; queries that may "
              "attend nowhere get zeros.",
          batch="attention", autocast="lower_precision")

kernel("attention_kernel(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, "
       "kept: Tensor | None, is_causal: bool, scale: float, kept_scale: float) "
       "-> tuple[output, log_sum]", names=(),
       node="ScaledDotProductFlashAttentionForCpuBackward0",
       doc="The same in blocks, for (N, H, L, E); of the weights, dropout keeps those that are "
           "`kept`, times kept_scale. log_sum (N, H, L) is the logarithm of each query's sum of "
           "exponentials.",
       grad={"query, key, value": "attention_gradients(grad, query, key, value, mask, kept, "
                                  "output, log_sum, is_causal, scale, kept_scale)"})
# Of attention to some of the keys, where output and log_sum are those of attention to all: what the
# parts of a sequence that lies in several processes need. They sum the gradients themselves.
_PART = "x(1, 2, 3, 4), x(1, 2, 5, 4), x(1, 2, 5, 4), None, None"
kernel("attention_part(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, "
       "kept: Tensor | None, is_causal: bool, scale: float, kept_scale: float) "
       "-> tuple[output, log_sum]", names=("torch._attention_of",),
       samples=(f"{_PART}, False, 0.5, 1.0",), doc="attention_kernel, without gradients.",
       grad="attention_kernel_gradients computes it from what all parts give")
kernel("attention_kernel_gradients(grad: Tensor, query: Tensor, key: Tensor, value: Tensor, "
       "mask: Tensor | None, kept: Tensor | None, output: Tensor, log_sum: Tensor, "
       "is_causal: bool, scale: float, kept_scale: float) -> tuple[query, key, value]",
       names=("torch._attention_gradients_of",), doc="The gradients of attention_kernel's inputs.",
       samples=(f"x(1, 2, 3, 4), {_PART}, x(1, 2, 3, 4), x(1, 2, 3), False, 0.5, 1.0",),
       grad="composed_attention_gradients can be differentiated again")
