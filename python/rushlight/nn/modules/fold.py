"""Sliding blocks of images, taken out and put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight import Tensor
from rushlight.nn import functional as F
from rushlight.nn.modules._printing import _options
from rushlight.nn.modules.module import Module

__all__ = ["Fold", "Unfold"]


class _Blocks(Module):
    def __init__(
        self,
        kernel_size: int | Sequence[int],
        dilation: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        stride: int | Sequence[int] = 1,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def extra_repr(self) -> Any:
        return _options(self, "kernel_size", "dilation", "padding", "stride")


class Fold(_Blocks):
    """Sums sliding blocks, (N, C * block, L), into images, (N, C, *output_size)."""

    __constants__: list[str] = ["output_size", "kernel_size", "dilation", "padding", "stride"]

    def __init__(
        self,
        output_size: int | tuple[int, ...],
        kernel_size: int | tuple[int, ...],
        dilation: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        stride: int | tuple[int, ...] = 1,
    ) -> None:
        super().__init__(kernel_size, dilation, padding, stride)
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(
            input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride
        )

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}, {super().extra_repr()}"


class Unfold(_Blocks):
    """The sliding blocks of images, (N, C, H, W), as columns, (N, C * block, L)."""

    __constants__: list[str] = ["kernel_size", "dilation", "padding", "stride"]

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)
