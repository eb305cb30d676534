"""Padding of sequences, images and volumes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight import Tensor
from rushlight.nn import functional as F
from rushlight.nn.modules.module import Module
from rushlight.nn.modules.utils import _ntuple, _pair, _quadruple

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]

_sextuple = _ntuple(6)


class _PadNd(Module):
    """Pads by `padding`, both sides of the last dim first; an int pads every side alike."""

    __constants__: list[str] = ["padding"]

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__()
        self.padding: Any = self._sides(padding)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _CircularPadNd(_PadNd):
    def forward(self, input: Tensor) -> Tensor:
        dims = len(self.padding) // 2
        if input.dim() not in (dims + 1, dims + 2):
            raise ValueError(
                f"expected {dims + 1}D or {dims + 2}D input (got {input.dim()}D input)"
            )
        return F.pad(input, self.padding, "circular")


class CircularPad1d(_CircularPadNd):
    """Pads (N, C, W) as if it repeated; `padding` is (left, right)."""

    _sides = staticmethod(_pair)


class CircularPad2d(_CircularPadNd):
    """Pads (N, C, H, W) as if it repeated; `padding` is (left, right, top, bottom)."""

    _sides = staticmethod(_quadruple)


class CircularPad3d(_CircularPadNd):
    """Pads (N, C, D, H, W) as if it repeated; `padding` ends with (front, back)."""

    _sides = staticmethod(_sextuple)


class _ConstantPadNd(Module):
    __constants__: list[str] = ["padding", "value"]

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__()
        self.padding: Any = self._sides(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """Pads the last dim with `value`; `padding` is (left, right)."""

    _sides = staticmethod(_pair)


class ConstantPad2d(_ConstantPadNd):
    """Pads the last two dims with `value`; `padding` is (left, right, top, bottom)."""

    _sides = staticmethod(_quadruple)


class ConstantPad3d(_ConstantPadNd):
    """Pads the last three dims with `value`; `padding` ends with (front, back)."""

    _sides = staticmethod(_sextuple)


class _ReflectionPadNd(_PadNd):
    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "reflect")


class ReflectionPad1d(_ReflectionPadNd):
    """Pads (N, C, W) with its reflection, without the edge; `padding` is (left, right)."""

    _sides = staticmethod(_pair)


class ReflectionPad2d(_ReflectionPadNd):
    """Pads (N, C, H, W) with its reflection; `padding` is (left, right, top, bottom)."""

    _sides = staticmethod(_quadruple)


class ReflectionPad3d(_ReflectionPadNd):
    """Pads (N, C, D, H, W) with its reflection; `padding` ends with (front, back)."""

    _sides = staticmethod(_sextuple)


class _ReplicationPadNd(_PadNd):
    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "replicate")


class ReplicationPad1d(_ReplicationPadNd):
    """Pads (N, C, W) by repeating its edge; `padding` is (left, right)."""

    _sides = staticmethod(_pair)


class ReplicationPad2d(_ReplicationPadNd):
    """Pads (N, C, H, W) by repeating its edge; `padding` is (left, right, top, bottom)."""

    _sides = staticmethod(_quadruple)


class ReplicationPad3d(_ReplicationPadNd):
    """Pads (N, C, D, H, W) by repeating its edge; `padding` ends with (front, back)."""

    _sides = staticmethod(_sextuple)


class _ZeroPadNd:
    """Makes a constant padding one with zeros."""

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad1d(_ZeroPadNd, ConstantPad1d):
    """Pads the last dim with zeros; `padding` is (left, right)."""


class ZeroPad2d(_ZeroPadNd, ConstantPad2d):
    """Pads the last two dims with zeros; `padding` is (left, right, top, bottom)."""


class ZeroPad3d(_ZeroPadNd, ConstantPad3d):
    """Pads the last three dims with zeros; `padding` ends with (front, back)."""
