"""Convolutions and transposed convolutions over 1, 2 and 3 spatial dims."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight._ignored import older_name
from rushlight.nn import functional as F, init
from rushlight.nn.modules._printing import _changed_options, _options
from rushlight.nn.modules.lazy import LazyModuleMixin
from rushlight.nn.modules.module import Module
from rushlight.nn.modules.utils import _pair, _reverse_repeat_tuple, _single, _triple
from rushlight.nn.parameter import Parameter, UninitializedParameter
from rushlight.types import Device, _dtype

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
]

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """What all convolutions share: sizes, parameters, their start values, printing."""

    __constants__: list[str] = [
        "stride",
        "padding",
        "dilation",
        "groups",
        "padding_mode",
        "output_padding",
        "in_channels",
        "out_channels",
        "kernel_size",
    ]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: str | tuple[int, ...],
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Device = None,
        dtype: _dtype | None = None,
    ) -> None:
        super().__init__()
        if transposed and padding_mode != "zeros":
            raise ValueError(f'{type(self).__name__}: padding_mode must be "zeros"')
        _check_sizes(in_channels, out_channels, groups, padding, stride, padding_mode)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = self._explicit_padding()
        factory = {"device": device, "dtype": dtype}
        channels = (
            (in_channels, out_channels // groups)
            if transposed
            else (out_channels, in_channels // groups)
        )
        self.weight: Parameter = Parameter(rushlight.empty((*channels, *kernel_size), **factory))
        bias = Parameter(rushlight.empty(out_channels, **factory)) if bias else None
        self.register_parameter("bias", bias)
        self.reset_parameters()

    def _explicit_padding(self):
        """The padding as `F.pad` takes it: last dim first, both sides."""
        if not isinstance(self.padding, str):
            return _reverse_repeat_tuple(self.padding, 2)
        sides = [0, 0] * len(self.kernel_size)
        if self.padding == "same":
            for i, (dilation, size) in enumerate(zip(self.dilation, self.kernel_size)):
                total = dilation * (size - 1)
                place = 2 * (len(self.kernel_size) - 1 - i)
                sides[place] = total // 2
                sides[place + 1] = total - total // 2
        return sides

    def reset_parameters(self) -> None:
        # a=sqrt(5) makes the Kaiming bound 1/sqrt(fan_in).
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> Any:
        zeros, ones = (0,) * len(self.kernel_size), (1,) * len(self.kernel_size)
        sizes = _options(self, "kernel_size", "stride")
        parts = [f"{self.in_channels}, {self.out_channels}", sizes]
        parts += _changed_options(
            self, padding=zeros, dilation=ones, output_padding=zeros, groups=1
        )
        if self.bias is None:
            parts.append("bias=False")
        parts += _changed_options(self, padding_mode="zeros")
        return ", ".join(parts)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if not hasattr(self, "padding_mode"):
            self.padding_mode: str = "zeros"


def _check_sizes(in_channels, out_channels, groups, padding, stride, padding_mode):
    if groups <= 0:
        raise ValueError(f"groups must be a positive integer, but got {groups}")
    for name, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
        if channels % groups:
            raise ValueError(f"{name} must be divisible by groups, but got {channels} and {groups}")
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ValueError(f"Invalid padding string {padding!r}: not 'same' or 'valid'")
        if padding == "same" and any(s != 1 for s in stride):
            raise ValueError(f"padding='same' is not supported for strided convolutions: {stride=}")
    if padding_mode not in _PADDING_MODES:
        raise ValueError(f"padding_mode must be one of {_PADDING_MODES}, but got {padding_mode!r}")


# Forward methods read nothing but what an instance holds, as they may be called for another object
# that holds the same.


def _convolve_by(name):
    def _conv_forward(self, input, weight, bias):
        padding = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = 0
        return getattr(F, name)(
            input, weight, bias, self.stride, padding, self.dilation, self.groups
        )

    return _conv_forward


class _PlainConv(_ConvNd):
    """A convolution; its subclasses say over how many spatial dims, and by which function."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | str | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Device = None,
        dtype: _dtype | None = None,
    ) -> None:
        ntuple = self._ntuple
        super().__init__(
            in_channels,
            out_channels,
            ntuple(kernel_size),
            ntuple(stride),
            padding if isinstance(padding, str) else ntuple(padding),
            ntuple(dilation),
            False,
            ntuple(0),
            groups,
            bias,
            padding_mode,
            device=device,
            dtype=dtype,
        )

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_PlainConv):
    """Convolution of (N, C_in, L) with `out_channels` kernels.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size, stride, padding, dilation: one int; padding also "same" or "valid".
        groups: blocks of channels that do not see each other.
        bias: whether to add a learned number per output channel.
        padding_mode: "zeros", "reflect", "replicate" or "circular".

    Shape:
        `weight` is (out_channels, in_channels / groups, kernel_size). Weight and bias start
        uniform in +-1/sqrt(fan_in).
    """

    _ntuple = staticmethod(_single)
    _conv_forward = _convolve_by("conv1d")


