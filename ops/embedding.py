"""Tables of vectors."""
from ops.schema import OWN_PLACES, composite, function, kernel

function("embedding_second(grad: Tensor, indices: Tensor, padding_idx: int, "
         "scale_grad_by_freq: bool)", """
    rows = embedding(grad, indices)
    if scale_grad_by_freq:
        flat = to(reshape(indices, [-1]), int64)
        counts = reshape(index_select(bincount(flat), 0, flat), sizes(indices))
        rows = rows / unsqueeze(counts, -1)
    if padding_idx < 0:
        return rows
    return masked_fill(rows, unsqueeze(eq(indices, padding_idx), -1), 0)
         """)
# Rows over how often their index occurs.
function("by_frequency(table: Tensor, indices: Tensor)", """
    counts = clamp_min(bincount(to(indices, int64), None, size(table, 0)), 1)
    return table / unsqueeze(counts, -1)
         """)
function("embedding_bag_second(grad: Tensor, indices: Tensor, offsets: Tensor, mode: str, "
         "weights: Tensor | None, padding_idx: int, scale_grad_by_freq: bool, places: Tensor)", """
    if mode == "max":
        nowhere = lt(places, 0)
        return masked_fill(gather(grad, 0, masked_fill(places, nowhere, 0)), nowhere, 0)
    table = by_frequency(grad, indices) if scale_grad_by_freq else grad
    return embedding_bag_kernel(table, indices, offsets, mode, weights, padding_idx, False)[0]
         """)
function("embedding_bag_second_weights(grad: Tensor, grad_output: Tensor, indices: Tensor, "
         "offsets: Tensor, padding_idx: int, scale_grad_by_freq: bool)", """
    table = by_frequency(grad, indices) if scale_grad_by_freq else grad
    return embedding_bag_weights_gradient(grad_output, table, indices, offsets, padding_idx)
         """)
function("bag_sum_gradient(grad_output: Tensor, indices: Tensor, offsets: Tensor, "
         "weights: Tensor, padding_idx: int, shape: list[int])", """
    nowhere = new([0], options_of(indices, int64))
    return embedding_bag_gradient(grad_output, indices, offsets, "sum", weights, padding_idx,
                                  False, nowhere, shape)
         """)

_OPTIONS = "padding_idx: int = -1, scale_grad_by_freq: bool = False"
kernel(f"embedding(weight: Tensor, indices: Tensor, {_OPTIONS}, sparse: bool = False)",
       names=("torch.embedding",),
       guard='check_table("embedding", weight), check_indices("embedding", indices)',
       shape="rows_of(weight, indices)", launch="embedding(weight, indices, out)",
       doc="The rows of weight that indices name.",
       grad={"weight": "add_rows(accumulated, grad, indices, sizes(weight), padding_idx, "
                       "scale_grad_by_freq, sparse)"},
       batch="embedding")
kernel("embedding_gradient(grad_output: Tensor, indices: Tensor, size: list[int], padding_idx: "
       "int, scale_grad_by_freq: bool, "
       "sparse: bool = False)", names=("torch._embedding_gradient",),
       doc="Adds each gradient to the row that its index names.",
       grad={"grad_output": "embedding_second(grad, indices, padding_idx, scale_grad_by_freq)"},
       batch="embedding_gradient")
composite("embedding_renorm_(input: Tensor, indices: Tensor, max_norm: float, norm_type: float)",
          names=("torch.embedding_renorm_",),
          doc="Scales the rows that indices name down to max_norm where their norm is larger.",
          batch=OWN_PLACES)
composite("functional_embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None, "
          "max_norm: float | None = None, "
          "norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False)", """
    padding = padding_row(weight, padding_idx)
    if max_norm is not None:
        with no_grad():
            embedding_renorm_(weight, input, given(max_norm), norm_type)
    return embedding(weight, input, padding, scale_grad_by_freq, sparse)
          """,
          names=("nn.functional.embedding",),
          doc="The rows of weight that input names; the row padding_idx gets no gradient.",
          batch="embedding")

kernel("embedding_bag_kernel(weight: Tensor, indices: Tensor, offsets: Tensor, mode: str, weights: "
       "Tensor | None, padding_idx: int, "
       "scale_grad_by_freq: bool) -> tuple[out, places]", node="EmbeddingBagBackward0",
       names=("torch._embedding_bag_of",),
       doc="Sum, mean or largest elements of each bag of rows, and the rows that the largest came "
           "from.",
       grad={"weight": "embedding_bag_gradient(grad, indices, offsets, mode, weights, padding_idx, "
                       "scale_grad_by_freq, places, sizes(weight))",
             "weights": "embedding_bag_weights_gradient(grad, weight, indices, offsets, "
                        "padding_idx)"})
kernel("embedding_bag_gradient(grad_output: Tensor, indices: Tensor, offsets: Tensor, mode: str, "
       "weights: Tensor | None, padding_idx: int, "
       "scale_grad_by_freq: bool, places: Tensor, size: list[int])", names=(),
       doc="Spreads each bag's gradient over its rows.",
       grad={"grad_output": "embedding_bag_second(grad, indices, offsets, mode, weights, "
                            "padding_idx, scale_grad_by_freq, places)",
             "weights": "embedding_bag_second_weights(grad, grad_output, indices, offsets, "
                        "padding_idx, scale_grad_by_freq)"})
kernel("embedding_bag_weights_gradient(grad_output: Tensor, weight: Tensor, indices: Tensor, "
       "offsets: Tensor, padding_idx: int)", names=("torch._products_of_rows",),
       guard="check_row_products(grad_output, weight, indices, offsets)",
       shape="OutputSpec{indices.sizes(), grad_output.dtype()}",
       launch="embedding_bag_sample_weights_backward(grad_output, weight, indices, offsets, "
              "padding_idx, out)",
       doc="Products of each bag's gradient and its rows.",
       grad={"grad_output": "embedding_bag_kernel(weight, indices, offsets, 'sum', grad, "
                            "padding_idx, False)[0]",
             "weight": "bag_sum_gradient(grad_output, indices, offsets, grad, padding_idx, "
                       "sizes(weight))"})
