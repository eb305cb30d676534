"""Attention."""
from ops.schema import composite, kernel

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
