"""SparseTensor, and the steps between it and its values that autograd knows.

The core holds indices and values (src/tensor/sparse.h). Objects of sparse tensors have a class of
their own, so that each function of tensors comes to the table in `_functions` and no function of
ordinary tensors asks about layouts. Every function on sparse tensors works on the values, which are
an ordinary tensor, between `values_of` and `construct`; so its gradient follows from those of
ordinary operations. The gradient of a sparse tensor is a sparse tensor with the same indices.
"""

from __future__ import annotations

import rushlight
from rushlight import _C, Tensor
from rushlight._shown_name import shown_as

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Sequence
    from typing import Any

    from typing_extensions import Self

    from rushlight.types import _dtype, _layout

COO, CSR, CSC = rushlight.sparse_coo, rushlight.sparse_csr, rushlight.sparse_csc
BSR, BSC = rushlight.sparse_bsr, rushlight.sparse_bsc
COMPRESSED = (CSR, CSC, BSR, BSC)
_LAYOUT_NAMES = {COO: "Sparse", CSR: "SparseCsr", CSC: "SparseCsc", BSR: "SparseBsr",
                 BSC: "SparseBsc", rushlight.strided: "Strided"}  # fmt: skip


def refuse_layout(name: str, wanted: str, tensor: Tensor) -> Any:
    """Raise the error for a method of another layout."""
    raise RuntimeError(
        f"{name} expected sparse {wanted} tensor layout but got {_LAYOUT_NAMES[tensor.layout]}"
    )


