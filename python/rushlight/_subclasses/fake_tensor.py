"""Tensors that stand for others while a program is traced: nothing traces here, and none exist."""

from __future__ import annotations

from rushlight import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self


class FakeTensor(Tensor):
    """Refused: shapes without data are tensors on the meta device."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        raise NotImplementedError("FakeTensor: use a tensor on the meta device")


class FakeTensorMode:
    """Refused: shapes without data are tensors on the meta device."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("FakeTensorMode: use torch.device('meta') as a context")


class FakeTensorConverter:
    """Refused: shapes without data are tensors on the meta device."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("FakeTensorConverter: use x.to('meta')")


def is_fake(x: Tensor) -> bool:
    """Is it a FakeTensor? None is."""
    return isinstance(x, FakeTensor)
