"""Sums and products of sparse tensors element by element, and sums over dims."""

from __future__ import annotations

import rushlight
from rushlight import _C, Tensor
from rushlight._integers import integers
from rushlight.sparse._convert import to_coo, to_layout
from rushlight.sparse._functions import (
    ANY,
    COMPRESSED,
    COO_AND_CSR,
    check_same_form,
    clone,
    function,
    map_values,
    neg,
    refuse,
    replace,
    to,
    wrap_dim,
)
from rushlight.sparse._tensor import (
    COO,
    SparseTensor,
    coalesced,
    construct,
    count,
    find,
    indices_of,
    keys_of,
    values_of,
    with_values,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight.nn.parameter import Parameter
    from rushlight.types import _dtype


@function("add", "__add__", "__radd__", layouts=ANY)
def add(input: Tensor, other: Tensor, *, alpha: float = 1) -> Tensor | SparseTensor:
    if not isinstance(other, SparseTensor) or not isinstance(input, SparseTensor):
        if isinstance(other, SparseTensor) and isinstance(input, Tensor):
            return add_to_dense(input, other, alpha)
        if not isinstance(other, Tensor) or not isinstance(input, Tensor):
            raise RuntimeError("add: a number is not added to a sparse tensor; see to_dense")
        if input.layout is not COO:
            return rushlight.add(input.to_dense(), other, alpha=alpha)
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    check_same_form("add", input, other)
    scaled = _scaled(values_of(other), alpha, rushlight.promote_types(input.dtype, other.dtype))
    if input.layout is COO:
        return _add_coo(input, other, scaled)
    if _C._sparse_same_pattern(input, other):
        return with_values(input, values_of(input) + scaled)
    total = _add_coo(to_coo(input), to_coo(other), values_of(to_coo(with_values(other, scaled))))
    return to_layout(total.coalesce(), input.layout, like=input)


def _scaled(values, alpha, dtype):
    """The values times alpha, of that dtype; which refuses what alpha cannot be."""
    if alpha == 1:
        return values
    return rushlight.add(values.new_zeros((), dtype=dtype), values.to(dtype), alpha=alpha)


def _add_coo(input, other, scaled):
    both = input.is_coalesced() and other.is_coalesced()
    if rushlight.equal(input._indices(), other._indices()):
        return construct(input._indices(), values_of(input) + scaled, input.shape, both)
    indices = rushlight.cat([input._indices(), other._indices()], 1)
    values = rushlight.cat([values_of(input), scaled])
    total = construct(indices, values, input.shape, False)
    return coalesced(total) if both else total


@function("sub", "subtract", "__sub__", layouts=ANY)
def sub(input: Tensor, other: Tensor, *, alpha: float = 1) -> Tensor | SparseTensor:
    return add(input, other, alpha=-alpha)


@function("__rsub__", "rsub", layouts=ANY)
def rsub(input: Tensor, other: Tensor, *, alpha: float = 1) -> SparseTensor:
    return add(other, input, alpha=-alpha)


def add_to_dense(dense: Tensor, sparse: bool, alpha: float = 1) -> Tensor:
    return rushlight.add(dense, sparse.to_dense(), alpha=alpha)


def _add_to_dense_(dense, sparse, alpha=1):
    """dense += alpha * sparse, touching only the elements that are there."""
    if dense.shape != sparse.shape:
        raise RuntimeError(
            f"add_: the shapes {tuple(dense.shape)} and {tuple(sparse.shape)} differ"
        )
    dtype = rushlight.promote_types(dense.dtype, sparse.dtype)
    if not rushlight.can_cast(dtype, dense.dtype):
        raise RuntimeError(f"add_: result type {dtype} can't be cast to {dense.dtype} in place")
    if sparse.layout is not COO:
        return dense.add_(sparse.to_dense(), alpha=alpha)
    source = coalesced(sparse)
    values = values_of(source) if sparse.requires_grad else source._values()
    scaled = _scaled(values, alpha, dtype)
    return dense.index_put_(tuple(source._indices()), scaled.to(dense.dtype), accumulate=True)


@function("add_", "__iadd__", layouts=ANY)
def add_(input: Tensor, other: Tensor, *, alpha: float = 1) -> Parameter | SparseTensor:
    if not isinstance(input, SparseTensor):
        return _add_to_dense_(input, other, alpha)
    if isinstance(other, Tensor) and not isinstance(other, SparseTensor):
        raise RuntimeError("add_: a dense tensor cannot be added to a sparse one in place")
    return replace(input, add(input, other, alpha=alpha))


@function("sub_", "subtract_", "__isub__", layouts=ANY)
def sub_(input: Tensor, other: Tensor, *, alpha: float = 1) -> SparseTensor:
    return add_(input, other, alpha=-alpha)


@function("mul", "multiply", "__mul__", "__rmul__", layouts=ANY)
def mul(input: Tensor, other: Tensor) -> SparseTensor:
    if not isinstance(input, SparseTensor):
        input, other = other, input
    if isinstance(other, SparseTensor):
        return _mul_sparse(input, other)
    if not isinstance(other, Tensor) or other.dim() == 0:
        return map_values(input, lambda values: values * other)
    shape = rushlight.broadcast_shapes(input.shape, other.shape)
    if shape != input.shape and input.layout is not COO:
        raise RuntimeError(
            f"mul: a dense tensor of shape {tuple(other.shape)} would make the sparse one of shape"
            f" {tuple(input.shape)} larger"
        )
    source = coalesced(input if shape == input.shape else _sparse_broadcast_to(input, shape))
    input = source
    return with_values(
        source, values_of(source) * _C._sparse_take(other.expand(input.shape), source)
    )


def _sparse_broadcast_to(sparse: SparseTensor, shape: Sequence[int]) -> SparseTensor:
    """A COO tensor whose sparse dims of size 1, and those before them, are repeated."""
    if rushlight.broadcast_shapes(sparse.shape, shape) != tuple(shape):
        raise RuntimeError(
            f"_sparse_broadcast_to: {tuple(sparse.shape)} does not broadcast to {tuple(shape)}"
        )
    source = coalesced(sparse)
    indices, values, added = source._indices(), values_of(source), len(shape) - source.dim()
    places = added + source.sparse_dim()
    old = [1] * added + list(source.shape[: source.sparse_dim()])
    repeated = [d for d in range(places) if old[d] != shape[d]]
    grid = indices_of(
        rushlight.arange(count([shape[d] for d in repeated]), device=indices.device),
        [shape[d] for d in repeated],
    )
    copies = grid.size(1)
    values = values.expand(len(values), *shape[places:]).repeat_interleave(copies, 0)
    rows = [indices.new_zeros(indices.size(1))] * added + list(indices)
    rows = [row.repeat_interleave(copies) for row in rows]
    for row, dim in zip(grid, repeated, strict=True):
        rows[dim] = row.repeat(indices.size(1))
    return construct(rushlight.stack(rows), values, shape, False)


def _mul_sparse(a, b):
    if a.dim() == b.dim() == 0:
        a = to(a, rushlight.promote_types(a.dtype, b.dtype))
    for one, other in ((a, b), (b, a)):
        if other.dim() == 0:
            return mul(one, other.to_dense())
    shape = rushlight.broadcast_shapes(a.shape, b.shape)
    if a.layout is COO and b.layout is COO and not a.shape == b.shape == shape:
        if all(t.dim() - t.dense_dim() for t in (a, b)) and a.dense_dim() == b.dense_dim():
            return _mul_sparse(_sparse_broadcast_to(a, shape), _sparse_broadcast_to(b, shape))
        if shape in (a.shape, b.shape):
            return mul(a, b.to_dense()) if shape == a.shape else mul(b, a.to_dense())
    check_same_form("mul", a, b)
    a, b = coalesced(a), coalesced(b)
    if _C._sparse_same_pattern(a, b):
        return with_values(a, values_of(a) * values_of(b))
    if a.layout is not COO:
        return to_layout(_mul_sparse(to_coo(a), to_coo(b)), a.layout, like=a)
    shape = a.shape[: a.sparse_dim()]
    keys = keys_of(a._indices(), shape)
    places, known = find(keys, keys_of(b._indices(), shape))
    mine = known.nonzero().reshape(-1)
    values = values_of(a)[mine] * values_of(b)[places[mine]]
    return construct(a._indices()[:, mine], values, a.shape, True)


@function("div", "divide", "true_divide", "__truediv__", layouts=ANY)
def div(input: Tensor, other: Tensor, *, rounding_mode: Any = None) -> SparseTensor:
    if not isinstance(input, SparseTensor):
        refuse("div", rushlight.strided, other.layout)
    if isinstance(other, Tensor) and (isinstance(other, SparseTensor) or other.dim()):
        raise RuntimeError("div: a sparse tensor is divided by a number or a tensor without dims")
    if rounding_mode is None:
        return map_values(input, lambda values: values.div(other))
    return map_values(
        coalesced(input), lambda values: values.div(other, rounding_mode=rounding_mode)
    )


@function("floor_divide", "__floordiv__")
def floor_divide(input: Tensor, other: Tensor) -> SparseTensor:
    return div(input, other, rounding_mode="floor")


@function("mul_", "__imul__", "multiply_", layouts=ANY)
def mul_(input: Tensor, other: Tensor) -> SparseTensor:
    if isinstance(input, SparseTensor):
        product = mul(input, other)
        if product.shape != input.shape:
            raise RuntimeError(
                f"mul_: output with shape {list(input.shape)} doesn't match the broadcast shape "
                f"{list(product.shape)}"
            )
        return replace(input, product)
    product = mul(other, input)
    if not rushlight.can_cast(product.dtype, input.dtype):
        raise RuntimeError(f"mul_: result type {product.dtype} can't be cast to {input.dtype}")
    return input.copy_(product.to_dense())


@function("div_", "divide_", "true_divide_", "__itruediv__", layouts=ANY)
def div_(input: Tensor, other: Tensor, *, rounding_mode: Any = None) -> Any:
    return replace(input, div(input, other, rounding_mode=rounding_mode))


@function("floor_divide_", "__ifloordiv__")
def floor_divide_(input: Tensor, other: Tensor) -> Any:
    return replace(input, floor_divide(input, other))


@function(layouts=ANY)
def neg_(input: Tensor) -> SparseTensor:
    return replace(input, neg(input))


@function(layouts=COMPRESSED)
def fill_(input: Tensor, value: float) -> SparseTensor:
    """All elements that are stored."""
    return replace(input, map_values(input, lambda values: rushlight.full_like(values, value)))


@function(layouts=ANY)
def zero_(input: Tensor) -> SparseTensor:
    return replace(input, rushlight.zeros_like(input))


@function(layouts=ANY)
def copy_(input: Tensor, src: int, non_blocking: bool = False) -> SparseTensor:
    if not isinstance(input, SparseTensor) or not isinstance(src, SparseTensor):
        raise NotImplementedError("copy_: between a dense and a sparse tensor; see to_dense")
    check_same_form("copy_", input, src)
    return replace(input, to(clone(src), input.dtype))


@function(layouts=ANY)
def sum(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: _dtype | None = None
) -> Tensor | SparseTensor:
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return values_of(input).sum(dtype=dtype)
    if dtype is None and not (input.is_floating_point() or input.is_complex()):
        dtype = rushlight.int64  # as of other tensors, and before values at equal indices add up
    return sum_along(input, dim, keepdim, dtype)


def sum_along(
    input: Tensor, dim: Any, keepdim: bool = False, dtype: _dtype | None = None
) -> Tensor | SparseTensor:
    dims = sorted({wrap_dim(d, input) for d in integers(dim)})
    if len(dims) < len(integers(dim)):
        raise RuntimeError(f"sum: dim {dim} names a dim twice: dim appears multiple times")
    if input.layout is not COO:
        return _sum_compressed(input, dims, keepdim, dtype)
    sparse_dim = input.sparse_dim()
    inner = [d - sparse_dim + 1 for d in dims if d >= sparse_dim]
    if dims[:sparse_dim] == list(range(sparse_dim)) and not keepdim:
        return values_of(input).sum([0, *inner], dtype=dtype)
    source = coalesced(input if dtype is None else to(input, dtype))
    values = values_of(source)
    values = values.sum(inner, keepdim=keepdim, dtype=source.dtype) if inner else values
    indices = source._indices()
    if keepdim:
        indices = indices.clone()
        indices[[d for d in dims if d < sparse_dim]] = 0
        size = [1 if d in dims else s for d, s in enumerate(input.shape)]
        unchanged = dims[0] >= sparse_dim
        total = construct(indices, values, size, unchanged)
        return total if unchanged else coalesced(total)
    kept = [d for d in range(sparse_dim) if d not in dims]
    size = [s for d, s in enumerate(input.shape) if d not in dims]
    if len(kept) == sparse_dim:
        return construct(indices, values, size, True)
    return coalesced(construct(indices[kept], values, size, False))


def _sum_compressed(input, dims, keepdim, dtype):
    if input.layout not in COO_AND_CSR:
        refuse("sum", input.layout)
    if not keepdim:
        raise RuntimeError(f"sum: of a tensor in layout {input.layout} needs keepdim=True")
    total = sum_along(to_coo(input), dims, True, dtype)
    return to_layout(total, input.layout, like=input)


@function("any", layouts=ANY)
def any_(input: Tensor) -> Tensor:
    return values_of(coalesced(input)).any()