class SparseTensor(Tensor):
    """A tensor in layout COO, CSR, CSC, BSR or BSC.

    Made by `sparse_coo_tensor`, `sparse_compressed_tensor` and `Tensor.to_sparse`.
    """

    T: Tensor = property(lambda self: self.t())
    mT: Tensor = property(lambda self: self.transpose(-2, -1))
    H: Tensor = property(lambda self: self.adjoint())
    mH: Tensor = H

    _is_of_core = True  # asked also where programs have switched __torch_function__ off
    # What Tensor answers for this class, though not for subclasses, without __torch_function__.
    _plain_attributes = dict.fromkeys(("shape", "ndim", "dtype", "layout", "device",
                                       "requires_grad"))  # fmt: skip

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[builtins.type[Any]],
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        from rushlight.sparse._functions import call

        return call(func, args, kwargs or {})

    def new(self, *args: Any) -> Tensor:
        """Return a COO tensor of this dtype: of indices, values and a size, or empty, of sizes."""
        self._need_coo("new")
        if len(args) > 1 and isinstance(args[0], Tensor):
            indices, values, *size = args
            return rushlight.sparse_coo_tensor(indices, values.to(self.dtype), *size)
        size = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
        return rushlight.sparse_coo_tensor(size or (0,), dtype=self.dtype)

    def coalesce(self) -> Tensor:
        """Sort the indices and add up the values of equal ones."""
        self._need_coo("coalesce")
        return coalesced(self)

    def is_coalesced(self) -> bool:
        """Return whether the indices are sorted and different."""
        self._need_coo("is_coalesced")
        return _C._sparse_is_coalesced(self)

    def sparse_resize_(self, size: Sequence[int], sparse_dim: int, dense_dim: int) -> SparseTensor:
        """Give a COO tensor other sizes; one with elements may only grow."""
        from rushlight.sparse import _shapes

        self._need_coo("sparse_resize_")
        return _shapes.sparse_resize_(self, size, sparse_dim, dense_dim)

    def sparse_resize_and_clear_(
        self, size: Sequence[int], sparse_dim: int, dense_dim: int
    ) -> SparseTensor:
        """Give a COO tensor other sizes, and no elements."""
        from rushlight.sparse import _shapes

        self._need_coo("sparse_resize_and_clear_")
        return _shapes.sparse_resize_and_clear_(self, size, sparse_dim, dense_dim)

    def resize_as_sparse_(self, the_template: Tensor) -> SparseTensor:
        """Give it the sizes of another sparse tensor; one with elements may only grow."""
        from rushlight.sparse import _shapes

        return _shapes.resize_as_(self, the_template)

    def _coalesced_(self, coalesced):
        self._need_coo("_coalesced_")
        parts = construct(self._indices(), self._values(), self.shape, coalesced)
        _C._sparse_replace(self, parts)
        return self

    def indices(self) -> Tensor:
        """Return the (sparse_dim, nnz) indices of a coalesced tensor."""
        self._check_coalesced("indices")
        return self._indices()

    def values(self) -> Tensor:
        """Return the values: (nnz, ...) of a coalesced tensor."""
        if self.layout is COO:
            self._check_coalesced("values")
        return values_of(self)

    def _need_coo(self, name):
        if self.layout is not COO:
            refuse_layout(name, "coordinate", self)

    def _check_coalesced(self, name):
        self._need_coo(name)
        if not self.is_coalesced():
            raise RuntimeError(
                f"Cannot get {name} on an uncoalesced tensor, please call .coalesce() first"
            )

    def _indices(self):
        self._need_coo("_indices")
        return _C._sparse_parts(self)[0]

    def _values(self):
        self._need_coo("_values")
        return _C._sparse_parts(self)[2]

    def crow_indices(self) -> Tensor:
        """Return where each row of a CSR tensor (of blocks, for BSR) begins."""
        return self._compressed("crow_indices", "row", (CSR, BSR), 0)

    def col_indices(self) -> Tensor:
        """Return the column of each value of a CSR tensor, or of each block of a BSR one."""
        return self._compressed("col_indices", "row", (CSR, BSR), 1)

    def ccol_indices(self) -> Tensor:
        """Return where each column of a CSC tensor (of blocks, for BSC) begins."""
        return self._compressed("ccol_indices", "column", (CSC, BSC), 0)

    def row_indices(self) -> Tensor:
        """Return the row of each value of a CSC tensor, or of each block of a BSC one."""
        return self._compressed("row_indices", "column", (CSC, BSC), 1)

    def _compressed(self, name, kind, layouts, part):
        if self.layout not in layouts:
            refuse_layout(name, f"{kind} compressed", self)
        return _C._sparse_parts(self)[part]

    def _nnz(self):
        indices, plain, _ = _C._sparse_parts(self)
        return (indices if plain is None else plain).size(-1)

    def sparse_dim(self) -> int:
        """Return how many dims the indices name."""
        return self._indices().size(0) if self.layout is COO else 2

    def dense_dim(self) -> int:
        """Return how many dims each value has."""
        return _C._sparse_dense_dim(self)

    @shown_as("ToDenseBackward0", "self")
    def to_dense(self, dtype: _dtype | None = None, *, masked_grad: bool | None = None) -> Tensor:
        """Return the ordinary tensor.

        Args:
            dtype: of the result.
            masked_grad: if True, the default, the gradient is that of the elements that are stored,
                otherwise of all elements, as a dense tensor.
        """
        if masked_grad is False and self.requires_grad and _C._records():
            from rushlight.sparse._convert import ToDense

            dense = ToDense.apply(self)
        else:
            dense = _C._sparse_to_dense(self)
        return dense if dtype is None else dense.to(dtype)

    def to_sparse(
        self,
        sparse_dim: int | None = None,
        *,
        layout: _layout | None = None,
        blocksize: Sequence[int] | None = None,
        dense_dim: int | None = None,
    ) -> Self | SparseTensor:
        """Return this tensor in another sparse layout, COO by default."""
        from rushlight.sparse._convert import sparse_to_sparse

        return sparse_to_sparse(self, sparse_dim, layout, blocksize, dense_dim)

    def sparse_mask(self, mask: Tensor) -> SparseTensor:
        """Return the elements at the indices of another sparse tensor."""
        from rushlight.sparse._convert import sparse_mask

        return sparse_mask(self, mask)

    def narrow_copy(self, dim: int, start: int, length: int) -> SparseTensor:
        """Return `length` places along `dim`, the first of them `start`."""
        from rushlight.sparse._shapes import narrow_copy

        if self.layout is not COO:
            refuse_layout("narrow_copy", "coordinate", self)
        return narrow_copy(self, dim, start, length)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        from rushlight.sparse._printing import sparse_repr

        return sparse_repr(self)

    def __reduce_ex__(self, protocol: int) -> tuple[Any, ...]:
        if self.requires_grad:
            return rebuild, (self.layout, *self._state(), True)
        first, second, values, size, coalesced = self._state()
        parts = (first, values, size, coalesced) if self.layout is COO else (
            first, second, values, size
        )  # fmt: skip
        return rushlight._utils._rebuild_sparse_tensor, (self.layout, parts)

    def _state(self):
        coalesced = self.layout is COO and self.is_coalesced()
        return (*_C._sparse_parts(self), tuple(self.shape), coalesced)

    def __deepcopy__(self, memo: dict[int, Any]) -> SparseTensor:
        if id(self) not in memo:
            from copy import deepcopy

            if not self.is_leaf:
                raise RuntimeError("only leaves of the graph can be copied deeply")
            with rushlight.no_grad():
                copy = _C._sparse_clone(self)
            memo[id(self)] = copy.requires_grad_(self.requires_grad)
            if self.grad is not None:
                copy.grad = deepcopy(self.grad, memo)
        return memo[id(self)]

    def share_memory_(self) -> Self:
        """Move indices and values to shared memory."""
        for part in _C._sparse_parts(self):
            if part is not None:
                part.share_memory_()
        return self

    def is_shared(self) -> bool:
        return _C._sparse_parts(self)[2].is_shared()

    def numpy(self, *, force: bool = False) -> Any:
        raise TypeError("can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.")

    __array__ = numpy

    def type(self, dtype: _dtype | None = None, non_blocking: bool = False) -> Any:
        if dtype is None:
            return values_of(self).type().replace("torch.", "torch.sparse.")
        return self.to(values_of(self).type(dtype).dtype)

    def norm(
        self,
        p: float | str | None = "fro",
        dim: int | None = None,
        keepdim: bool = False,
        dtype: _dtype | None = None,
    ) -> Tensor:
        """Return the norm of all elements."""
        if dim is not None or keepdim:
            raise NotImplementedError("norm: a sparse tensor has one over all its elements only")
        return rushlight.norm(values_of(coalesced(self)), p, dtype=dtype)


