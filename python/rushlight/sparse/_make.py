"""The functions that make sparse tensors of indices and values."""

from __future__ import annotations

import rushlight
from rushlight._set_module import set_module
from rushlight.sparse._tensor import (
    BSC,
    BSR,
    COMPRESSED,
    COO,
    CSC,
    CSR,
    check_has_elements,
    check_not_pinned,
    compress,
    construct,
    keys_of,
    rebuild,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight import Tensor
    from rushlight.sparse._tensor import SparseTensor
    from rushlight.types import Device, _dtype, _layout


def _place(what, device, pin_memory, *given):
    """The device of what is made: the one that is asked for, or that of the first tensor given."""
    check_not_pinned(what, pin_memory)
    if device is not None:
        check_has_elements(what, device)
        return rushlight.device(device)
    tensors = [t for t in given if isinstance(t, rushlight.Tensor)]
    return tensors[0].device if tensors else rushlight.get_default_device()


def sparse_coo_tensor(
    indices: Tensor | Sequence[Any] | None = None,
    values: Any = None,
    size: Sequence[int] | None = None,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> SparseTensor:
    """A tensor in coordinate layout: zero but at `indices`, where it has `values`.

    Args:
        indices: (sparse_dim, nnz) integers; values at equal indices add up.
        values: (nnz, ...); dims after the first are dense.
        size: the shape; by default just large enough.
        is_coalesced: the caller knows that the indices are sorted and different; checked.

    Indices are always checked, whatever `check_invariants` is.

    Example:
        >>> rushlight.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3)).to_dense()
        tensor([[0., 0., 3.],
                [4., 0., 0.]])
    """
    if layout not in (None, COO):
        raise RuntimeError(f"sparse_coo_tensor: the layout is torch.sparse_coo, not {layout}")
    place = _place("sparse_coo_tensor", device, pin_memory, values, indices)
    if values is None:
        size = size if size is not None else indices
        indices = rushlight.zeros(len(size), 0, dtype=rushlight.int64)
        values = rushlight.zeros(0, dtype=dtype)
    indices = rushlight.as_tensor(indices, device=place)
    if indices.is_complex():
        raise RuntimeError(f"sparse_coo_tensor: indices must be integers but are {indices.dtype}")
    # A copy: whoever owns the memory may change it after the check.
    indices = indices.detach().to(rushlight.int64, copy=True)
    values = rushlight.as_tensor(values, dtype=dtype, device=place)
    if values.dim() == 0:  # a number is that of the one element
        values = values.expand(1)
    size = _checked_size(indices, values, size)
    if is_coalesced:
        _check_order(indices, size)
    # Like torch.tensor, a leaf of its own, but sharing the memory of `values`.
    known = bool(is_coalesced) or values.size(0) < 2
    if values.requires_grad and not requires_grad:
        return construct(indices, values, size, known)
    return rebuild(COO, indices, None, values.detach(), size, known, requires_grad)


def _check_order(indices, size):
    keys = keys_of(indices, size[: len(indices)])
    if not bool((keys[1:] > keys[:-1]).all()):
        raise RuntimeError(
            "sparse_coo_tensor: is_coalesced=True, but the indices are not sorted or not unique"
        )


def _checked_size(indices, values, size):
    if indices.dim() != 2:
        raise RuntimeError(
            f"sparse_coo_tensor: indices must be (sparse_dim, nnz) but have shape"
            f" {tuple(indices.shape)}"
        )
    if values.dim() < 1 or indices.size(1) != values.size(0):
        raise RuntimeError(
            "indices and values must have same nnz, but got nnz from indices:"
            f" {indices.size(1)}, nnz from values: {values.size(0) if values.dim() else 0}"
        )
    least = indices.min(dim=1).values.tolist() if indices.numel() else [0] * len(indices)
    most = indices.max(dim=1).values.tolist() if indices.numel() else [-1] * len(indices)
    for dim, index in enumerate(least):
        if index < 0:
            raise RuntimeError(f"found negative index {index} for dim {dim}")
    if size is None:
        return rushlight.Size([*(index + 1 for index in most), *values.shape[1:]])
    size = rushlight.Size(size)
    sparse_dim, dense_dim = len(indices), values.dim() - 1
    if len(size) != sparse_dim + dense_dim:
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)},"
            f" sparse_dim = {sparse_dim}, dense_dim = {dense_dim}"
        )
    if any(length < 0 for length in size):
        raise RuntimeError(f"sparse_coo_tensor: negative size in {tuple(size)}")
    for dim, index in enumerate(most):
        if index >= size[dim]:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {dim}, size is {size[dim]} but found"
                f" index {index}"
            )
    if tuple(size[sparse_dim:]) != tuple(values.shape[1:]):
        raise RuntimeError(
            f"sparse_coo_tensor: values have shape {tuple(values.shape)}, but dims"
            f" {tuple(size[sparse_dim:])} after the first were expected for size {tuple(size)}"
        )
    return size


