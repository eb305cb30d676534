"""What libraries ask about tensors that stand for all examples of `vmap`."""

from __future__ import annotations

from rushlight.func._vmap import is_batched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from rushlight import Tensor


def is_batchedtensor(tensor: Tensor) -> bool:
    """Does the tensor stand for all examples of a running `vmap`?"""
    return is_batched(tensor)


def get_unwrapped(tensor: Tensor) -> NoReturn:
    """Refused: the examples of a tensor are `vmap`'s own."""
    raise NotImplementedError(f"get_unwrapped: of a tensor of shape {tuple(tensor.shape)}")