def rebuild(
    layout: _layout | None,
    indices: Tensor,
    plain: Tensor | None,
    values: Any,
    size: Sequence[int],
    is_coalesced: bool,
    requires_grad: bool = False,
) -> SparseTensor:
    with rushlight.no_grad():
        sparse = _C._sparse_construct(values, layout, indices, plain, size, is_coalesced)
    return sparse.requires_grad_(requires_grad)


# ---- the steps, which the core records -------------------------------------------------------


def construct(
    indices: Tensor, values: Any, size: Sequence[int], is_coalesced: bool
) -> SparseTensor:
    """A sparse COO tensor with the history of `values`."""
    return _C._sparse_construct(values, COO, indices, None, size, is_coalesced)


def compress(
    layout: _layout | None, compressed: Tensor, plain: Tensor, values: Any, size: Sequence[int]
) -> SparseTensor:
    """A tensor in a compressed layout with the history of `values`."""
    return _C._sparse_construct(values, layout, compressed, plain, size, False)


def with_values(sparse: bool, values: Any) -> SparseTensor:
    """A sparse tensor with the indices of another."""
    indices, plain, _ = _C._sparse_parts(sparse)
    is_coalesced = _C._sparse_is_coalesced(sparse)
    size = [*sparse.shape[: sparse.dim() - sparse.dense_dim()], *_dense_sizes(sparse, values)]
    return _C._sparse_construct(values, sparse.layout, indices, plain, size, is_coalesced)


def _dense_sizes(sparse, values):
    places = _C._sparse_parts(sparse)[2].dim() - sparse.dense_dim()
    return values.shape[places:]


def values_of(sparse: bool) -> Tensor:
    """The values, with their history; of an uncoalesced tensor for linear functions alone."""
    return _C._sparse_values(sparse)


def coalesced(sparse: bool) -> SparseTensor:
    return _C._sparse_coalesce(sparse)


# ---- indices as numbers ----------------------------------------------------------------------


def count(shape: Sequence[int]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total


def check_has_elements(what: str, device: Any) -> None:
    """Raise NotImplementedError for the meta device: sparse tensors are what their indices are."""
    if rushlight.device(device).type == "meta":
        raise NotImplementedError(f"{what}: sparse tensors of the meta device have no indices")


def check_not_pinned(what: str, pin_memory: bool) -> None:
    """Raise NotImplementedError where the indices and values are to be in page-locked memory."""
    if pin_memory:
        raise NotImplementedError(f"{what}: pin_memory=True is for dense tensors")


def keys_of(indices: Tensor, shape: Sequence[int]) -> Tensor:
    """The place of each index in a tensor of the sparse dims, as one number."""
    keys = rushlight.zeros(indices.size(1), dtype=rushlight.int64, device=indices.device)
    for row, size in zip(indices, shape, strict=True):
        keys = keys * size + row
    return keys


def indices_of(keys: Tensor, shape: Sequence[int]) -> Tensor:
    """The inverse of `keys_of`."""
    rows = []
    for size in reversed(shape):
        rows.insert(0, keys % max(1, size))
        keys = keys // max(1, size)
    return rushlight.stack(rows) if rows else keys.new_zeros(0, len(keys))


def starts_of(rows: Tensor, height: int) -> Tensor:
    """Where each of `height` rows begins among elements sorted by row, and where the last ends."""
    if type(rows) is Tensor and rows.is_cpu and rows.dtype is rushlight.int64:
        return _C._sparse_row_starts(rows, height)
    return starts_once_sorted(rows, height)


def starts_once_sorted(rows: Tensor, height: int) -> Tensor:
    """`starts_of` for elements in any order, as if they were sorted."""
    return rushlight.nn.functional.pad(rows.bincount(minlength=height).cumsum(0), (1, 0))


def rows_of(starts: Tensor) -> Tensor:
    """The inverse of `starts_of`: the row of each element."""
    lines = rushlight.arange(len(starts) - 1, device=starts.device)
    return lines.repeat_interleave(starts.diff())


def find(keys: Tensor, sorted_keys: Tensor) -> tuple[Tensor, Tensor]:
    """Where each of `keys` is in `sorted_keys`, and whether it is there at all."""
    if not len(sorted_keys):
        return rushlight.zeros_like(keys), rushlight.zeros_like(keys, dtype=rushlight.bool)
    places = rushlight.searchsorted(sorted_keys, keys).clamp(max=len(sorted_keys) - 1)
    return places, sorted_keys[places] == keys
