"""Sparse tensors in other shapes: turned, cut, put together."""

from __future__ import annotations

import rushlight
from rushlight import _C
from rushlight.sparse._convert import to_coo, to_layout
from rushlight.sparse._functions import (
    ANY,
    COMPRESSED,
    function,
    map_values,
    need_sparse,
    replace,
    wrap_dim,
)
from rushlight.sparse._tensor import (
    BSC,
    BSR,
    COO,
    CSC,
    CSR,
    check_has_elements,
    check_not_pinned,
    coalesced,
    compress,
    construct,
    rebuild,
    starts_once_sorted,
    values_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight import Tensor
    from rushlight.sparse._tensor import SparseTensor
    from rushlight.types import Device, _dtype, _layout, _memory_format

_TURNED = {CSR: CSC, CSC: CSR, BSR: BSC, BSC: BSR}


@function("transpose", "swapaxes", "swapdims", layouts=ANY)
def transpose(input: Tensor, dim0: int, dim1: int) -> SparseTensor:
    dim0, dim1 = wrap_dim(dim0, input), wrap_dim(dim1, input)
    if input.layout is not COO:
        return _transpose_compressed(input, dim0, dim1)
    order = list(range(input.dim()))
    order[dim0], order[dim1] = dim1, dim0
    return permute(input, order)


@function(layouts=ANY)
def adjoint(input: Tensor) -> SparseTensor:
    return transpose(input, -2, -1).conj()


def _transpose_compressed(input, dim0, dim1):
    """The same indices, read as columns instead of rows; blocks are turned too."""
    if dim0 == dim1:
        return input
    compressed, plain, _ = _C._sparse_parts(input)
    batch = compressed.dim() - 1
    if {dim0, dim1} != {batch, batch + 1}:
        raise RuntimeError("transpose: the two sparse dims of a compressed tensor alone are turned")
    values = values_of(input)
    if input.layout in (BSR, BSC):
        values = values.transpose(batch + 1, batch + 2)
    size = list(input.shape)
    size[dim0], size[dim1] = size[dim1], size[dim0]
    return compress(_TURNED[input.layout], compressed, plain, values, size)


@function(layouts=ANY)
def t(input: Tensor) -> SparseTensor:
    if input.dim() > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.dim()}D")
    return transpose(input, 0, 1) if input.dim() == 2 else input


@function()
def permute(input: Tensor, *dims: Any) -> SparseTensor:
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
def unsqueeze(input: Tensor, dim: int) -> SparseTensor:
    dim = dim + input.dim() + 1 if dim < 0 else dim
    if not 0 <= dim <= input.dim():
        raise IndexError(
            f"unsqueeze: Dimension out of range (expected to be in range of [{-input.dim() - 1}, "
            f"{input.dim()}])"
        )
    if dim > input.sparse_dim():
        values = values_of(input).unsqueeze(dim - input.sparse_dim() + 1)
        size = [*input.shape[:dim], 1, *input.shape[dim:]]
        return construct(input._indices(), values, size, input.is_coalesced())
    indices = input._indices()
    zero = indices.new_zeros(1, indices.size(1))
    indices = rushlight.cat([indices[:dim], zero, indices[dim:]])
    size = [*input.shape[:dim], 1, *input.shape[dim:]]
    return construct(indices, values_of(input), size, input.is_coalesced())


def _checked_length(input, dim, index):
    """The length of a dim in which there is such an index."""
    length = input.shape[dim]
    if not -length <= index < length:
        raise IndexError(
            f"select: index {index} out of range for tensor of size {list(input.shape)} at "
            f"dimension {dim}"
        )
    return length


@function("select", "select_copy", layouts=ANY)
def select(input: Tensor, dim: int, index: int) -> Tensor | SparseTensor:
    dim = wrap_dim(dim, input)
    if input.layout is not COO:
        return _select_compressed(input, dim, index)
    length = _checked_length(input, dim, index)
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
    if sparse_dim == 1:  # one element at most
        is_bool = values.dtype is rushlight.bool
        return values.any(0) if is_bool else values.sum(0, dtype=values.dtype)
    rest = rushlight.cat([indices[:dim], indices[dim + 1 :]])[:, kept]
    return construct(rest, values, size, True)