class Conv2d(_PlainConv):
    """Convolution of (N, C_in, H, W); sizes are one int or (height, width). See `Conv1d`."""

    _ntuple = staticmethod(_pair)
    _conv_forward = _convolve_by("conv2d")


class Conv3d(_PlainConv):
    """Convolution of (N, C_in, D, H, W); sizes are one int or (depth, height, width)."""

    _ntuple = staticmethod(_triple)
    _conv_forward = _convolve_by("conv3d")


class _ConvTransposeNd(_ConvNd):
    """A transposed convolution: the gradient of a convolution with respect to its input."""

    def _output_padding(
        self, input, output_size, stride, padding, kernel_size, num_spatial_dims, dilation=None
    ):
        """The output padding that makes the output `output_size`."""
        if output_size is None:
            return _single(self.output_padding)
        n = num_spatial_dims
        first = input.dim() - n  # one batch and one channel dim, or the channel dim alone
        if len(output_size) == first + n:
            output_size = output_size[first:]
        if len(output_size) != n:
            raise ValueError(
                f"output_size: expected {n} or {first + n} sizes for a {input.dim()}D input "
                f"but got {len(output_size)}"
            )
        dilation = dilation or (1,) * n
        smallest = [
            (input.size(first + d) - 1) * stride[d]
            - 2 * padding[d]
            + dilation[d] * (kernel_size[d] - 1)
            + 1
            for d in range(n)
        ]
        largest = [size + stride[d] - 1 for d, size in enumerate(smallest)]
        if any(not low <= size <= high for low, size, high in zip(smallest, output_size, largest)):
            raise ValueError(
                f"output_size: {tuple(output_size)} is outside {smallest} to {largest}, what "
                f"an input of size {tuple(input.shape[first:])} can give"
            )
        return [size - low for size, low in zip(output_size, smallest)]


class _PlainConvTranspose(_ConvTransposeNd):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        output_padding: int | Sequence[int] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | Sequence[int] = 1,
        padding_mode: str = "zeros",
        device: Device = None,
        dtype: _dtype | None = None,
    ) -> None:
        ntuple = self._ntuple
        super().__init__(
            in_channels,
            out_channels,
            ntuple(kernel_size),
            ntuple(stride),
            ntuple(padding),
            ntuple(dilation),
            True,
            ntuple(output_padding),
            groups,
            bias,
            padding_mode,
            device=device,
            dtype=dtype,
        )

    def forward(self, input: Tensor, output_size: int | Sequence[int] | None = None) -> Tensor:
        if self.padding_mode != "zeros":
            raise ValueError(f'{type(self).__name__}: padding_mode must be "zeros"')
        dims = len(self.kernel_size)
        output_padding = self._output_padding(
            input,
            output_size,
            self.stride,
            self.padding,
            self.kernel_size,
            dims,
            self.dilation,
        )
        convolve = getattr(F, f"conv_transpose{dims}d")
        return convolve(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            output_padding,
            self.groups,
            self.dilation,
        )


