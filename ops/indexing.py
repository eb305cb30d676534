"""Reading and writing at computed places."""
from ops.schema import kernel

kernel("index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Scalar = 1)",
       inplace=True, out=True,
       doc="input with alpha * source added to the slices that index names.",
       guard='check_number_of("index_add", alpha, input)',
       grad={"input": "grad", "source": "scale(index_select(grad, dim, index), conj(alpha))"},
       batch="at_same_index")
kernel("index_select(input: Tensor, dim: int, index: Tensor)", out=True,
       doc="The slices of a dim that index names.",
       grad={"input": "index_add_(accumulated_or_zeros(accumulated, grad, sizes(input)), dim, "
                      "index, grad)"},
       batch="index_select")
kernel("index(input: Tensor, indices: list[Tensor | None])", names=("torch._index",),
       batch="index",
       doc="Advanced indexing: one int64 tensor (or None for a whole dim) for each dim.",
       grad={"input": "index_put_(accumulated_or_zeros(accumulated, grad, sizes(input)), indices, "
                      "grad, True)"})
kernel("index_put(input: Tensor, indices: list[Tensor | None], values: Tensor, accumulate: bool = "
       "False)", inplace=True,
       doc="input with values written (or added) at the places that indices name.",
       grad={"input": "grad if accumulate else index_put(grad, indices, zeros_like(values_at(grad, "
                      "indices)), False)",
             "values": "index(grad, indices)"}, batch="index_put")
kernel("gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False)", out=True,
       doc="out[i][j] = input[index[i][j]][j] for dim 0.",
       grad={"input": "scatter_add_(accumulated_or_zeros(accumulated, grad, sizes(input)), dim, "
                      "index, grad)"},
       batch="at_dim")
kernel("scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor)", out=True, inplace=True,
       doc="input with src added at index along a dim.",
       grad={"input": "grad", "src": "gather(grad, dim, index)"},
       batch="at_dim")
kernel("scatter(input: Tensor, dim: int, index: Tensor, src: Tensor)", out=True, inplace=True,
       doc="input with src written at index along a dim.",
       grad={"input": "scatter(grad, dim, index, 0)", "src": "gather(grad, dim, index)"},
       batch="at_dim")
kernel("scatter__value(input: Tensor, dim: int, index: Tensor, value: Scalar)", out=True,
       inplace=True,
       node="ScatterBackward1", doc="input with a number written at index along a dim.",
       grad={"input": "scatter(grad, dim, index, 0)"},
       batch="at_dim")
