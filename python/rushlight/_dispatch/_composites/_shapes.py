"""Functions of shapes: views, copies of views, indices, and tensors put together."""

from __future__ import annotations

import math

import rushlight
from rushlight import Tensor
from rushlight._dispatch._emit import emit, flatten, narrow, opaque, reshape, to

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def _reshape(x, *shape, **kwargs):
    if "shape" in kwargs:
        shape = kwargs["shape"]
    elif len(shape) == 1 and not isinstance(shape[0], int):
        (shape,) = shape
    return reshape(x, tuple(shape))


def _unflatten(x, dim, sizes):
    dim %= max(x.dim(), 1)
    if math.prod(sizes) != x.shape[dim] and -1 not in sizes:
        return NotImplemented
    sizes = [x.shape[dim] // -math.prod(sizes) if n == -1 else n for n in sizes]
    return emit("view", x, [*x.shape[:dim], *sizes, *x.shape[dim + 1 :]])


def _narrow(x, dim, start, length):
    size = x.shape[dim] if -x.dim() <= dim < x.dim() else -1
    if not (-size <= start <= size and 0 <= length and start % max(size, 1) + length <= size):
        return NotImplemented
    start += size * (start < 0)
    return emit("slice.Tensor", x, dim, start, start + length)


def _narrow_from(x, dim, start, length):
    if start.dim() or not isinstance(start, Tensor):
        return NotImplemented
    return _narrow(x, dim, emit("_local_scalar_dense", start), length)


def _movedim(x, source, destination):
    source, destination = ([v] if isinstance(v, int) else v for v in (source, destination))
    dims = max(x.dim(), 1)
    source, destination = ([d % dims for d in v] for v in (source, destination))
    if len(source) != len(destination) or len({*source}) < len(source):
        return NotImplemented
    if not source:
        return emit("alias", x)
    places = dict(zip(destination, source))
    left = iter(d for d in range(x.dim()) if d not in source)
    order = [places[d] if d in places else next(left) for d in range(x.dim())]
    return emit("permute", x, order)


def _tile(x, dims):
    return emit("repeat", x, [*[1] * (x.dim() - len(dims)), *dims])


def _chunk_size(x, chunks, dim):
    return max(-(-x.shape[dim] // chunks), 1) if chunks > 0 and x.dim() else 0


def _chunk(operation):
    def chunk(x, chunks, dim=0):
        size = _chunk_size(x, chunks, dim)
        if not size:
            return NotImplemented
        return emit(operation, x, size, *((dim,) if dim else ()))

    return chunk


def _sections(size, count):
    """Where tensor_split cuts a dim into `count` parts."""
    least, longer = divmod(size, count)
    return [i * least + min(i, longer) for i in range(1, count)]


def _cut(x, places, dim):
    ends = [*places, x.shape[dim]]
    return tuple(narrow(x, dim, a, b) for a, b in zip([0, *places], ends))


def _tensor_split(x, sections, dim=0):
    if not x.dim() or (isinstance(sections, int) and sections < 1):
        return NotImplemented
    if isinstance(sections, int):
        sections = _sections(x.shape[dim], sections)
    return _cut(x, sections, dim)


def _tensor_split_by(x, sections, dim=0):
    one = sections.dim() == 0
    places = emit("_local_scalar_dense", sections) if one else sections.tolist()
    if isinstance(places, int) and places < 1:
        return NotImplemented
    return _tensor_split(x, places, dim)


def _split_along(least, dim_of):
    def split(x, sections):
        if x.dim() < least:
            return NotImplemented
        dim = dim_of(x)
        if isinstance(sections, int) and (sections < 1 or x.shape[dim] % sections):
            return NotImplemented
        return _tensor_split(x, sections, dim)

    return split


def _sum_to_size(x, size):
    size = list(size)
    if not size:
        return emit("sum", x)
    extra = x.dim() - len(size)
    if extra < 0 or any(n not in (1, x.shape[extra + d]) for d, n in enumerate(size)):
        return NotImplemented
    dims = [*range(extra), *(extra + d for d, n in enumerate(size) if n == 1 != x.shape[extra + d])]
    if dims:
        x = emit("sum.dim_IntList", x, dims, True)
    return emit("view", x, size) if extra else x


# ---- diagonals, repetitions and turns


def _diag(x, diagonal=0):
    if x.dim() == 1:
        return emit("diag_embed", x, *((diagonal,) if diagonal else ()))
    if x.dim() == 2:
        return emit("diagonal_copy", x, *((diagonal,) if diagonal else ()))
    return NotImplemented


def _diagflat(x, offset=0):
    return _diag(reshape(_contiguous(x), (-1,)), offset)


def _repeat_interleave(x, repeats, dim=None, output_size=None):
    if dim is None:
        x, dim = flatten(x), 0
    dim %= max(x.dim(), 1)
    if x.dim() == 0 or repeats < 0:
        return NotImplemented
    shape = list(x.shape)
    wide = emit("expand", emit("unsqueeze", x, dim + 1), [*shape[:dim + 1], repeats,
                                                          *shape[dim + 1:]])  # fmt: skip
    copy = emit("clone", wide, memory_format=rushlight.contiguous_format)
    return flatten(copy, dim, dim + 1)


def _repeat_interleave_by(x, repeats, dim=None, output_size=None):
    if dim is None:
        x, dim = flatten(x), 0
    if x.dim() == 0 or repeats.dim() > 1:
        return NotImplemented
    if repeats.numel() == 1:
        repeats = emit("expand", reshape(repeats, (1,)), [x.shape[dim]])
    options = {} if output_size is None else {"output_size": output_size}
    return emit("index_select", x, dim, emit("repeat_interleave.Tensor", repeats, **options))


def _take_along_dim(x, indices, dim=None):
    if dim is None:
        return emit("gather", reshape(x, (-1,)), 0, reshape(indices, (-1,)))
    if x.dim() != indices.dim() or not -x.dim() <= dim < x.dim():
        return NotImplemented
    dim %= x.dim()
    shape = list(rushlight.broadcast_shapes(
        [n for d, n in enumerate(x.shape) if d != dim],
        [n for d, n in enumerate(indices.shape) if d != dim],
    ))  # fmt: skip
    x = emit("expand", x, [*shape[:dim], x.shape[dim], *shape[dim:]])
    indices = emit("expand", indices, [*shape[:dim], indices.shape[dim], *shape[dim:]])
    return emit("gather", x, dim, emit("remainder.Scalar", indices, x.shape[dim]))


def _contiguous(x, memory_format=None):
    format = rushlight.contiguous_format if memory_format is None else memory_format
    if x.is_contiguous(memory_format=format):
        return x
    return emit("clone", x, memory_format=format)


def adjoint(x: Tensor, dim0: int = -2, dim1: int = -1) -> Tensor:
    """x transposed, and conjugated if it is complex."""
    x = emit("transpose.int", x, dim0, dim1)
    return emit("_conj", x) if x.is_complex() else x


def _adjoint(x):
    return adjoint(x) if x.dim() >= 2 else NotImplemented


# ---- several tensors


def _at_least(x, dims):
    """x with that many dims, as atleast_2d and atleast_3d have them."""
    if x.dim() == 0:
        return reshape(x, (1,) * dims)
    if x.dim() == 1 and dims > 1:
        x = emit("unsqueeze", x, 0)
    if x.dim() == 2 and dims > 2:
        x = emit("unsqueeze", x, -1)
    return x


def _stacked(dims, dim_of):
    def stack(tensors):
        tensors = [_at_least(t, dims) for t in tensors]
        return emit("cat", tensors, *dim_of(tensors[0])) if tensors else NotImplemented

    return stack


def _column_stack(tensors):
    columns = [t if t.dim() > 1 else reshape(t, (t.numel(), 1)) for t in tensors]
    return emit("cat", columns, 1) if tensors else NotImplemented


def _outer(x, vec2):
    if x.dim() != 1 or vec2.dim() != 1:
        return NotImplemented
    return emit("mul.Tensor", reshape(x, (x.shape[0], 1)), vec2)


def _kron(x, other):
    dims = max(x.dim(), other.dim())
    a = [1] * (dims - x.dim()) + list(x.shape)
    b = [1] * (dims - other.dim()) + list(other.shape)
    x = emit("_unsafe_view", x, [n for size in a for n in (size, 1)])
    other = emit("_unsafe_view", other, [n for size in b for n in (1, size)])
    return emit("_unsafe_view", emit("mul.Tensor", x, other), [n * m for n, m in zip(a, b)])


def _meshgrid(tensors):
    shape = [t.numel() for t in tensors]
    views = [[1] * i + [-1] + [1] * (len(tensors) - i - 1) for i in range(len(tensors))]
    return [emit("expand", reshape(t, view), shape) for t, view in zip(tensors, views)]


def _combinations(x, r=2, with_replacement=False):
    if x.dim() != 1 or r < 1:
        return NotImplemented
    grids = _meshgrid([x] * r)
    places = _meshgrid([emit("arange", x.numel())] * r)
    mask = emit("full", [x.numel()] * r, True, dtype=rushlight.bool)
    for a, b in zip(places, places[1:]):
        mask = emit(
            "mul_.Tensor", mask, emit("le.Tensor" if with_replacement else "lt.Tensor", a, b)
        )
    return emit("stack", [emit("masked_select", grid, mask) for grid in grids], 1)


def _broadcast_tensors(*tensors):
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tuple(tensors[0])
    shape = list(rushlight.broadcast_shapes(*(t.shape for t in tensors)))
    return tuple(t if list(t.shape) == shape else emit("expand", t, shape) for t in tensors)


# ---- indices


class _Indices:
    """What `export._indexing` asks of whoever records."""

    def call(self, key: str, args: Any, **kwargs: Any) -> Any:
        name, _, overload = key.partition(".")
        if name == "view_as":
            return emit("alias", args[0])  # nothing is taken from it: a new view
        if name in ("reshape", "to"):
            return WRITTEN[name](*args, **kwargs)
        row_free = {"index": "Tensor", "slice": "Tensor", "select": "int"}
        if name == "fill_":
            overload = "Scalar"
        return emit(f"{name}.{row_free.get(name, overload or 'default')}", *map(_listed, args),
                    **kwargs)  # fmt: skip

    def _data(self, tensor):
        return emit("lift_fresh", tensor)


def _listed(value):
    return list(value) if type(value) is tuple else value


def _get_item(x, index):
    from rushlight.export import _indexing

    if type(index) is slice and x.dim():  # a slice alone is one, even if it takes everything
        start = 0 if index.start is None else index.start
        stop = 2**63 - 1 if index.stop is None else index.stop
        return emit(
            "slice.Tensor", x, 0, start, stop, *(() if index.step is None else (index.step,))
        )
    return _indexing.get_item(_Indices(), x, index)


def _set_item(x, index, value):
    from rushlight.export import _indexing

    _indexing.set_item(_Indices(), x, index, value)
    return None


def _nonzero(x):
    if x.dim() == 0:
        x = emit("unsqueeze", x, 0)
    return emit("unbind.int", emit("nonzero", x), 1)


def _cast(dtype):
    return lambda x, memory_format=None: to(x, dtype, memory_format=memory_format)


_CASTS = {
    "float": rushlight.float32, "double": rushlight.float64, "half": rushlight.float16,
    "long": rushlight.int64, "int": rushlight.int32, "short": rushlight.int16,
    "char": rushlight.int8, "byte": rushlight.uint8, "bool": rushlight.bool,
    "bfloat16": rushlight.bfloat16, "cfloat": rushlight.complex64,
    "cdouble": rushlight.complex128,
}  # fmt: skip

WRITTEN: dict[str, Callable[..., Any]] = {
    "reshape": _reshape, "flatten": flatten, "unflatten": _unflatten, "contiguous": _contiguous,
    "ravel": lambda x: reshape(_contiguous(x), (x.numel(),)),
    "view_as": lambda x, other: emit("view", x, list(other.shape)),
    "reshape_as": lambda x, other: reshape(x, other.shape),
    "expand_as": lambda x, other: emit("expand", x, list(other.shape)),
    "broadcast_to": lambda x, size: emit("expand", x, list(size)),
    "broadcast_tensors": _broadcast_tensors, "sum_to_size": _sum_to_size,
    "narrow": _narrow, "narrow.tensor": _narrow_from,
    "movedim": _movedim, "moveaxis": _movedim, "tile": _tile,
    "swapaxes": lambda x, a, b: emit("transpose.int", x, a, b),
    "swapdims": lambda x, a, b: emit("transpose.int", x, a, b), "adjoint": _adjoint,
    "chunk": _chunk("split.Tensor"), "unsafe_chunk": _chunk("unsafe_split.Tensor"),
    "tensor_split": _tensor_split, "tensor_split.tensor": _tensor_split_by,
    "hsplit": _split_along(1, lambda x: min(x.dim() - 1, 1)),
    "vsplit": _split_along(2, lambda x: 0), "dsplit": _split_along(3, lambda x: 2),
    "fliplr": lambda x: emit("flip", x, [1]) if x.dim() > 1 else NotImplemented,
    "flipud": lambda x: emit("flip", x, [0]) if x.dim() else NotImplemented,
    "diag": _diag, "diagflat": _diagflat, "repeat_interleave": _repeat_interleave,
    "repeat_interleave.tensor": _repeat_interleave_by,
    "take_along_dim": _take_along_dim,
    "unbind_copy": opaque("unbind_copy.int"), "_chunk_cat": opaque("_chunk_cat"),
    "split_with_sizes_copy": opaque("split_with_sizes_copy"),
    "_unsafe_masked_index": opaque("_unsafe_masked_index"),
    "_unsafe_masked_index_put_accumulate": opaque("_unsafe_masked_index_put_accumulate"),
    "hstack": _stacked(1, lambda t: (0,) if t.dim() == 1 else (1,)),
    "vstack": _stacked(2, lambda t: ()), "dstack": _stacked(3, lambda t: (2,)),
    "row_stack": _stacked(2, lambda t: ()), "column_stack": _column_stack,
    "outer": _outer, "kron": _kron, "combinations": _combinations,
    "__getitem__": _get_item, "__setitem__": _set_item, "nonzero_tuple": _nonzero,
    "__iter__": lambda x: iter(emit("unbind.int", x)), "argwhere": lambda x: emit("nonzero", x),
    "to": to, "to_dtype": to, "to.device": to, "to.other": to, "cpu": lambda x, **_: to(x, "cpu"),
    "type_as": lambda x, other: to(x, other.dtype),
    **{name: _cast(dtype) for name, dtype in _CASTS.items()},
    **{f"cast_{name}": _cast(dtype) for name, dtype in _CASTS.items()},
}  # fmt: skip
