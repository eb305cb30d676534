"""SparseTensor, and the three steps between it and its values that autograd knows.

To the core a sparse tensor is a meta tensor: shape, dtype and history, but no elements, so that
nothing can read memory that is not there. Its indices and values are attributes. Every function on
sparse tensors works on the values, which are an ordinary tensor, between `values_of` and
`construct`; so its gradient follows from those of ordinary operations. The gradient of a sparse
tensor is a sparse tensor with the same indices.
"""

import rushlight
from rushlight import _C, Tensor
from rushlight.autograd import Function


class SparseTensor(Tensor):
    """A tensor in coordinate (COO) layout; made by `sparse_coo_tensor` and `Tensor.to_sparse`."""

    is_sparse = property(lambda self: True)
    is_meta = property(lambda self: False)
    is_cpu = property(lambda self: True)
    layout = property(lambda self: rushlight.sparse_coo)
    device = property(lambda self: rushlight.device("cpu"))
    data = property(lambda self: self.detach())
    T = property(lambda self: self.t())

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        from rushlight.sparse._functions import call

        return call(func, args, kwargs or {})

    def coalesce(self):
        """Sort the indices and add up the values of equal ones."""
        return coalesced(self)

    def is_coalesced(self):
        """Return whether the indices are sorted and different."""
        return self.__dict__["coo_coalesced"]

    def indices(self):
        """Return the (sparse_dim, nnz) indices of a coalesced tensor."""
        self._check_coalesced("indices")
        return self._indices()

    def values(self):
        """Return the (nnz, ...) values of a coalesced tensor."""
        self._check_coalesced("values")
        return values_of(self)

    def _check_coalesced(self, name):
        if not self.is_coalesced():
            raise RuntimeError(
                f"Cannot get {name} on an uncoalesced tensor, please call .coalesce() first"
            )

    def _indices(self):
        return self.__dict__["coo_indices"]

    def _values(self):
        return self.__dict__["coo_values"]

    def _nnz(self):
        return self._values().size(0)

    def sparse_dim(self):
        """Return how many dims the indices name."""
        return self._indices().size(0)

    def dense_dim(self):
        """Return how many dims each value has."""
        return self._values().dim() - 1

    def to_dense(self, dtype=None, *, masked_grad=None):
        """Return the ordinary tensor."""
        shape = self.shape[: self.sparse_dim()]
        whole = coalesced(self)
        values = values_of(whole)
        values = values if dtype is None else values.to(dtype)
        size = [_count(shape), *values.shape[1:]]
        flat = rushlight.zeros(size, dtype=values.dtype)
        flat = flat.index_copy(0, keys_of(whole._indices(), shape), values)
        return flat.reshape(self.shape)

    def to_sparse(self, sparse_dim=None, *, layout=None, blocksize=None, dense_dim=None):
        """Return this tensor."""
        _check_layout("to_sparse", layout)
        return self

    def __repr__(self, *, tensor_contents=None):
        from rushlight.sparse._printing import sparse_repr

        return sparse_repr(self)

    def __reduce_ex__(self, protocol):
        parts = (self._indices(), self._values(), tuple(self.shape), self.is_coalesced())
        return rebuild, (*parts, self.requires_grad)

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            if not self.is_leaf:
                raise RuntimeError("only leaves of the graph can be copied deeply")
            parts = (self._indices().clone(), self._values().clone(), self.shape)
            memo[id(self)] = rebuild(*parts, self.is_coalesced(), self.requires_grad)
        return memo[id(self)]

    def share_memory_(self):
        """Move indices and values to shared memory."""
        self._indices().share_memory_()
        self._values().share_memory_()
        return self

    def is_shared(self):
        return self._values().is_shared()

    def numpy(self, *, force=False):
        raise TypeError("can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.")

    __array__ = numpy

    def type(self, dtype=None, non_blocking=False):
        if dtype is None:
            return super().type().replace("torch.", "torch.sparse.")
        return self.to(self._values().type(dtype).dtype)

    def norm(self, p="fro", dim=None, keepdim=False, dtype=None):
        """Return the norm of all elements."""
        if dim is not None or keepdim:
            raise NotImplementedError("norm: a sparse tensor has one over all its elements only")
        return rushlight.norm(values_of(coalesced(self)), p, dtype=dtype)