def _select_compressed(input, dim, index):
    """A matrix of a batch, or a row or column in COO layout."""
    _checked_length(input, dim, index)
    compressed, plain, _ = _C._sparse_parts(input)
    batch = compressed.dim() - 1
    size = [s for d, s in enumerate(input.shape) if d != dim]
    if dim < batch:
        values = values_of(input).select(dim, index)
        indices = compressed.select(dim, index), plain.select(dim, index)
        return compress(input.layout, *indices, values, size)
    if dim >= batch + 2:  # a dense dim
        values = values_of(input).select(dim - input.dim(), index)
        return compress(input.layout, compressed, plain, values, size)
    if batch:
        raise RuntimeError(
            "select: selecting sparse dimensions is not supported for batched sparse compressed "
            "tensors."
        )
    return select(to_coo(input), dim, index)


@function(layouts=ANY)
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    return tuple(input.select(dim, i) for i in range(input.shape[wrap_dim(dim, input)]))


@function("__setitem__", layouts=ANY)
def set_item(input: Tensor, index: Any, value: Any) -> None:
    raise TypeError("Cannot assign to a sparse tensor")


@function("__getitem__", layouts=ANY)
def get_item(input: Tensor, index: Sequence[Any] | int | slice) -> Tensor | SparseTensor:
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


@function()
def narrow_copy(input: Tensor, dim: int, start: int, length: int) -> SparseTensor:
    if not -input.dim() <= dim < input.dim():
        raise RuntimeError(f"narrow_copy: dim {dim} of a tensor of {input.dim()} dims")
    dim %= input.dim()
    start += input.shape[dim] if start < 0 else 0
    end = start + length
    if length < 0 or not 0 <= start <= end <= input.shape[dim]:
        raise RuntimeError(
            f"narrow_copy: start {start} and length {length} do not fit dim {dim} of size"
            f" {input.shape[dim]}"
        )
    size = list(input.shape)
    size[dim] = length
    sparse_dim = input.sparse_dim()
    if dim >= sparse_dim:
        values = values_of(input).narrow(dim - sparse_dim + 1, start, length)
        return construct(input._indices(), values, size, input.is_coalesced())
    source = coalesced(input)
    indices = source._indices()
    kept = ((indices[dim] >= start) & (indices[dim] < end)).nonzero().reshape(-1)
    indices = indices[:, kept]
    indices[dim] -= start
    return construct(indices, values_of(source)[kept], size, True)


@function("__iter__", layouts=ANY)
def iterator(input: Tensor) -> Any:
    if input.dim() == 0:
        raise TypeError("iteration over a 0-d tensor")
    return iter(input.unbind())


@function()
def index_select(input: Tensor, dim: int, index: Tensor) -> SparseTensor:
    dim = wrap_dim(dim, input)
    if index.dim() != 1:
        raise IndexError(f"index_select: the index must have 1 dim, got shape {tuple(index.shape)}")
    source = coalesced(input)
    sparse_dim = source.sparse_dim()
    size = list(input.shape)
    size[dim] = len(index)
    if dim >= sparse_dim:
        values = values_of(source).index_select(dim - sparse_dim + 1, index)
        return construct(source._indices(), values, size, True)
    index = rushlight.where(index < 0, index + input.shape[dim], index)
    if len(index) and not (0 <= int(index.min()) and int(index.max()) < input.shape[dim]):
        raise IndexError(f"index_select: index out of range for dim {dim} of {tuple(input.shape)}")
    # Of all elements at a place, for each time that it is asked for.
    row = source._indices()[dim]
    starts = starts_once_sorted(row, input.shape[dim])
    first = starts[index]
    counts = starts[index + 1] - first
    new = rushlight.arange(len(index), device=index.device).repeat_interleave(counts)
    within = rushlight.arange(len(new), device=index.device) - (counts.cumsum(0) - counts)[new]
    old = first[new] + within
    if dim > 0:  # else they are in order
        old = row.argsort(stable=True)[old]
    indices = source._indices()[:, old]
    indices[dim] = new
    return construct(indices, values_of(source)[old], size, False)


@function("cat", "concat", "concatenate")
def cat(tensors: Sequence[Tensor], dim: int = 0) -> SparseTensor:
    need_sparse("cat", *tensors)
    dim = wrap_dim(dim, tensors[0])
    sparse_dim = tensors[0].sparse_dim()
    if dim >= sparse_dim:
        raise NotImplementedError("cat: along a dense dim of sparse tensors")
    rest = [[s for d, s in enumerate(t.shape) if d != dim] for t in tensors]
    kinds = [(t.sparse_dim(), t.dense_dim()) for t in tensors]
    if any(kind != kinds[0] for kind in kinds):
        raise RuntimeError(
            f"cat: All tensors must have the same sparse_dim and dense_dim, got {kinds}"
        )
    if any(r != rest[0] for r in rest):
        shapes = [list(t.shape) for t in tensors]
        raise RuntimeError(
            f"cat: All tensors must have the same shape: {shapes} differ beside dim {dim}"
        )
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
def stack(tensors: Sequence[Tensor], dim: int = 0) -> SparseTensor:
    need_sparse("stack", *tensors)
    dim = dim + tensors[0].dim() + 1 if dim < 0 else dim
    return cat([tensor.unsqueeze(dim) for tensor in tensors], dim)