class _ConvTransposeMixin(_ConvTransposeNd):
    """An older name of `_ConvTransposeNd`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        older_name("_ConvTransposeMixin", "_ConvTransposeNd")
        super().__init__(*args, **kwargs)


class ConvTranspose1d(_PlainConvTranspose):
    """Transposed convolution of (N, C_in, L).

    Args:
        output_padding: added to one side of the output, to choose among the sizes that the
            convolution would map to the same one; forward's `output_size` does it by size.

    Shape:
        `weight` is (in_channels, out_channels / groups, kernel_size). The output has length
        (L - 1) stride - 2 padding + dilation (kernel_size - 1) + output_padding + 1.
    """

    _ntuple = staticmethod(_single)


class ConvTranspose2d(_PlainConvTranspose):
    """Transposed convolution of (N, C_in, H, W). See `ConvTranspose1d`."""

    _ntuple = staticmethod(_pair)


class ConvTranspose3d(_PlainConvTranspose):
    """Transposed convolution of (N, C_in, D, H, W). See `ConvTranspose1d`."""

    _ntuple = staticmethod(_triple)


class _LazyConvXdMixin(LazyModuleMixin):
    """Makes a convolution take `in_channels` from its first input."""

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        if not self.has_uninitialized_params():
            return
        self.in_channels: Any = self._get_in_channels(input)
        if self.in_channels % self.groups:
            raise ValueError(
                f"in_channels: {self.in_channels} is not divisible by groups={self.groups}"
            )
        per_group = self.in_channels // self.groups, self.out_channels // self.groups
        channels = (
            (self.in_channels, per_group[1])
            if self.transposed
            else (self.out_channels, per_group[0])
        )
        self.weight.materialize((*channels, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()

    def _get_in_channels(self, input):
        n = self._get_num_spatial_dims()
        if input.dim() not in (n + 1, n + 2):
            raise RuntimeError(
                f"{type(self).__name__}: expected a {n + 1}D (unbatched) or {n + 2}D (batched) "
                f"input but got shape {tuple(input.shape)}"
            )
        return input.shape[-n - 1]

    def _get_num_spatial_dims(self):
        return len(self.kernel_size)


class _LazyPlainConv(_LazyConvXdMixin):
    def __init__(
        self,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | str | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Device = None,
        dtype: _dtype | None = None,
    ) -> None:
        factory = {"device": device, "dtype": dtype}
        # No channels and no bias for now: nothing is drawn before the sizes are known.
        super().__init__(
            0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, **factory
        )
        _make_lazy(self, out_channels, bias, factory)


class _LazyPlainConvTranspose(_LazyConvXdMixin):
    def __init__(
        self,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        output_padding: int | Sequence[int] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | Sequence[int] = 1,
        padding_mode: str = "zeros",
        device: Device = None,
        dtype: _dtype | None = None,
    ) -> None:
        factory = {"device": device, "dtype": dtype}
        super().__init__(
            0,
            0,
            kernel_size,
            stride,
            padding,
            output_padding,
            groups,
            False,
            dilation,
            padding_mode,
            **factory,
        )
        _make_lazy(self, out_channels, bias, factory)


def _make_lazy(conv, out_channels, bias, factory):
    conv.weight = UninitializedParameter(**factory)
    conv.out_channels = out_channels
    if bias:
        conv.bias = UninitializedParameter(**factory)


class LazyConv1d(_LazyPlainConv, Conv1d):
    """A Conv1d that takes `in_channels` from its first input."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyPlainConv, Conv2d):
    """A Conv2d that takes `in_channels` from its first input."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyPlainConv, Conv3d):
    """A Conv3d that takes `in_channels` from its first input."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyPlainConvTranspose, ConvTranspose1d):
    """A ConvTranspose1d that takes `in_channels` from its first input."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyPlainConvTranspose, ConvTranspose2d):
    """A ConvTranspose2d that takes `in_channels` from its first input."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyPlainConvTranspose, ConvTranspose3d):
    """A ConvTranspose3d that takes `in_channels` from its first input."""

    cls_to_become = ConvTranspose3d
