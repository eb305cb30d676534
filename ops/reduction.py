"""Reductions: one value from many elements."""
from ops.schema import composite, kernel

kernel("sum(input: Tensor, *, dtype: dtype = None)", out=False, doc="Sum of all elements; integers add up in int64.",
       grad={"input": "expand(grad, sizes(input))"}, ref="numpy.sum")
kernel("sum__dim(input: Tensor, dim: list[int, 1] | None, keepdim: bool = False, *, dtype: dtype = None)", out=True,
       doc="Sum over the given dims.", grad={"input": "expand_reduced(grad, dims_or_all(dim), keepdim, sizes(input))"})