def _zeros_in_layout(input, layout, dtype, device):
    """No elements, in another layout; blocks are those of the input."""
    options = {"dtype": dtype or input.dtype, "device": device or input.device}
    if layout in (COO, CSR, CSC) and not input.dense_dim():
        return rushlight.zeros(input.shape, layout=layout, **options)
    if layout in (BSR, BSC) and input.layout not in (BSR, BSC):
        raise RuntimeError(f"zeros_like: layout {layout} has blocks, and {input.layout} has none")
    return to_layout(rushlight.zeros(input.shape, **options), layout, like=input)


@function(layouts=ANY)
def zeros_like(
    input: Tensor,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: _memory_format | None = None,
) -> SparseTensor:  # fmt: skip
    if layout is not None and layout is not input.layout:
        return _zeros_in_layout(input, layout, dtype, device).requires_grad_(requires_grad)
    if memory_format not in (None, rushlight.preserve_format):
        raise RuntimeError(f"zeros_like: sparse tensors have no memory format {memory_format}")
    check_not_pinned("zeros_like", pin_memory)
    place = input.device if device is None else device
    check_has_elements("zeros_like", place)
    compressed, plain, old = _C._sparse_parts(input)
    batch = 0 if plain is None else plain.dim() - 1
    values = rushlight.zeros(
        *old.shape[:batch], 0, *old.shape[batch + 1 :], dtype=dtype or input.dtype, device=place
    )
    if plain is None:
        indices = rushlight.zeros(input.sparse_dim(), 0, dtype=rushlight.int64, device=place)
    else:
        indices = rushlight.zeros_like(compressed, device=place)
        plain = plain[..., :0].to(place, copy=True)
    return rebuild(
        input.layout, indices, plain, values, input.shape, input.layout is COO, requires_grad
    )


@function(layouts=ANY)
def empty_like(input: Tensor, *, layout: _layout | None = None, **options: Any) -> SparseTensor:
    if input.layout is COO or layout is not None:
        return zeros_like(input, layout=layout, **options)
    requires_grad = options.pop("requires_grad", False)
    zeros_like(input, **options)  # complains about what there is not
    dtype = options.get("dtype") or input.dtype
    with rushlight.no_grad():
        empty = map_values(input, lambda values: rushlight.empty_like(values, dtype=dtype))
    return empty.requires_grad_(requires_grad)


@function("zeros", "empty")
def zeros(*size: Any, layout: _layout = COO, **options: Any) -> SparseTensor:
    """Of `zeros(size, out=sparse)`."""
    return rushlight.zeros(*size, layout=layout, **options)


@function("new_zeros", "new_empty")
def new_zeros(
    input: Tensor,
    *size: Any,
    dtype: _dtype | None = None,
    device: Device = None,
    requires_grad: bool = False,
) -> SparseTensor:
    size = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
    dtype, device = dtype or input.dtype, input.device if device is None else device
    made = rushlight.sparse_coo_tensor(tuple(size), dtype=dtype, device=device)
    return made.requires_grad_(requires_grad)


