"""Sums and products of sparse tensors element by element, and sums over dims."""

import rushlight
from rushlight import Tensor
from rushlight.sparse._coo import SparseTensor, coalesced, construct, find, keys_of, take, values_of
from rushlight.sparse._functions import (
    check_same_form,
    clone,
    function,
    map_values,
    neg,
    to,
    wrap_dim,
)


@function("add", "__add__", "__radd__")
def add(input, other, *, alpha=1):
    if not isinstance(other, SparseTensor) or not isinstance(input, SparseTensor):
        if isinstance(other, SparseTensor) and isinstance(input, Tensor):
            return add_to_dense(input, other, alpha)
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    check_same_form("add", input, other)
    both = input.is_coalesced() and other.is_coalesced()
    scaled = values_of(other) if alpha == 1 else values_of(other) * alpha
    if rushlight.equal(input._indices(), other._indices()):
        return construct(input._indices(), values_of(input) + scaled, input.shape, both)
    indices = rushlight.cat([input._indices(), other._indices()], 1)
    values = rushlight.cat([values_of(input), scaled])
    total = construct(indices, values, input.shape, False)
    return coalesced(total) if both else total


@function("sub", "subtract", "__sub__")
def sub(input, other, *, alpha=1):
    return add(input, other, alpha=-alpha)


@function("__rsub__", "rsub")
def rsub(input, other, *, alpha=1):
    return add(other, input, alpha=-alpha)


def add_to_dense(a, b, alpha=1):
    """Dense plus sparse, in any order."""
    dense, sparse = (b, a) if a.is_sparse else (a, b)
    return rushlight.add(dense, sparse.to_dense(), alpha=alpha)


def add_sparse_(dense, sparse, alpha=1):
    """dense += alpha * sparse, touching only the elements that are there."""
    if dense.shape != sparse.shape:
        raise RuntimeError(
            f"add_: the shapes {tuple(dense.shape)} and {tuple(sparse.shape)} differ"
        )
    values = values_of(coalesced(sparse)) if sparse.requires_grad else None
    source = coalesced(sparse)
    values = source._values() if values is None else values
    scaled = values if alpha == 1 else values * alpha
    return dense.index_put_(tuple(source._indices()), scaled.to(dense.dtype), accumulate=True)


@function("add_", "__iadd__")
def add_(input, other, *, alpha=1):
    if not isinstance(input, SparseTensor):
        return add_sparse_(input, other, alpha)
    return _replace(input, add(input, other, alpha=alpha))


@function("sub_", "__isub__")
def sub_(input, other, *, alpha=1):
    return add_(input, other, alpha=-alpha)


@function("mul", "multiply", "__mul__", "__rmul__")
def mul(input, other):
    if not isinstance(input, SparseTensor):
        input, other = other, input
    if isinstance(other, SparseTensor):
        return _mul_sparse(input, other)
    if not isinstance(other, Tensor) or other.dim() == 0:
        return map_values(input, lambda values: values * other)
    if rushlight.broadcast_shapes(input.shape, other.shape) != input.shape:
        raise RuntimeError(
            f"mul: a dense tensor of shape {tuple(other.shape)} would make the sparse one of shape"
            f" {tuple(input.shape)} larger"
        )
    source = coalesced(input)
    indices = source._indices()
    factors = take(other.expand(input.shape), indices, None)
    return construct(indices, values_of(source) * factors, input.shape, True)


def _mul_sparse(a, b):
    check_same_form("mul", a, b)
    a, b = coalesced(a), coalesced(b)
    shape = a.shape[: a.sparse_dim()]
    keys = keys_of(a._indices(), shape)
    places, known = find(keys, keys_of(b._indices(), shape))
    mine = known.nonzero().reshape(-1)
    values = values_of(a)[mine] * values_of(b)[places[mine]]
    return construct(a._indices()[:, mine], values, a.shape, True)


@function("div", "divide", "true_divide", "__truediv__")
def div(input, other, *, rounding_mode=None):
    if isinstance(other, Tensor) and (other.is_sparse or other.dim()):
        raise RuntimeError("div: a sparse tensor is divided by a number or a tensor without dims")
    return map_values(input, lambda values: values.div(other, rounding_mode=rounding_mode))


@function("mul_", "__imul__", "multiply_")
def mul_(input, other):
    if isinstance(input, SparseTensor):
        return _replace(input, mul(input, other))
    raise NotImplementedError("mul_: a dense tensor does not become a sparse one in place")


@function("div_", "__itruediv__")
def div_(input, other):
    return _replace(input, div(input, other))


@function()
def neg_(input):
    return _replace(input, neg(input))


@function()
def zero_(input):
    return _replace(input, rushlight.zeros_like(input))


@function()
def copy_(input, src, non_blocking=False):
    if not isinstance(input, SparseTensor) or not isinstance(src, SparseTensor):
        raise NotImplementedError("copy_: between a dense and a sparse tensor; see to_dense")
    check_same_form("copy_", input, src)
    return _replace(input, to(clone(src), input.dtype))


def _replace(input, result):
    if input.requires_grad or result.requires_grad:
        raise RuntimeError("a sparse tensor that requires a gradient cannot be changed in place")
    if result.dtype != input.dtype:
        raise RuntimeError(f"result type {result.dtype} can't be cast to {input.dtype} in place")
    input.__dict__.update(
        coo_indices=result._indices(),
        coo_values=result._values(),
        coo_coalesced=result.is_coalesced(),
    )
    return input


@function()
def sum(input, dim=None, keepdim=False, *, dtype=None):
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return values_of(coalesced(input)).sum(dtype=dtype)
    dims = sorted({wrap_dim(d, input) for d in ([dim] if isinstance(dim, int) else dim)})
    if keepdim:
        raise NotImplementedError("sum: keepdim for sparse tensors")
    source = coalesced(input)
    sparse_dim = source.sparse_dim()
    values = values_of(source)
    values = values if dtype is None else values.to(dtype)
    inner = [d - sparse_dim + 1 for d in dims if d >= sparse_dim]
    values = values.sum(inner) if inner else values
    kept = [d for d in range(sparse_dim) if d not in dims]
    if not kept:
        return values.sum(0)
    size = [s for d, s in enumerate(input.shape) if d not in dims]
    if len(kept) == sparse_dim:
        return construct(source._indices(), values, size, True)
    return coalesced(construct(source._indices()[kept], values, size, False))
