"""From each layout to each other."""

from __future__ import annotations

import rushlight
from rushlight import _C
from rushlight._integers import integers, is_integer
from rushlight._shown_name import shown_as
from rushlight.autograd.function import Function
from rushlight.sparse._tensor import (
    BSC,
    BSR,
    COO,
    CSC,
    CSR,
    SparseTensor,
    coalesced,
    compress,
    construct,
    count,
    indices_of,
    rows_of,
    starts_of,
    values_of,
    with_values,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight import Tensor
    from rushlight.types import _dtype, _layout


def _places(sparse):
    """The shape of batch and sparse dims."""
    return sparse.shape[: sparse.dim() - sparse.dense_dim()]


def parts_of(sparse: bool) -> tuple[Tensor, Tensor]:
    """Keys and values of the elements of a coalesced tensor of any layout, one by one."""
    source = coalesced(sparse)
    values = values_of(source)
    dense_sizes = source.shape[len(_places(source)) :]
    return _C._sparse_positions(source), values.reshape(-1, *dense_sizes)


def to_coo(sparse: bool) -> SparseTensor:
    """The same elements in coordinate layout; batch dims become sparse ones."""
    if sparse.layout is COO:
        return sparse
    in_order = sparse.layout is CSR
    if in_order and len(_places(sparse)) == 2:
        starts, columns, _ = _C._sparse_parts(sparse)
        indices = rushlight.stack([rows_of(starts), columns])
        return construct(indices, values_of(sparse), sparse.shape, True)
    keys, values = parts_of(sparse)
    return construct(indices_of(keys, _places(sparse)), values, sparse.shape, in_order)


def from_keys(
    keys: Tensor,
    values: Any,
    size: Sequence[int],
    layout: _layout | None,
    blocksize: Sequence[int] | None = None,
    dense_dim: int = 0,
    index_dtype: _dtype | None = None,
) -> SparseTensor:
    """A tensor in a compressed layout of elements with different keys, in any order."""
    *batch, height, width = _matrix_places(layout, size, dense_dim)
    block = _checked_blocksize(layout, blocksize, height, width)
    rows, columns, batches = keys // width % height, keys % width, keys // (height * width)
    if block is not None:
        inside = rows % block[0] * block[1] + columns % block[1]
        rows, columns = rows // block[0], columns // block[1]
        height, width = height // block[0], width // block[1]
    by_column = layout in (CSC, BSC)
    outer, inner = (columns, rows) if by_column else (rows, columns)
    length, breadth = (width, height) if by_column else (height, width)
    order_keys = (batches * length + outer) * breadth + inner
    if block is None:
        sorted_keys, order = order_keys.sort(stable=True)
        values = values[order]
    else:
        sorted_keys, group = order_keys.unique(return_inverse=True)
        cells = rushlight.zeros(len(sorted_keys) * count(block), *values.shape[1:],
                                dtype=values.dtype, device=values.device)  # fmt: skip
        cells = cells.index_copy(0, group * count(block) + inside, values)
        values = cells.reshape(len(sorted_keys), *block, *values.shape[1:])
    lines = sorted_keys // max(1, breadth)
    plain = sorted_keys % max(1, breadth)
    per_line = rushlight.bincount(lines, minlength=count(batch) * length)
    made = _from_lines(layout, per_line.reshape(*batch, length), plain, values, size)
    return made if index_dtype is None else _with_index_dtype(made, index_dtype)


def _matrix_places(layout, size, dense_dim):
    """The sizes of batch dims, rows and columns."""
    places = size[: len(size) - dense_dim]
    if len(places) < 2:
        raise RuntimeError(
            f"conversion to {layout} expected at least 2 dims that are not dense, got shape"
            f" {tuple(size)} with {dense_dim} dense dims"
        )
    return places


def _from_lines(layout, per_line, plain, values, size):
    """Of elements or blocks in the order of lines, of which each has `per_line`; `plain` are their
    places there.
    """
    batch = per_line.shape[:-1]
    per_batch = per_line.sum(-1).reshape(-1)
    nnz = int(per_batch[0]) if len(per_batch) else 0
    if bool((per_batch != nnz).any()):
        raise RuntimeError(
            f"conversion to {layout}: Expect the same number of specified elements per batch. "
            f"There are {per_batch.tolist()}"
        )
    start = rushlight.zeros(*batch, 1, dtype=rushlight.int64, device=per_line.device)
    compressed = rushlight.cat([start, per_line.cumsum(-1)], -1)
    plain = plain.reshape(*batch, nnz)
    values = values.reshape(*batch, nnz, *values.shape[1:])
    return compress(layout, compressed, plain, values, size)


def _with_index_dtype(sparse, dtype):
    compressed, plain, _ = _C._sparse_parts(sparse)
    if compressed.dtype is dtype:
        return sparse
    parts = compressed.to(dtype), plain.to(dtype), values_of(sparse)
    return compress(sparse.layout, *parts, sparse.shape)


def _from_dense(dense, layout, blocksize, dense_dim):
    """A tensor in a compressed layout, whose elements or blocks are found in the order of lines."""
    *batch, height, width = _matrix_places(layout, dense.shape, dense_dim)
    block = _checked_blocksize(layout, blocksize, height, width)
    rows, columns = len(batch), len(batch) + 1
    cells = dense
    if block is not None:
        cells = cells.unflatten(columns, (width // block[1], block[1]))
        cells = cells.unflatten(rows, (height // block[0], block[0]))
        cells = cells.transpose(columns, columns + 1)
    if layout in (CSC, BSC):
        cells = cells.transpose(rows, columns)
    occupied = cells != 0
    if occupied.dim() > columns + 1:
        occupied = occupied.flatten(columns + 1).any(-1)
    keys = occupied.reshape(-1).nonzero().reshape(-1)
    values = cells.reshape(occupied.numel(), *cells.shape[columns + 1 :])[keys]
    plain = keys % max(1, occupied.shape[-1])
    return _from_lines(layout, occupied.sum(-1), plain, values, dense.shape)


def _block(blocksize):
    """The height and the width of blocks; one number is both."""
    return integers(blocksize) * (2 if is_integer(blocksize) else 1)


def _checked_blocksize(layout, blocksize, height, width):
    if layout not in (BSR, BSC):
        if blocksize is not None:
            raise RuntimeError(f"to_sparse: blocksize={blocksize}, but {layout} has no blocks")
        return None
    if blocksize is None:
        raise RuntimeError(f"to_sparse: {layout} needs a blocksize")
    block = _block(blocksize)
    if len(block) != 2 or min(block) < 1:
        raise RuntimeError(f"to_sparse: blocksize must be two positive numbers, got {blocksize}")
    if height % block[0] or width % block[1]:
        raise RuntimeError(
            f"to_sparse: a matrix of {height} rows and {width} columns cannot be divided into"
            f" blocks of size {block}"
        )
    return block


def _check_request(sparse_dim, layout, blocksize, dense_dim):
    if isinstance(sparse_dim, rushlight.layout):
        sparse_dim, layout = None, sparse_dim
    if layout is rushlight.strided and (blocksize, dense_dim) != (None, None):
        raise RuntimeError(
            f"to_sparse: blocksize={blocksize} and dense_dim={dense_dim}, but the layout is "
            "torch.strided"
        )
    layout = COO if layout is None else layout
    if layout in (COO, CSR, CSC) and blocksize is not None:
        raise RuntimeError(f"to_sparse: blocksize={blocksize}, but {layout} has no blocks")
    if layout not in (COO, rushlight.strided) and sparse_dim not in (None, 2):
        raise RuntimeError(f"to_sparse: {layout} has 2 sparse dims, not {sparse_dim}")
    return sparse_dim, layout


@shown_as("ToSparseBackward0", "dense")
def dense_to_sparse(
    dense: Tensor,
    sparse_dim: int | None = None,
    *,
    layout: _layout | None = None,
    blocksize: Sequence[int] | None = None,
    dense_dim: int | None = None,
) -> SparseTensor:
    """`dense` in a sparse layout: its elements, or the last `dense_dim` dims of them, or blocks,
    that are not zero.
    """
    sparse_dim, layout = _check_request(sparse_dim, layout, blocksize, dense_dim)
    if layout is rushlight.strided:
        return dense
    if dense.requires_grad and _C._records():
        return _ToSparse.apply(dense, sparse_dim, layout, blocksize, dense_dim)
    if sparse_dim is None or layout is not COO:
        sparse_dim = dense.dim() - (dense_dim or 0)
    elif dense_dim is not None and sparse_dim + dense_dim != dense.dim():
        raise RuntimeError(
            f"to_sparse: {sparse_dim} sparse and {dense_dim} dense dims of a {dense.dim()}D tensor"
        )
    if not (0 < sparse_dim <= dense.dim() or dense.dim() == sparse_dim == 0):
        raise RuntimeError(
            f"to_sparse: sparse_dim must be in [1, {dense.dim()}] but is {sparse_dim}"
        )
    shape = dense.shape[:sparse_dim]
    if layout is not COO:
        return _from_dense(dense, layout, blocksize, dense.dim() - sparse_dim)
    with rushlight.no_grad():
        occupied = dense != 0
        if sparse_dim < dense.dim():
            occupied = occupied.flatten(sparse_dim).any(-1)
        keys = occupied.reshape(-1).nonzero().reshape(-1)
    values = dense.reshape(count(shape), *dense.shape[sparse_dim:])[keys]
    return construct(indices_of(keys, shape), values, dense.shape, True)


class _ToSparse(Function):
    """A gradient of other elements than those that are stored arrives too."""

    @staticmethod
    def forward(
        ctx: Any, dense: Tensor, sparse_dim: Any, layout: Any, blocksize: Any, dense_dim: Any
    ) -> SparseTensor:
        return dense_to_sparse(
            dense, sparse_dim, layout=layout, blocksize=blocksize, dense_dim=dense_dim
        )

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return gradient.to_dense(), None, None, None, None


class ToDense(Function):
    """`to_dense` whose gradient is that of all elements, a dense tensor."""

    @staticmethod
    def forward(ctx: Any, sparse: SparseTensor) -> Tensor:
        return _C._sparse_to_dense(sparse)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


def sparse_to_sparse(
    sparse: bool,
    sparse_dim: int | None = None,
    layout: _layout | None = None,
    blocksize: Sequence[int] | None = None,
    dense_dim: int | None = None,
) -> SparseTensor:
    sparse_dim, layout = _check_request(sparse_dim, layout, blocksize, dense_dim)
    if layout is rushlight.strided:
        return sparse.to_dense()
    has = sparse.sparse_dim(), sparse.dense_dim()
    wants = tuple(own if n is None else n for n, own in zip((sparse_dim, dense_dim), has))
    if wants != has and layout in (COO, sparse.layout):
        raise RuntimeError(
            f"to_sparse: the tensor has {has[0]} sparse and {has[1]} dense dims, not {wants}"
        )
    if layout is COO:
        return to_coo(sparse)
    if layout is sparse.layout:
        own_blocks = tuple(values_of(sparse).shape[-2 - has[1] :][:2])
        if layout not in (BSR, BSC) or blocksize is None or own_blocks == tuple(_block(blocksize)):
            return sparse
    if dense_dim not in (None, has[1]):
        raise RuntimeError(f"to_sparse: the tensor has {has[1]} dense dims, not {dense_dim}")
    if layout is CSR and sparse.layout is COO and has[0] == 2:
        source = coalesced(sparse)
        rows, columns = source._indices()
        starts = starts_of(rows, sparse.shape[0])
        return compress(CSR, starts, columns.clone(), values_of(source), sparse.shape)
    keys, values = parts_of(sparse)
    kept = None if sparse.layout is COO else _C._sparse_parts(sparse)[0].dtype
    return from_keys(keys, values, sparse.shape, layout, blocksize, has[1], kept)


def to_layout(
    tensor: Tensor, layout: _layout | None, like: SparseTensor | None = None
) -> SparseTensor:
    """A dense or sparse tensor in `layout`; blocks are those of `like`."""
    if layout is rushlight.strided:
        return tensor.to_dense()
    blocksize = None
    if layout in (BSR, BSC):
        values = _C._sparse_parts(like)[2]
        first = values.dim() - like.dense_dim() - 2
        blocksize = tuple(values.shape[first : first + 2])
    dense_dim = None if like is None else like.dense_dim()
    if tensor.layout is rushlight.strided:
        return dense_to_sparse(tensor, layout=layout, blocksize=blocksize, dense_dim=dense_dim)
    made = sparse_to_sparse(tensor, layout=layout, blocksize=blocksize)
    if like is None or made.layout is COO:
        return made
    return _with_index_dtype(made, _C._sparse_parts(like)[0].dtype)


def sparse_mask(source: Tensor | SparseTensor, mask: Tensor) -> SparseTensor:
    """The elements of `source` at the indices of a sparse `mask`, in its layout."""
    if not isinstance(mask, SparseTensor):
        raise RuntimeError("sparse_mask: the mask must be a sparse tensor")
    if source.shape != mask.shape:
        raise RuntimeError(
            f"sparse_mask: the shapes {tuple(source.shape)} and {tuple(mask.shape)} differ"
        )
    mask = coalesced(mask.detach())
    return with_values(mask, _C._sparse_take(source, mask))