@function(layouts=ANY)
def new_tensor(
    input: Tensor,
    data: Any,
    *,
    dtype: _dtype | None = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """An ordinary tensor of this dtype."""
    dtype, device = dtype or input.dtype, input.device if device is None else device
    return rushlight.tensor(data, dtype=dtype, device=device, requires_grad=requires_grad)


def _add_filled_like(name):
    """One of the functions of new elements: of those at the same places."""
    plain = getattr(rushlight, name)

    def filled_like(input, *numbers, layout=None, requires_grad=False, **options):
        if layout is not None and layout is not input.layout:
            raise NotImplementedError(f"{name}: the layout {layout} for one of {input.layout}")
        with rushlight.no_grad():
            filled = map_values(input, lambda values: plain(values, *numbers, **options))
        return filled.requires_grad_(requires_grad)

    function(name, layouts=COMPRESSED)(filled_like)


for _name in ("ones_like", "full_like", "randn_like", "rand_like", "randint_like"):
    _add_filled_like(_name)


# ---- in place


@function("transpose_", "swapaxes_", "swapdims_", layouts=ANY)
def transpose_(input: Tensor, dim0: int, dim1: int) -> SparseTensor:
    if input.layout is not COO:
        raise RuntimeError(f"transpose_: not supported in place in layout {input.layout}")
    return replace(input, transpose(input, dim0, dim1))


@function(layouts=ANY)
def t_(input: Tensor) -> SparseTensor:
    if input.dim() > 2:
        raise RuntimeError(f"t_: expects a tensor with <= 2 dimensions, but self is {input.dim()}D")
    return input if input.dim() < 2 else transpose_(input, 0, 1)


@function(layouts=(CSR,))
def resize_(input: Tensor, *size: Any, memory_format: _memory_format | None = None) -> SparseTensor:
    """More rows and columns, or fewer, where what is cut off is empty."""
    if memory_format not in (None, rushlight.contiguous_format):
        raise RuntimeError(f"resize_: sparse tensors have no memory format such as {memory_format}")
    size = size[0] if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
    if len(size) != 2 or input.dim() != 2:
        raise RuntimeError(
            f"resize_: of a tensor in layout torch.sparse_csr needs 2 sizes, got {tuple(size)}"
        )
    rows, columns = size
    if columns < input.size(1):
        raise RuntimeError(
            "resize_: Resizing columns of sparse CSR tensors to a smaller value is not supported: "
            f"{columns} of {input.size(1)}"
        )
    compressed, plain, values = _C._sparse_parts(input)
    if rows < input.size(0) and int(compressed[rows]) != len(plain):
        raise RuntimeError(f"resize_: there are elements behind row {rows}")
    more = compressed[-1:].expand(max(0, rows - input.size(0)))
    compressed = rushlight.cat([compressed[: rows + 1], more])
    return replace(input, compress(CSR, compressed, plain, values, size))


def _checked_size(name, size, sparse_dim, dense_dim):
    if sparse_dim + dense_dim != len(size):
        raise RuntimeError(
            f"{name}: number of dimensions must be sparse_dim ({sparse_dim}) + dense_dim "
            f"({dense_dim}), but got {len(size)}"
        )
    return rushlight.Size(size)


def sparse_resize_(
    input: SparseTensor, size: Sequence[int], sparse_dim: int, dense_dim: int
) -> SparseTensor:
    """Give a COO tensor other sizes; one with elements may only grow."""
    size = _checked_size("sparse_resize_", size, sparse_dim, dense_dim)
    if not input._nnz():
        return sparse_resize_and_clear_(input, size, sparse_dim, dense_dim)
    if (sparse_dim, dense_dim) != (input.sparse_dim(), input.dense_dim()):
        raise RuntimeError(
            "sparse_resize_: changing the number of sparse or dense dimensions of a non-empty "
            f"tensor is not supported: {input.sparse_dim()} and {input.dense_dim()} before"
        )
    if any(new < old for new, old in zip(size, input.shape, strict=True)):
        raise RuntimeError(
            "sparse_resize_: shrinking the size of a non-empty tensor is not supported: "
            f"{tuple(input.shape)} to {tuple(size)}"
        )
    values = values_of(input)
    if values.shape[1:] != size[sparse_dim:]:
        grown = values.new_zeros(len(values), *size[sparse_dim:])
        grown[tuple(slice(n) for n in values.shape)] = values
        values = grown
    return replace(input, construct(input._indices(), values, size, input.is_coalesced()))


def sparse_resize_and_clear_(
    input: SparseTensor, size: Sequence[int], sparse_dim: int, dense_dim: int
) -> SparseTensor:
    """Give a COO tensor other sizes, and no elements."""
    size = _checked_size("sparse_resize_and_clear_", size, sparse_dim, dense_dim)
    indices = input._indices().new_zeros(sparse_dim, 0)
    values = input._values().new_zeros(0, *size[sparse_dim:])
    return replace(input, construct(indices, values, size, True))


@function("resize_as_", "resize_as_sparse_", layouts=ANY)
def resize_as_(
    input: Tensor, the_template: Tensor, *, memory_format: _memory_format | None = None
) -> SparseTensor:
    if input.layout is CSR:
        return resize_(input, the_template.shape, memory_format=memory_format)
    need_sparse("resize_as_", the_template)
    return sparse_resize_(
        input, the_template.shape, the_template.sparse_dim(), the_template.dense_dim()
    )
