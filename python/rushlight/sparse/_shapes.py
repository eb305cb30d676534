"""Sparse tensors in other shapes: turned, cut, put together."""

import rushlight
from rushlight.sparse import _coo
from rushlight.sparse._coo import coalesced, construct, values_of
from rushlight.sparse._functions import (
    function,
    need_sparse,
    wrap_dim,
)


@function("transpose", "swapaxes", "swapdims")
def transpose(input, dim0, dim1):
    dim0, dim1 = wrap_dim(dim0, input), wrap_dim(dim1, input)
    order = list(range(input.dim()))
    order[dim0], order[dim1] = dim1, dim0
    return permute(input, order)


@function()
def t(input):
    if input.dim() > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.dim()}D")
    return transpose(input, 0, 1) if input.dim() == 2 else input


@function()
def permute(input, *dims):
    dims = dims[0] if len(dims) == 1 and isinstance(dims[0], (list, tuple)) else dims
    dims = [wrap_dim(dim, input) for dim in dims]
    sparse_dim = input.sparse_dim()
    if sorted(dims) != list(range(input.dim())):
        raise RuntimeError(f"permute: {dims} are not the dims of a tensor of {input.dim()} dims")
    if sorted(dims[:sparse_dim]) != list(range(sparse_dim)):
        raise RuntimeError("permute: sparse and dense dims of a sparse tensor stay apart")
    if dims == list(range(input.dim())):
        return input
    values = values_of(input).permute(0, *(dim - sparse_dim + 1 for dim in dims[sparse_dim:]))
    indices = input._indices()[dims[:sparse_dim]]
    return construct(indices, values, [input.shape[dim] for dim in dims], input._nnz() < 2)


@function()
def unsqueeze(input, dim):
    dim = dim + input.dim() + 1 if dim < 0 else dim
    if not 0 <= dim <= input.sparse_dim():
        raise NotImplementedError("unsqueeze: among the dense dims of a sparse tensor")
    indices = input._indices()
    zero = rushlight.zeros(1, indices.size(1), dtype=rushlight.int64)
    indices = rushlight.cat([indices[:dim], zero, indices[dim:]])
    size = [*input.shape[:dim], 1, *input.shape[dim:]]
    return construct(indices, values_of(input), size, input.is_coalesced())


@function()
def select(input, dim, index):
    dim = wrap_dim(dim, input)
    length = input.shape[dim]
    if not -length <= index < length:
        raise IndexError(f"select: index {index} out of range for dim {dim} of size {length}")
    index %= length
    size = [s for d, s in enumerate(input.shape) if d != dim]
    sparse_dim = input.sparse_dim()
    source = coalesced(input)
    if dim >= sparse_dim:
        values = values_of(source).select(dim - sparse_dim + 1, index)
        return construct(source._indices(), values, size, True)
    indices = source._indices()
    kept = (indices[dim] == index).nonzero().reshape(-1)
    values = values_of(source)[kept]
    if sparse_dim == 1:
        return values.sum(0)
    rest = rushlight.cat([indices[:dim], indices[dim + 1 :]])[:, kept]
    return construct(rest, values, size, True)


@function("__getitem__")
def get_item(input, index):
    index = index if isinstance(index, tuple) else (index,)
    dim = 0
    for part in index:
        if isinstance(part, int) and not isinstance(part, bool):
            input = input.select(dim, part)
        elif isinstance(part, slice) and part == slice(None):
            dim += 1
        else:
            raise NotImplementedError(
                f"indexing a sparse tensor takes ints and :, not {part!r}; see index_select"
            )
    return input


@function("__iter__", "unbind")
def unbind(input, dim=0):
    return iter([input.select(dim, index) for index in range(input.shape[dim])])


@function()
def index_select(input, dim, index):
    dim = wrap_dim(dim, input)
    source = coalesced(input)
    sparse_dim = source.sparse_dim()
    size = list(input.shape)
    size[dim] = len(index)
    if dim >= sparse_dim:
        values = values_of(source).index_select(dim - sparse_dim + 1, index)
        return construct(source._indices(), values, size, True)
    if len(index) and not (0 <= int(index.min()) and int(index.max()) < input.shape[dim]):
        raise IndexError(f"index_select: index out of range for dim {dim} of {tuple(input.shape)}")
    row = source._indices()[dim]
    new, old = (index.reshape(-1, 1) == row.reshape(1, -1)).nonzero().t()
    indices = source._indices()[:, old]
    indices[dim] = new
    return construct(indices, values_of(source)[old], size, False)


@function("cat", "concat", "concatenate")
def cat(tensors, dim=0):
    need_sparse("cat", *tensors)
    dim = wrap_dim(dim, tensors[0])
    sparse_dim = tensors[0].sparse_dim()
    if dim >= sparse_dim:
        raise NotImplementedError("cat: along a dense dim of sparse tensors")
    rest = [[s for d, s in enumerate(t.shape) if d != dim] for t in tensors]
    if any(t.sparse_dim() != sparse_dim for t in tensors) or any(r != rest[0] for r in rest):
        shapes = [tuple(t.shape) for t in tensors]
        raise RuntimeError(f"cat: shapes {shapes} differ beside dim {dim}")
    indices, start = [], 0
    for tensor in tensors:
        moved = tensor._indices().clone()
        moved[dim] += start
        indices.append(moved)
        start += tensor.shape[dim]
    values = rushlight.cat([values_of(tensor) for tensor in tensors])
    size = list(tensors[0].shape)
    size[dim] = start
    return construct(rushlight.cat(indices, 1), values, size, False)


@function()
def stack(tensors, dim=0):
    need_sparse("stack", *tensors)
    dim = dim + tensors[0].dim() + 1 if dim < 0 else dim
    return cat([tensor.unsqueeze(dim) for tensor in tensors], dim)


@function()
def zeros_like(input, *, dtype=None, **options):
    indices = rushlight.zeros(input.sparse_dim(), 0, dtype=rushlight.int64)
    values = rushlight.zeros(0, *input._values().shape[1:], dtype=dtype or input.dtype)
    return _coo.wrap(indices, values, input.shape, True)


@function()
def empty_like(input, *, dtype=None, **options):
    return zeros_like(input, dtype=dtype)
