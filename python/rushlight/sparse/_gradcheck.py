"""Checks of gradients for functions of sparse tensors."""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def as_sparse_gradcheck(gradcheck: Callable[..., bool]) -> Callable[..., bool]:
    """Return `autograd.gradcheck`, or a partial of it, for functions that take or return sparse
    tensors.

    The values of a sparse input that needs a gradient are checked in its place. Unless the check is
    called with `masked=True`, these are all elements of the tensor, those that it does not hold as
    zeros.

    Args:
        gradcheck: the function, which is given strided tensors.

    Example:
        >>> check = as_sparse_gradcheck(rushlight.autograd.gradcheck)
        >>> x = rushlight.tensor([[0, 1], [2, 3]], dtype=rushlight.float64).to_sparse()
        >>> check(lambda x: x.to_sparse_csr(), x.requires_grad_())
        True
    """

    def gradcheck_with_sparse_support(func: Callable[..., Any], inputs: Any, **kwargs: Any) -> bool:
        given = tuple(inputs) if isinstance(inputs, (list, tuple)) else (inputs,)
        function, point = of_values(func, given, kwargs.pop("masked", False))

        def to_dense(*args, **options):
            found = function(*args, **options)
            if isinstance(found, (list, tuple)):
                return tuple(map(_dense, found))
            return _dense(found)

        return gradcheck(to_dense, point, **kwargs)

    return gradcheck_with_sparse_support


def of_values(
    func: Callable[..., Any], inputs: tuple[Any, ...], masked: bool
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A function of the values of sparse inputs that need gradients, and the inputs for it."""
    makers = [_Maker(value, masked) if _is_checked(value) else None for value in inputs]
    point = tuple(make.values if make else value for value, make in zip(inputs, makers))

    def function(*args: Any, **options: Any) -> Any:
        args = [make(value) if make else value for value, make in zip(args, makers)]
        return func(*args, **options)

    return function, point


def _is_checked(value):
    return isinstance(value, Tensor) and value.requires_grad and value.layout != rushlight.strided


def _dense(value):
    return value.to_dense() if _is_checked(value) else value


class _Maker:
    """Makes a sparse tensor of other values."""

    def __init__(self, tensor, masked):
        tensor = tensor.detach()
        if not masked:
            tensor = _with_all_elements(tensor)
        self._like = tensor
        is_coo = tensor.layout is rushlight.sparse_coo
        self.values = (tensor._values() if is_coo else tensor.values()).detach().requires_grad_()

    def __call__(self, values):
        like = self._like
        if like.layout is rushlight.sparse_coo:
            return rushlight.sparse_coo_tensor(
                like._indices(), values, like.shape, is_coalesced=like.is_coalesced()
            )
        by_rows = like.layout in (rushlight.sparse_csr, rushlight.sparse_bsr)
        indices = (
            (like.crow_indices(), like.col_indices())
            if by_rows
            else (like.ccol_indices(), like.row_indices())
        )
        return rushlight.sparse_compressed_tensor(*indices, values, like.shape, layout=like.layout)


def _with_all_elements(tensor):
    blocksize = None
    if tensor.layout in (rushlight.sparse_bsr, rushlight.sparse_bsc):
        batch_dims = tensor.dim() - tensor.dense_dim() - 2
        blocksize = tensor.values().shape[batch_dims + 1 : batch_dims + 3]
    everywhere = rushlight.ones(tensor.shape, dtype=rushlight.bool, device=tensor.device)
    mask = everywhere.to_sparse(
        layout=tensor.layout, blocksize=blocksize, dense_dim=tensor.dense_dim()
    )
    return tensor.to_dense().sparse_mask(mask)


set_module("rushlight.sparse", as_sparse_gradcheck)