def wrap(indices, values, size, is_coalesced):
    """A SparseTensor without history."""
    shape = rushlight.empty(size, dtype=values.dtype, device="meta")
    sparse = Tensor._make_subclass(SparseTensor, shape)
    sparse.__dict__.update(
        coo_indices=indices, coo_values=values, coo_coalesced=is_coalesced
    )
    return sparse


def rebuild(indices, values, size, is_coalesced, requires_grad=False):
    return wrap(indices, values, size, is_coalesced).requires_grad_(requires_grad)


_C._set_sparse_type(SparseTensor)


# ---- indices as numbers ----------------------------------------------------------------------


def _count(shape):
    total = 1
    for size in shape:
        total *= size
    return total


def keys_of(indices, shape):
    """The place of each index in a tensor of the sparse dims, as one number."""
    if _count(shape) > 2**62:
        raise RuntimeError(f"sparse tensor: too many places in a shape of {tuple(shape)}")
    keys = rushlight.zeros(indices.size(1), dtype=rushlight.int64)
    for row, size in zip(indices, shape, strict=True):
        keys = keys * size + row
    return keys


def indices_of(keys, shape):
    """The inverse of `keys_of`."""
    rows = []
    for size in reversed(shape):
        rows.insert(0, keys % max(1, size))
        keys = keys // max(1, size)
    return rushlight.stack(rows) if rows else rushlight.zeros(0, len(keys), dtype=rushlight.int64)


def find(keys, sorted_keys):
    """Where each of `keys` is in `sorted_keys`, and whether it is there at all."""
    if not len(sorted_keys):
        return rushlight.zeros_like(keys), rushlight.zeros_like(keys, dtype=rushlight.bool)
    places = rushlight.searchsorted(sorted_keys, keys).clamp(max=len(sorted_keys) - 1)
    return places, sorted_keys[places] == keys


def take(source, indices, shape):
    """The elements of `source`, dense or sparse, at some indices."""
    if not source.is_sparse:
        return source[tuple(indices)] if len(indices) else source.unsqueeze(0)
    source = coalesced(source)
    keys = keys_of(indices, shape)
    places, known = find(keys, keys_of(source._indices(), shape))
    values = values_of(source)
    if not len(values):
        return values.new_zeros([len(keys), *values.shape[1:]])
    found = values[places]
    return found * known.reshape(-1, *[1] * (found.dim() - 1)).to(found.dtype)


# ---- the steps -------------------------------------------------------------------------------


class _Construct(Function):
    """From values to a sparse tensor."""

    @staticmethod
    def forward(ctx, values, indices, size, is_coalesced):
        ctx.set_materialize_grads(False)
        ctx.indices, ctx.size = indices, tuple(size)
        return wrap(indices, values.detach(), size, is_coalesced)

    @staticmethod
    def backward(ctx, grad):
        if grad is None:
            return None, None, None, None
        return take(grad, ctx.indices, ctx.size[: len(ctx.indices)]), None, None, None


class _Values(Function):
    """From a sparse tensor to its values."""

    @staticmethod
    def forward(ctx, sparse):
        ctx.set_materialize_grads(False)
        ctx.indices, ctx.size = sparse._indices(), tuple(sparse.shape)
        ctx.coalesced = sparse.is_coalesced()
        return sparse._values().detach()

    @staticmethod
    def backward(ctx, grad):
        if grad is None:
            return None
        if ctx.coalesced:
            return construct(ctx.indices, grad, ctx.size, True)
        # Equal indices have equal gradients here, that of their place.
        shape = ctx.size[: len(ctx.indices)]
        keys, order = keys_of(ctx.indices, shape).sort(stable=True)
        first = rushlight.ones_like(keys, dtype=rushlight.bool)
        first[1:] = keys[1:] != keys[:-1]
        chosen = order[first]
        return construct(ctx.indices[:, chosen], grad[chosen], ctx.size, True)


class _Coalesce(Function):
    """Sorts and adds up; the gradient of a place is that of all that was added up there."""

    @staticmethod
    def forward(ctx, sparse):
        ctx.set_materialize_grads(False)
        indices, values = sparse._indices(), sparse._values()
        shape = sparse.shape[: len(indices)]
        keys, inverse = keys_of(indices, shape).unique(return_inverse=True)
        total = values.new_zeros([len(keys), *values.shape[1:]])
        if values.dtype == rushlight.bool:
            total = total.to(rushlight.int32).index_add(0, inverse, values.to(rushlight.int32)) > 0
        else:
            total = total.index_add(0, inverse, values)
        return wrap(indices_of(keys, shape), total, sparse.shape, True)

    @staticmethod
    def backward(ctx, grad):
        return grad


