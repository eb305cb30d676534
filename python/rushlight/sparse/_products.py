"""Products of sparse and dense matrices, and softmax."""

from __future__ import annotations

import math

import rushlight
from rushlight import _C, Tensor
from rushlight._numpy_names import numpy_names_of
from rushlight.sparse._convert import parts_of
from rushlight.sparse._functions import ANY, function, refuse, wrap_dim
from rushlight.sparse._tensor import (
    BSC,
    BSR,
    COMPRESSED,
    COO,
    CSR,
    SparseTensor,
    coalesced,
    compress,
    construct,
    keys_of,
    rows_of,
    starts_of,
    values_of,
    with_values,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.types import _dtype


def _is_sparse(operand):
    return isinstance(operand, SparseTensor)


def _text(matrix):
    return "x".join(map(str, matrix.shape))


@function("mm", "matmul", "__matmul__", "__rmatmul__", "mv", "spmm", "dot", layouts=ANY)
def matmul(input: Tensor, other: Tensor) -> Tensor | SparseTensor:
    if not isinstance(input, Tensor) or not isinstance(other, Tensor):
        raise TypeError("matmul: both operands must be tensors")
    if input.ndim == other.ndim == 3:
        return bmm(input, other)
    if input.ndim > 2 and other.ndim == 2 and not _is_sparse(input):
        return matmul(input.flatten(0, -2), other).unflatten(0, input.shape[:-1])
    if input.ndim > 2 or other.ndim > 2 or 0 in (input.ndim, other.ndim):
        raise NotImplementedError(
            f"matmul: sparse operands have 1 or 2 dims, not {input.ndim} and {other.ndim}"
        )
    if input.shape[-1] != other.shape[0]:
        raise RuntimeError(
            f"matmul: mat1 and mat2 shapes cannot be multiplied ({_text(input)} and {_text(other)})"
        )
    for operand in (input, other):
        if _is_sparse(operand) and operand.dense_dim():
            raise NotImplementedError("matmul: a sparse operand with dense dims")
    if input.dtype != other.dtype:
        raise RuntimeError(f"matmul: dtypes {input.dtype} and {other.dtype} differ")
    if input.ndim == 1:
        product = matmul(
            other.t(), input.unsqueeze(1) if not _is_sparse(input) else input.to_dense()
        )
        return product.squeeze(-1) if product.dim() == 2 else product
    if _is_sparse(input) and _is_sparse(other):
        return _sparse_times_sparse(input, other)
    if _is_sparse(other):
        return _sparse_times_dense(other.t(), input.t()).t()
    return _sparse_times_dense(input, other)


def _by_row(sparse):
    """Where each row of a matrix begins, and its end; columns and values, row by row."""
    if sparse.layout is CSR:
        return *_C._sparse_parts(sparse)[:2], values_of(sparse)
    if sparse.layout is COO:
        source = coalesced(sparse)
        rows, columns = source._indices()
        values = values_of(source)
    else:
        keys, values = parts_of(sparse)
        keys, order = keys.sort(stable=True)
        values = values[order]
        width = max(1, sparse.shape[1])
        rows, columns = keys // width, keys % width
    return starts_of(rows, sparse.shape[0]), columns, values


def _plain_rows(sparse, dense):
    """The parts of a matrix by row, if its product with a vector has no history; else None."""
    if type(dense) is not Tensor or not dense.is_cpu or sparse.layout in (BSR, BSC):
        return None
    if dense.dtype not in (rushlight.float32, rushlight.float64):
        return None
    starts, columns, values = _by_row(sparse)
    if _C._records() and (values.requires_grad or dense.requires_grad):
        return None
    if columns.dtype is not rushlight.int64:
        return None
    return starts.contiguous(), columns.contiguous(), values.contiguous()


def _sparse_times_dense(sparse, dense, mode="sum"):
    if dense.dim() == 1:
        parts = _plain_rows(sparse, dense) if mode == "sum" else None
        if parts is not None:
            return _C._sparse_times_vector(*parts, dense.contiguous())
        return _sparse_times_dense(sparse, dense.contiguous().unsqueeze(1)).squeeze(1)
    if sparse.layout in (BSR, BSC):
        return _blocks_times_dense(sparse, dense)
    starts, columns, values = _by_row(sparse)
    if dense.is_floating_point() and mode == "sum":
        # sums of rows without the products' memory
        return rushlight.nn.functional.embedding_bag(
            columns, dense, starts[:-1], mode="sum", per_sample_weights=values
        )
    rows = rows_of(starts)
    products = dense.index_select(0, columns) * values.unsqueeze(1)
    total = products.new_zeros([sparse.shape[0], *dense.shape[1:]])
    if mode == "sum":
        return total.index_add(0, rows, products)
    return total.index_reduce(0, rows, products, mode, include_self=False)


def _blocks_times_dense(sparse, dense):
    """Each block times the rows of `dense` that it meets."""
    starts, inner, blocks = *_C._sparse_parts(sparse)[:2], values_of(sparse)
    outer = rows_of(starts)
    rows, columns = (outer, inner) if sparse.layout is BSR else (inner, outer)
    height, width = blocks.shape[1:]
    met = dense.reshape(-1, width, dense.shape[1]).index_select(0, columns)
    products = rushlight.bmm(blocks, met)
    total = products.new_zeros(sparse.shape[0] // height, *products.shape[1:])
    return total.index_add(0, rows, products).reshape(sparse.shape[0], dense.shape[1])


def reduced_product(sparse: bool, dense: Tensor, reduce: bool | None) -> Tensor:
    """For each row, the mean or the largest or smallest of the products instead of their sum."""
    if not _is_sparse(sparse) or _is_sparse(dense) or sparse.layout is not CSR:
        refuse(f"sparse.mm with reduce={reduce!r}", sparse.layout, dense.layout)
    modes = {"sum": "sum", "mean": "mean", "amax": "amax", "max": "amax", "amin": "amin",
             "min": "amin"}  # fmt: skip
    if reduce not in modes:
        raise ValueError(f"sparse.mm: reduce must be one of {list(modes)}, got {reduce!r}")
    return _sparse_times_dense(sparse, dense, modes[reduce])


def _sparse_times_sparse(a, b):
    compressed = [operand.layout in COMPRESSED for operand in (a, b)]
    blocks = any(operand.layout in (BSR, BSC) for operand in (a, b))
    if compressed[0] != compressed[1] or blocks:
        refuse("matmul", a.layout, b.layout)
    if b.dim() == 1:
        return _sparse_times_dense(a, b.to_dense())
    size = [a.shape[0], b.shape[1]]
    starts, columns, values = _product_of_rows(_by_row(a), _by_row(b), size[1])
    if compressed[0]:
        return compress(CSR, starts, columns, values, size)
    return construct(rushlight.stack([rows_of(starts), columns]), values, size, True)


def _product_of_rows(a, b, width):
    """Where the rows of a product begin, its columns and values, in the form of `_by_row`."""
    a_values, b_values = a[2], b[2]
    recorded = _C._records() and (a_values.requires_grad or b_values.requires_grad)
    by_operations = recorded or a_values.dtype not in (rushlight.float32, rushlight.float64)
    parts = [
        part.detach().to("cpu", rushlight.int64 if i < 2 else None).contiguous()
        for matrix in (a, b)
        for i, part in enumerate(matrix)
    ]
    found = (t.to(a_values.device) for t in _C._sparse_product(*parts, width, by_operations))
    if not by_operations:
        return found
    starts, columns, left, right, places = found
    products = a_values[left] * b_values[right]
    terms = products.to(rushlight.int32) if products.dtype is rushlight.bool else products
    total = terms.new_zeros(len(columns)).index_add(0, places, terms)
    return starts, columns, total.to(products.dtype)


@function("bmm")
def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    if not _is_sparse(input) or _is_sparse(mat2) or input.dense_dim():
        raise NotImplementedError("bmm: a sparse COO tensor without dense dims times a dense one")
    if input.dim() != 3 or mat2.dim() != 3 or (input.shape[0], input.shape[2]) != mat2.shape[:2]:
        raise RuntimeError(
            f"bmm: shapes {tuple(input.shape)} and {tuple(mat2.shape)} cannot be multiplied"
        )
    batches, height, width = input.shape
    source = coalesced(input)
    batch, row, column = source._indices()
    flat = construct(
        rushlight.stack([batch * height + row, batch * width + column]), values_of(source),
        [batches * height, batches * width], True,
    )  # fmt: skip
    product = matmul(flat, mat2.reshape(batches * width, mat2.shape[2]))
    return product.reshape(batches, height, mat2.shape[2])


@function(layouts=ANY)
def addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    product = matmul(mat1, mat2)
    if _is_sparse(product) and not _is_sparse(input):
        product = product.to_dense()
    if _is_sparse(input) and not _is_sparse(product):
        raise RuntimeError("addmm: a dense product cannot be added to a sparse tensor")
    return input * beta + product * alpha


@function(layouts=ANY)
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    if _is_sparse(input) or _is_sparse(vec) or mat.dim() != 2 or vec.dim() != 1:
        raise RuntimeError("addmv: expected dense vectors and a sparse matrix of 2 dims")
    return rushlight.add(input * beta, matmul(mat, vec), alpha=alpha)


@function("addmm_", "addmv_", layouts=ANY)
def addmm_(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    product = matmul(mat1, mat2)
    if _is_sparse(input) or _is_sparse(product):
        raise RuntimeError("addmm_: the tensor that is changed and the product must be dense")
    return input.mul_(beta).add_(product, alpha=alpha)


@function(layouts=ANY)
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    if _is_sparse(input):
        product = matmul(input, weight.t())
    else:
        rows = input.reshape(-1, input.shape[-1])
        product = matmul(rows, weight.t()).reshape(*input.shape[:-1], weight.shape[0])
    return product if bias is None else product + bias


def _need_coo(name, *matrices):
    for matrix in matrices:
        if matrix.layout is not COO:
            raise RuntimeError(
                f"{name}: a matrix in layout sparse_coo expected, not {matrix.layout}"
            )


@function("smm")
def smm(input: Tensor, mat2: Tensor) -> SparseTensor:
    """The product of a COO and a dense matrix, as a COO matrix."""
    _need_coo("smm", input)
    return _whole(matmul(input, mat2), input)


def _whole(product, matrix):
    """A dense product as a sparse tensor of each element in the rows that `matrix` has."""
    rows = coalesced(matrix.detach())._indices()[0].unique()
    width = product.shape[1]
    indices = rushlight.stack(
        [
            rows.repeat_interleave(width),
            rushlight.arange(width, device=rows.device).repeat(len(rows)),
        ]
    )
    return construct(indices, product[rows].reshape(-1), product.shape, True)


@function("hspmm")
def hspmm(mat1: Tensor, mat2: Tensor) -> SparseTensor:
    """The product of a COO and a dense matrix, as a COO matrix with a dense dim."""
    _need_coo("hspmm", mat1)
    product = matmul(mat1, mat2)
    rows = coalesced(mat1.detach())._indices()[0].unique()
    return construct(rows.unsqueeze(0), product[rows], product.shape, True)


@function("sspaddmm")
def sspaddmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1
) -> SparseTensor:
    """beta * input + alpha * (mat1 @ mat2), input and mat1 in COO layout, as a COO matrix."""
    _need_coo("sspaddmm", input, mat1)
    product = _whole(matmul(mat1, mat2), mat1)
    if input.shape != product.shape:
        raise RuntimeError(
            f"sspaddmm: input has shape {tuple(input.shape)}, the product {tuple(product.shape)}"
        )
    indices = rushlight.cat([input._indices(), product._indices()], 1)
    values = rushlight.cat([values_of(input) * beta, values_of(product) * alpha])
    return construct(indices, values, input.shape, False)


def _repeated(matrix, batch):
    """A batch of the same CSR matrix."""
    parts = [
        part.expand(*batch, *part.shape)
        for part in (matrix.crow_indices(), matrix.col_indices(), values_of(matrix))
    ]
    return compress(CSR, *parts, [*batch, *matrix.shape])


def sampled_addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0
) -> SparseTensor:
    """beta * input + alpha * (mat1 @ mat2) at the indices of a CSR tensor."""
    if not _is_sparse(input) or input.layout is not CSR:
        refuse("sparse.sampled_addmm", input.layout)
    if input.dim() == 2 < mat1.dim():
        input = _repeated(input, mat1.shape[:-2])
    if not 2 <= input.dim() == mat1.dim() == mat2.dim():
        raise RuntimeError(
            f"sparse.sampled_addmm: matrices, or as many batches of them, expected, got "
            f"{input.dim()}, {mat1.dim()} and {mat2.dim()} dims"
        )
    if input.dim() > 2:
        if not input.shape[:-2] == mat1.shape[:-2] == mat2.shape[:-2]:
            raise RuntimeError("sparse.sampled_addmm: the batches differ in shape")
        values = [
            values_of(sampled_addmm(*matrices, beta=beta, alpha=alpha))
            for matrices in zip(*(t.unbind(0) for t in (input, mat1, mat2)), strict=True)
        ]
        return with_values(input, rushlight.stack(values) if values else values_of(input))
    if mat1.shape[1] != mat2.shape[0] or (mat1.shape[0], mat2.shape[1]) != tuple(input.shape):
        raise RuntimeError(
            f"sparse.sampled_addmm: shapes {tuple(input.shape)}, {tuple(mat1.shape)} and"
            f" {tuple(mat2.shape)} do not fit"
        )
    starts, columns, values = _by_row(input)
    lines = mat2.t().contiguous()
    if mat1.is_floating_point():
        products = rushlight._products_of_rows(mat1, lines, columns, starts[:-1], -1)
    else:
        products = (mat1[rows_of(starts)] * lines[columns]).sum(1)
    return with_values(input, values * beta + products * alpha)


@function("norm", "linalg_vector_norm", "vector_norm", layouts=ANY)
def norm(
    input: Tensor,
    ord: float | str | None = 2,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    p: float | str | None = None,
    dtype: _dtype | None = None,
) -> Any:
    return SparseTensor.norm(input, ord if p is None else p, dim, keepdim, dtype)


def softmax(
    input: Tensor, dim: int, *, log: bool = False, dtype: _dtype | None = None
) -> SparseTensor:
    """Softmax over the elements that are there, as if all others were minus infinity."""
    if input.layout is not COO:
        refuse("sparse.log_softmax" if log else "sparse.softmax", input.layout)
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
    top = values.new_full(size, -math.inf)
    top = top.scatter_reduce(0, spread, values.detach(), "amax")
    shifted = values - top[group]
    total = values.new_zeros(size).index_add(0, group, shifted.exp())[group]
    result = shifted - total.log() if log else shifted.exp() / total
    return construct(source._indices(), result, input.shape, True)


# ---- functions of rushlight -------------------------------------------------------------------


def spmm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """`mm`, by the name it has where `input` is sparse."""
    return rushlight.mm(input, mat2) if out is None else rushlight.mm(input, mat2, out=out)


spmm, smm, hspmm, sspaddmm = (
    rushlight.overrides._overridable(f, "rushlight", numpy_names_of(f))
    for f in (spmm, smm, hspmm, sspaddmm)
)
