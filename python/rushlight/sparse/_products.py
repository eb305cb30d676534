"""Products of sparse and dense matrices, and softmax."""

import math

import rushlight
from rushlight import Tensor
from rushlight.sparse._coo import SparseTensor, coalesced, construct, keys_of, values_of
from rushlight.sparse._functions import (
    function,
    wrap_dim,
)


@function("mm", "matmul", "__matmul__", "__rmatmul__", "mv", "spmm")
def matmul(input, other):
    if not isinstance(input, Tensor) or not isinstance(other, Tensor):
        raise TypeError("matmul: both operands must be tensors")
    if input.dim() > 2 or other.dim() > 2 or 0 in (input.dim(), other.dim()):
        raise NotImplementedError(
            f"matmul: sparse operands have 1 or 2 dims, not {input.dim()} and {other.dim()}"
        )
    if input.shape[-1] != other.shape[0]:
        raise RuntimeError(
            f"matmul: shapes {tuple(input.shape)} and {tuple(other.shape)} cannot be multiplied"
        )
    for operand in (input, other):
        if operand.is_sparse and operand.dense_dim():
            raise NotImplementedError("matmul: a sparse operand with dense dims")
    if input.dtype != other.dtype:
        raise RuntimeError(f"matmul: dtypes {input.dtype} and {other.dtype} differ")
    if input.dim() == 1:
        product = matmul(other.t(), input.unsqueeze(1) if not input.is_sparse else input.to_dense())
        return product.squeeze(-1) if product.dim() == 2 else product
    if input.is_sparse and other.is_sparse:
        return _sparse_times_sparse(input, other)
    if other.is_sparse:
        return _sparse_times_dense(other.t(), input.t()).t()
    return _sparse_times_dense(input, other)


def _sparse_times_dense(sparse, dense):
    source = coalesced(sparse)
    rows, columns = source._indices()
    values = values_of(source)
    if dense.dim() == 2 and dense.is_floating_point():  # sums of rows without the products' memory
        starts = rushlight.searchsorted(rows, rushlight.arange(sparse.shape[0]))
        return rushlight.nn.functional.embedding_bag(
            columns, dense, starts, mode="sum", per_sample_weights=values
        )
    products = dense[columns] * (values if dense.dim() == 1 else values.unsqueeze(1))
    total = rushlight.zeros([sparse.shape[0], *dense.shape[1:]], dtype=products.dtype)
    return total.index_add(0, rows, products)


def _sparse_times_sparse(a, b):
    if b.dim() == 1:
        return _sparse_times_dense(a, b.to_dense())
    a, b = coalesced(a), coalesced(b)
    rows, middle = a._indices()
    b_rows, b_columns = b._indices()
    # The elements of each row of b lie together: for each of a, all those of its row.
    starts = rushlight.searchsorted(b_rows, middle)
    counts = rushlight.searchsorted(b_rows, middle, right=True) - starts
    which = rushlight.arange(len(middle)).repeat_interleave(counts)
    within = rushlight.arange(len(which)) - (counts.cumsum(0) - counts)[which]
    partner = starts[which] + within
    values = values_of(a)[which] * values_of(b)[partner]
    indices = rushlight.stack([rows[which], b_columns[partner]])
    return coalesced(construct(indices, values, [a.shape[0], b.shape[1]], False))


@function()
def addmm(input, mat1, mat2, *, beta=1, alpha=1):
    product = matmul(mat1, mat2)
    if product.is_sparse and not input.is_sparse:
        product = product.to_dense()
    if input.is_sparse and not product.is_sparse:
        raise RuntimeError("addmm: a dense product cannot be added to a sparse tensor")
    return input * beta + product * alpha


@function("norm", "linalg_vector_norm", "vector_norm")
def norm(input, ord=2, dim=None, keepdim=False, *, dtype=None):
    return SparseTensor.norm(input, ord, dim, keepdim, dtype)


def softmax(input, dim, *, log=False, dtype=None):
    """Softmax over the elements that are there, as if all others were minus infinity."""
    dim = wrap_dim(dim, input)
    source = coalesced(input)
    values = values_of(source)
    values = values if dtype is None else values.to(dtype)
    sparse_dim = source.sparse_dim()
    if dim >= sparse_dim:
        f = rushlight.log_softmax if log else rushlight.softmax
        result = f(values, dim - sparse_dim + 1)
        return construct(source._indices(), result, input.shape, True)
    kept = [d for d in range(sparse_dim) if d != dim]
    shape = [input.shape[d] for d in kept]
    groups, group = keys_of(source._indices()[kept], shape).unique(return_inverse=True)
    size = [len(groups), *values.shape[1:]]
    spread = group.reshape(-1, *[1] * (values.dim() - 1)).expand(values.shape)
    top = rushlight.full(size, -math.inf, dtype=values.dtype)
    top = top.scatter_reduce(0, spread, values.detach(), "amax")
    shifted = values - top[group]
    total = rushlight.zeros(size, dtype=values.dtype).index_add(0, group, shifted.exp())[group]
    result = shifted - total.log() if log else shifted.exp() / total
    return construct(source._indices(), result, input.shape, True)