def construct(indices, values, size, is_coalesced):
    """A sparse tensor with the history of `values`."""
    return _Construct.apply(values, indices, rushlight.Size(size), is_coalesced)


def values_of(sparse):
    """The values, with their history; of an uncoalesced tensor for linear functions alone."""
    return _Values.apply(sparse)


def coalesced(sparse):
    return sparse if sparse.is_coalesced() else _Coalesce.apply(sparse)


# ---- making sparse tensors -------------------------------------------------------------------


def _check_layout(what, layout):
    if layout is not None and layout is not rushlight.sparse_coo:
        raise NotImplementedError(f"{what}: the layout is {layout}; torch.sparse_coo is supported")


def sparse_coo_tensor(
    indices=None,
    values=None,
    size=None,
    *,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=False,
    requires_grad=False,
    check_invariants=None,
    is_coalesced=None,
):
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
    _check_layout("sparse_coo_tensor", layout)
    if device is not None and rushlight.device(device).type != "cpu":
        raise NotImplementedError(f"sparse_coo_tensor: the device is {device}; cpu is supported")
    if values is None:
        size = size if size is not None else indices
        indices = rushlight.zeros(len(size), 0, dtype=rushlight.int64)
        values = rushlight.zeros(0, dtype=dtype)
    indices = rushlight.as_tensor(indices)
    if indices.numel() and (indices.is_floating_point() or indices.is_complex()):
        raise RuntimeError(f"sparse_coo_tensor: indices must be integers but are {indices.dtype}")
    indices = indices.detach().to(rushlight.int64)
    values = rushlight.as_tensor(values, dtype=dtype)
    size = _checked_size(indices, values, size)
    if is_coalesced:
        keys = keys_of(indices, size[: len(indices)])
        if not bool((keys[1:] > keys[:-1]).all()):
            raise RuntimeError(
                "sparse_coo_tensor: is_coalesced=True, but the indices are not sorted or not unique"
            )
    # Like torch.tensor, a leaf of its own, but sharing the memory of `values`.
    sparse = wrap(indices, values.detach(), size, bool(is_coalesced) or values.size(0) < 2)
    if values.requires_grad and not requires_grad:
        return construct(indices, values, size, sparse.is_coalesced())
    return sparse.requires_grad_(requires_grad)


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


def to_sparse(dense, sparse_dim=None, *, layout=None, blocksize=None, dense_dim=None):
    """`dense` in coordinate layout: its first `sparse_dim` dims, by default all, become indices."""
    if isinstance(sparse_dim, rushlight.layout):
        sparse_dim, layout = None, sparse_dim
    _check_layout("to_sparse", layout)
    if sparse_dim is None:
        sparse_dim = dense.dim() - (dense_dim or 0)
    if not (0 < sparse_dim <= dense.dim() or dense.dim() == sparse_dim == 0):
        raise RuntimeError(
            f"to_sparse: sparse_dim must be in [1, {dense.dim()}] but is {sparse_dim}"
        )
    shape = dense.shape[:sparse_dim]
    with rushlight.no_grad():
        occupied = dense != 0
        if sparse_dim < dense.dim():
            occupied = occupied.flatten(sparse_dim).any(-1)
        keys = occupied.reshape(-1).nonzero().reshape(-1)
    values = dense.reshape(_count(shape), *dense.shape[sparse_dim:])[keys]
    return construct(indices_of(keys, shape), values, dense.shape, True)


def sparse_mask(dense, mask):
    """The elements of `dense` at the indices of a sparse `mask`, in a sparse tensor."""
    if not isinstance(mask, SparseTensor):
        raise RuntimeError("sparse_mask: the mask must be a sparse COO tensor")
    if dense.shape != mask.shape:
        raise RuntimeError(
            f"sparse_mask: the shapes {tuple(dense.shape)} and {tuple(mask.shape)} differ"
        )
    mask = coalesced(mask)
    indices = mask._indices()
    shape = dense.shape[: len(indices)]
    return construct(indices, take(dense, indices, shape), dense.shape, True)