# ---- compressed layouts ----------------------------------------------------------------------


def _as_indices(data, device):
    indices = rushlight.as_tensor(data, device=device)
    is_empty_list = indices.numel() == 0 and not isinstance(data, rushlight.Tensor)
    return indices.long() if is_empty_list else indices


def _make_compressed(
    what, layout, compressed, plain, values, size, *, dtype=None, device=None, pin_memory=False,
    requires_grad=False,
):  # fmt: skip
    place = _place(what, device, pin_memory, values, compressed)
    compressed, plain = _as_indices(compressed, place), _as_indices(plain, place)
    values = rushlight.as_tensor(values, dtype=dtype, device=place)
    size, lines = _checked_compressed(what, layout, compressed, plain, values, size)
    compressed, plain = compressed.detach()[..., : lines + 1].contiguous(), plain.detach()
    if values.requires_grad and not requires_grad:
        return compress(layout, compressed, plain, values, size)
    return rebuild(layout, compressed, plain, values.detach(), size, False, requires_grad)


def _checked_compressed(what, layout, compressed, plain, values, size):
    by_column = layout in (CSC, BSC)
    first, second = ("ccol", "row") if by_column else ("crow", "col")
    first, second = f"{first}_indices", f"{second}_indices"

    def check(condition, *message):
        if not condition:
            raise RuntimeError(f"{what}: " + " ".join(str(part) for part in message))

    check(compressed.dtype == plain.dtype, f"{first} and {second} must have the same dtype, but",
          "are", compressed.dtype, "and", plain.dtype)  # fmt: skip
    check(compressed.dtype in (rushlight.int32, rushlight.int64),
          f"{first} and {second} must be int32 or int64, not", compressed.dtype)  # fmt: skip
    check(compressed.dim() >= 1 and plain.dim() == compressed.dim(),
          f"{first} and {second} must have the same number of dims, at least 1, but have",
          compressed.dim(), "and", plain.dim())  # fmt: skip
    batch = compressed.dim() - 1
    blocks = 2 if layout in (BSR, BSC) else 0
    least = batch + 1 + blocks
    check(values.dim() >= least, f"values must have at least {least} dims, but have", values.dim())
    shapes = compressed.shape[:-1], plain.shape[:-1], values.shape[:batch]
    check(shapes[0] == shapes[1] == shapes[2], f"{first}, {second} and values have batches of"
          " shapes", *map(tuple, shapes))  # fmt: skip
    nnz = plain.size(-1)
    check(values.size(batch) == nnz, f"{second} tells of {nnz} elements, but there are",
          values.size(batch), "values")  # fmt: skip
    check(compressed.size(-1) >= 1, f"{first} must have at least one element in its last dim")
    block = tuple(values.shape[batch + 1 : batch + 3]) if blocks else (1, 1)
    check(0 not in block, "blocks of no elements:", block)
    dense = tuple(values.shape[batch + 1 + blocks :])
    lines = compressed.size(-1) - 1
    most = int(plain.max()) + 1 if plain.numel() else 0
    if size is None:
        grid = (most, lines) if by_column else (lines, most)
        size = [*compressed.shape[:-1], grid[0] * block[0], grid[1] * block[1], *dense]
    size = rushlight.Size(size)
    check(len(size) == batch + 2 + len(dense), "size must have", batch + 2 + len(dense),
          "dims, but is", tuple(size))  # fmt: skip
    check(min(size, default=0) >= 0, "negative size in", tuple(size))
    check(size[:batch] == compressed.shape[:-1], "the batch dims of size", tuple(size),
          "are not those of the indices,", tuple(compressed.shape[:-1]))  # fmt: skip
    check(tuple(size[batch + 2 :]) == dense, "the dense dims of size", tuple(size),
          "are not those of the values,", dense)  # fmt: skip
    height, width = size[batch : batch + 2]
    check(height % block[0] == 0 and width % block[1] == 0, "size", tuple(size),
          "cannot be divided into blocks of", block)  # fmt: skip
    grid = height // block[0], width // block[1]
    length, breadth = reversed(grid) if by_column else grid
    # Lines beyond the size may be there if nothing is in them, as torch takes them.
    beyond = compressed[..., length:]
    check(lines == length or (lines > length and bool((beyond == nnz).all())),
          f"{first} must have {length + 1} elements in its last dim, but has",
          lines + 1)  # fmt: skip
    compressed = compressed[..., : length + 1]
    check(bool((compressed[..., 0] == 0).all()), f"{first} must begin with 0")
    check(bool((compressed[..., -1] == nnz).all()), f"{first} must end with the number of elements,"
          f" {nnz}")  # fmt: skip
    steps = compressed.diff()
    check(not steps.numel() or (int(steps.min()) >= 0 and int(steps.max()) <= breadth),
          f"steps of {first} must be between 0 and {breadth}")  # fmt: skip
    check(not nnz or not plain.numel() or (int(plain.min()) >= 0 and most <= breadth),
          f"{second} must be at least 0 and less than {breadth}")  # fmt: skip
    if plain.numel() > 1:
        line = rushlight.arange(steps.numel(), device=steps.device)
        line = line.repeat_interleave(steps.reshape(-1).long())
        keys = line * breadth + plain.reshape(-1)
        check(bool((keys[1:] > keys[:-1]).all()),
              f"{second} must be sorted and different within each line")  # fmt: skip
    return size, length


