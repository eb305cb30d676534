"""Pooling: maxima, averages and p-norms of windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight import Tensor
from rushlight.nn import functional as F
from rushlight.nn.modules._printing import _options
from rushlight.nn.modules.module import Module
from rushlight.nn.modules.utils import _pair, _single, _triple

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
]


# The classes differ in the number of spatial dims: each says by which function it pools. Their
# forward reads nothing but what an instance holds, as it may be called for another object that
# holds the same.


def _max_pool(pool: Callable[..., Any], module: Any, input: Tensor) -> Any:
    return pool(
        input,
        module.kernel_size,
        module.stride,
        module.padding,
        module.dilation,
        ceil_mode=module.ceil_mode,
        return_indices=module.return_indices,
    )


def _max_unpool(
    unpool: Callable[..., Tensor], module: Any, input: Tensor, indices: Tensor, output_size: Any
) -> Tensor:
    return unpool(input, indices, module.kernel_size, module.stride, module.padding, output_size)


def _avg_pool(pool: Callable[..., Tensor], module: Any, input: Tensor) -> Tensor:
    return pool(
        input,
        module.kernel_size,
        module.stride,
        module.padding,
        module.ceil_mode,
        module.count_include_pad,
        module.divisor_override,
    )


def _fractional_max_pool(pool: Callable[..., Any], module: Any, input: Tensor) -> Any:
    return pool(
        input,
        module.kernel_size,
        module.output_size,
        module.output_ratio,
        module.return_indices,
        _random_samples=module._random_samples,
    )


def _lp_pool(pool: Callable[..., Tensor], module: Any, input: Tensor) -> Tensor:
    norm_type = float(module.norm_type)
    return pool(input, norm_type, module.kernel_size, module.stride, module.ceil_mode)


class _MaxPoolNd(Module):
    __constants__: list[str] = [
        "kernel_size",
        "stride",
        "padding",
        "dilation",
        "return_indices",
        "ceil_mode",
    ]

    def __init__(
        self,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] | None = None,
        padding: int | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride: int | tuple[int, ...] = stride if stride is not None else kernel_size
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def extra_repr(self) -> str:
        return _options(self, "kernel_size", "stride", "padding", "dilation", "ceil_mode")


class MaxPool1d(_MaxPoolNd):
    """The maximum of each window of (N, C, L).

    Args:
        kernel_size: size of the window.
        stride: step between windows; None is `kernel_size`.
        padding: minus infinity on both sides.
        dilation: step between the elements of a window.
        return_indices: also give where the maxima were, for MaxUnpool.
        ceil_mode: allow a last window that is not whole.
    """

    def forward(self, input: Tensor) -> Any:
        return _max_pool(F.max_pool1d, self, input)


class MaxPool2d(_MaxPoolNd):
    """The maximum of each window of (N, C, H, W). See `MaxPool1d`."""

    def forward(self, input: Tensor) -> Any:
        return _max_pool(F.max_pool2d, self, input)


class MaxPool3d(_MaxPoolNd):
    """The maximum of each window of (N, C, D, H, W). See `MaxPool1d`."""

    def forward(self, input: Tensor) -> Any:
        return _max_pool(F.max_pool3d, self, input)


class _MaxUnpoolNd(Module):
    def __init__(
        self,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
    ) -> None:
        super().__init__()
        self.kernel_size: Any = self._ntuple(kernel_size)
        self.stride: Any = self._ntuple(stride if stride is not None else kernel_size)
        self.padding: Any = self._ntuple(padding)

    def extra_repr(self) -> str:
        return _options(self, "kernel_size", "stride", "padding")


class MaxUnpool1d(_MaxUnpoolNd):
    """Puts maxima back where MaxPool1d found them, zeros elsewhere."""

    _ntuple = staticmethod(_single)

    def forward(
        self, input: Tensor, indices: Tensor, output_size: int | Sequence[int] | None = None
    ) -> Tensor:
        return _max_unpool(F.max_unpool1d, self, input, indices, output_size)


class MaxUnpool2d(_MaxUnpoolNd):
    """Puts maxima back where MaxPool2d found them, zeros elsewhere."""

    _ntuple = staticmethod(_pair)

    def forward(
        self, input: Tensor, indices: Tensor, output_size: int | Sequence[int] | None = None
    ) -> Tensor:
        return _max_unpool(F.max_unpool2d, self, input, indices, output_size)


class MaxUnpool3d(_MaxUnpoolNd):
    """Puts maxima back where MaxPool3d found them, zeros elsewhere."""

    _ntuple = staticmethod(_triple)

    def forward(
        self, input: Tensor, indices: Tensor, output_size: int | Sequence[int] | None = None
    ) -> Tensor:
        return _max_unpool(F.max_unpool3d, self, input, indices, output_size)


class _AvgPoolNd(Module):
    __constants__: list[str] = [
        "kernel_size",
        "stride",
        "padding",
        "ceil_mode",
        "count_include_pad",
    ]

    def extra_repr(self) -> str:
        return _options(self, "kernel_size", "stride", "padding")


class AvgPool1d(_AvgPoolNd):
    """The average of each window of (N, C, L).

    Args:
        kernel_size, stride, padding, ceil_mode: as in `MaxPool1d`, with zeros as padding.
        count_include_pad: whether the padding counts in the average.
    """

    def __init__(
        self,
        kernel_size: int | tuple[int],
        stride: int | tuple[int] | None = None,
        padding: int | tuple[int] = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size: tuple[Any, ...] = _single(kernel_size)
        self.stride: tuple[Any, ...] = _single(stride if stride is not None else kernel_size)
        self.padding: tuple[Any, ...] = _single(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )


class _AvgPoolWithDivisor(_AvgPoolNd):
    __constants__: list[str] = [*_AvgPoolNd.__constants__, "divisor_override"]

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: Any = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride: int | Sequence[int] | int = stride if stride is not None else kernel_size
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override


class AvgPool2d(_AvgPoolWithDivisor):
    """The average of each window of (N, C, H, W); `divisor_override` replaces its size."""

    def forward(self, input: Tensor) -> Tensor:
        return _avg_pool(F.avg_pool2d, self, input)


class AvgPool3d(_AvgPoolWithDivisor):
    """The average of each window of (N, C, D, H, W). See `AvgPool2d`."""

    def forward(self, input: Tensor) -> Tensor:
        return _avg_pool(F.avg_pool3d, self, input)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for name, default in (("padding", 0), ("ceil_mode", False), ("count_include_pad", True)):
            self.__dict__.setdefault(name, default)


class _FractionalMaxPoolNd(Module):
    __constants__: list[str] = ["kernel_size", "return_indices", "output_size", "output_ratio"]

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        output_size: int | Sequence[int] | None = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Any = None,
    ) -> None:
        super().__init__()
        ntuple, name = self._ntuple, type(self).__name__
        self.kernel_size: Any = ntuple(kernel_size)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size: Any = ntuple(output_size) if output_size is not None else None
        self.output_ratio: Any = ntuple(output_ratio) if output_ratio is not None else None
        if (output_size is None) == (output_ratio is None):
            raise ValueError(f"{name}: give one of output_size and output_ratio")
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            raise ValueError(f"{name}: output_ratio must be between 0 and 1 but got {output_ratio}")


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """The maxima of windows at random steps, for outputs that are not a whole fraction.

    Args:
        kernel_size: size of the windows.
        output_size: size of the output; or
        output_ratio: its size as a share of the input's.

    Graham, "Fractional Max-Pooling", 2014.
    """

    _ntuple = staticmethod(_pair)

    def forward(self, input: Tensor) -> Any:
        return _fractional_max_pool(F.fractional_max_pool2d, self, input)


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """Fractional maximum pooling of (N, C, D, H, W). See `FractionalMaxPool2d`."""

    _ntuple = staticmethod(_triple)

    def forward(self, input: Tensor) -> Any:
        return _fractional_max_pool(F.fractional_max_pool3d, self, input)


class _LPPoolNd(Module):
    __constants__: list[str] = ["norm_type", "kernel_size", "stride", "ceil_mode"]

    def __init__(
        self,
        norm_type: float,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] | None = None,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def extra_repr(self) -> str:
        return _options(self, "norm_type", "kernel_size", "stride", "ceil_mode")


class LPPool1d(_LPPoolNd):
    """(sum x^p)^(1/p) of each window of (N, C, L), p being `norm_type`."""

    def forward(self, input: Tensor) -> Tensor:
        return _lp_pool(F.lp_pool1d, self, input)


class LPPool2d(_LPPoolNd):
    """(sum x^p)^(1/p) of each window of (N, C, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        return _lp_pool(F.lp_pool2d, self, input)


class LPPool3d(_LPPoolNd):
    """(sum x^p)^(1/p) of each window of (N, C, D, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        return _lp_pool(F.lp_pool3d, self, input)


class _AdaptiveMaxPoolNd(Module):
    __constants__: list[str] = ["output_size", "return_indices"]

    def __init__(
        self, output_size: int | tuple[int | None, ...] | None, return_indices: bool = False
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Maxima over as many equal windows as `output_size` asks for, of (N, C, L)."""

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Maxima over a grid of windows of (N, C, H, W); None in `output_size` keeps that size."""

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Maxima over a grid of windows of (N, C, D, H, W)."""

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)


class _AdaptiveAvgPoolNd(Module):
    __constants__: list[str] = ["output_size"]

    def __init__(self, output_size: int | tuple[int | None, ...] | None) -> None:
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Averages over as many equal windows as `output_size` asks for, of (N, C, L)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Averages over a grid of windows of (N, C, H, W); None in `output_size` keeps that size."""

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Averages over a grid of windows of (N, C, D, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool3d(input, self.output_size)