def sparse_compressed_tensor(
    compressed_indices: Sequence[int] | Tensor,
    plain_indices: Sequence[int] | Tensor,
    values: Any,
    size: Sequence[int] | None = None,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> SparseTensor:
    """A tensor in layout CSR, CSC, BSR or BSC.

    Args:
        compressed_indices: (*batch, lines + 1): where each row (column, for CSC and BSC) begins
            among the values, and at last their number.
        plain_indices: (*batch, nnz): the column (row) of each value, or of each block.
        values: (*batch, nnz, *block, *dense).
        size: the shape; by default just large enough.

    Indices are always checked, whatever `check_invariants` is.
    """
    _check_compressed_layout("sparse_compressed_tensor", layout)
    return _make_compressed(
        "sparse_compressed_tensor", layout, compressed_indices, plain_indices, values, size,
        dtype=dtype, device=device, pin_memory=pin_memory, requires_grad=requires_grad,
    )  # fmt: skip


def _check_compressed_layout(what, layout):
    if layout not in COMPRESSED:
        raise RuntimeError(f"{what}: layout must be one of {COMPRESSED}, not {layout}")


def _check_own_layout(what, layout, own):
    if layout not in (None, own):
        raise RuntimeError(f"{what}: the layout is {own}, not {layout}")


def sparse_csr_tensor(
    crow_indices: Tensor | Sequence[Any],
    col_indices: Tensor | Sequence[Any],
    values: Any,
    size: Sequence[int] | None = None,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> SparseTensor:  # fmt: skip
    """A tensor in layout CSR: rows of columns and values. See `sparse_compressed_tensor`.

    Example:
        >>> rushlight.sparse_csr_tensor([0, 1, 2], [2, 0], [3.0, 4.0], (2, 3)).to_dense()
        tensor([[0., 0., 3.],
                [4., 0., 0.]])
    """
    _check_own_layout("sparse_csr_tensor", layout, CSR)
    return _make_compressed(
        "sparse_csr_tensor", CSR, crow_indices, col_indices, values, size, dtype=dtype,
        device=device, pin_memory=pin_memory, requires_grad=requires_grad,
    )  # fmt: skip


def sparse_csc_tensor(
    ccol_indices: Tensor | Sequence[Any],
    row_indices: Tensor | Sequence[Any],
    values: Any,
    size: Sequence[int] | None = None,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Any:  # fmt: skip
    """A tensor in layout CSC: columns of rows and values. See `sparse_compressed_tensor`."""
    _check_own_layout("sparse_csc_tensor", layout, CSC)
    return _make_compressed(
        "sparse_csc_tensor", CSC, ccol_indices, row_indices, values, size, dtype=dtype,
        device=device, pin_memory=pin_memory, requires_grad=requires_grad,
    )  # fmt: skip


def sparse_bsr_tensor(
    crow_indices: Tensor | Sequence[Any],
    col_indices: Tensor | Sequence[Any],
    values: Any,
    size: Sequence[int] | None = None,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Any:  # fmt: skip
    """A tensor in layout BSR: CSR of dense blocks. See `sparse_compressed_tensor`."""
    _check_own_layout("sparse_bsr_tensor", layout, BSR)
    return _make_compressed(
        "sparse_bsr_tensor", BSR, crow_indices, col_indices, values, size, dtype=dtype,
        device=device, pin_memory=pin_memory, requires_grad=requires_grad,
    )  # fmt: skip


def sparse_bsc_tensor(
    ccol_indices: Tensor | Sequence[Any],
    row_indices: Tensor | Sequence[Any],
    values: Any,
    size: Sequence[int] | None = None,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Any:  # fmt: skip
    """A tensor in layout BSC: CSC of dense blocks. See `sparse_compressed_tensor`."""
    _check_own_layout("sparse_bsc_tensor", layout, BSC)
    return _make_compressed(
        "sparse_bsc_tensor", BSC, ccol_indices, row_indices, values, size, dtype=dtype,
        device=device, pin_memory=pin_memory, requires_grad=requires_grad,
    )  # fmt: skip


# ---- the checks by themselves ------------------------------------------------------------------


def _validate_sparse_coo_tensor_args(
    indices: Tensor,
    values: Tensor,
    size: Sequence[int],
    is_coalesced: bool | None = None,
    check_pinning: bool | None = None,
) -> None:
    """Raise what `sparse_coo_tensor` would."""
    _check_one_memory("_validate_sparse_coo_tensor_args", check_pinning, indices, values)
    size = _checked_size(indices, values, size)
    if is_coalesced:
        _check_order(indices, size)


def _validate_sparse_compressed_tensor_args(
    compressed_indices: Tensor,
    plain_indices: Tensor,
    values: Tensor,
    size: Sequence[int],
    layout: _layout,
    check_pinning: bool | None = None,
) -> None:
    """Raise what `sparse_compressed_tensor` would."""
    what = "_validate_sparse_compressed_tensor_args"
    _check_one_memory(what, check_pinning, compressed_indices, plain_indices, values)
    _check_compressed_layout(what, layout)
    _checked_compressed(what, layout, compressed_indices, plain_indices, values, size)


def _validate_compressed_sparse_indices(
    is_crow: bool, compressed_idx: Tensor, plain_idx: Tensor, cdim: int, dim: int, nnz: int
) -> None:
    """Raise what `sparse_compressed_tensor` would of indices of `cdim` lines of `dim` places."""
    what = "_validate_compressed_sparse_indices"
    if plain_idx.shape[-1:] != (nnz,):
        raise RuntimeError(f"{what}: {nnz} elements, but indices of shape {list(plain_idx.shape)}")
    size = (*compressed_idx.shape[:-1], *((cdim, dim) if is_crow else (dim, cdim)))
    values = rushlight.zeros(plain_idx.shape, device=plain_idx.device)
    layout = CSR if is_crow else CSC
    _checked_compressed(what, layout, compressed_idx, plain_idx, values, size)


def _check_one_memory(what, check_pinning, *parts):
    if check_pinning and len({part.is_pinned() for part in parts}) > 1:
        raise RuntimeError(f"{what}: indices and values must be in page-locked memory, or none")


set_module(
    "rushlight", sparse_bsc_tensor, sparse_bsr_tensor, sparse_compressed_tensor, sparse_coo_tensor,
    sparse_csc_tensor, sparse_csr_tensor,
)  # fmt: skip


# ---- new tensors of a sparse layout ------------------------------------------------------------


def in_layout(function: Any, args: Any, kwargs: Any) -> SparseTensor:
    """What a function that makes new tensors gives where it is asked for a sparse layout."""
    kwargs = dict(kwargs or {})
    name, layout = function.__name__, kwargs.pop("layout")
    like = None
    if name.endswith("_like") or name.startswith("new_"):
        like, *args = [kwargs.pop("input"), *args] if "input" in kwargs else args
        kind = name.removesuffix("_like").removeprefix("new_")
        size = like.shape if name.endswith("_like") else None
    else:
        kind, size = name, None
    makes = ("zeros", "empty") if layout is COO or like is not None else _WITHOUT_ELEMENTS
    if kind not in makes or layout not in (COO, CSR, CSC):
        raise NotImplementedError(f"{name}: only the layout torch.strided is supported")
    if size is None:
        size, args = _size_of(kwargs.pop("size", None), list(args))
    if kind == "full":
        args, _ = args[1:], kwargs.pop("fill_value", None)
    options = {k: kwargs.pop(k, None) for k in ("dtype", "device", "requires_grad", "pin_memory")}
    refused = [k for k, v in kwargs.items() if v is not None]
    if args or refused:
        raise TypeError(f"{name}: of layout {layout}: unexpected {refused or args}")
    if like is not None:
        options["dtype"] = options["dtype"] or like.dtype
        options["device"] = like.device if options["device"] is None else options["device"]
    return _without_elements(name, layout, rushlight.Size(size), **options)


_WITHOUT_ELEMENTS = ("zeros", "empty", "ones", "full")


def _size_of(given, args):
    """The size among the arguments, and the others."""
    if given is not None:
        return given, args
    if args and not isinstance(args[0], int):
        return args[0], args[1:]
    return args, []


def _without_elements(name, layout, size, dtype, device, requires_grad, pin_memory):
    if layout is COO:
        return sparse_coo_tensor(
            size, dtype=dtype, device=device, requires_grad=bool(requires_grad),
            pin_memory=bool(pin_memory),
        )  # fmt: skip
    if len(size) < 2:
        raise RuntimeError(f"{name}: layout {layout} needs at least 2 dims, got size {tuple(size)}")
    place = _place(name, device, bool(pin_memory))
    *batch, height, width = size
    lines = height if layout is CSR else width
    indices = rushlight.zeros(*batch, lines + 1, dtype=rushlight.int64, device=place)
    values = rushlight.zeros(*batch, 0, dtype=dtype, device=place)
    plain = rushlight.zeros(*batch, 0, dtype=rushlight.int64, device=place)
    return rebuild(layout, indices, plain, values, size, False, bool(requires_grad))
