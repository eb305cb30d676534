"""Layers whose weights are rounded to quantized steps while they are trained."""

from __future__ import annotations

from rushlight import Tensor
from rushlight.nn import functional as F
from rushlight.nn.modules import conv as _conv, linear as _linear
from rushlight.nn.modules.module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

_CONV_OPTIONS = (
    "in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups",
)  # fmt: skip


def conv_options(layer: Module) -> dict[str, Any]:
    """Return the arguments with which a convolution was made."""
    options = {name: getattr(layer, name) for name in _CONV_OPTIONS}
    return {**options, "bias": layer.bias is not None, "padding_mode": layer.padding_mode}


def check_source(kind: type[Module], layer: Module) -> Any:
    """Return the qconfig of a layer that `kind.from_float` takes."""
    if type(layer) is not kind._FLOAT_MODULE:
        raise AssertionError(
            f"{kind.__name__}.from_float: expected {kind._FLOAT_MODULE.__name__}, got "
            f"{type(layer).__name__}"
        )
    if not getattr(layer, "qconfig", None):
        raise AssertionError(f"{kind.__name__}.from_float: the layer has no qconfig")
    return layer.qconfig


def check_qconfig(kind: type[Module], qconfig: Any) -> None:
    """Raise an error where a layer is made without a qconfig."""
    if not qconfig:
        raise AssertionError(f"{kind.__name__}: qconfig must be given")


class Linear(_linear.Linear):
    """`nn.Linear` whose weight passes `qconfig.weight()`."""

    _FLOAT_MODULE = _linear.Linear

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        qconfig: Any = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        check_qconfig(type(self), qconfig)
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        self.qconfig = qconfig
        self.weight_fake_quant: Any = qconfig.weight()

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight_fake_quant(self.weight), self.bias)

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return such a layer that shares the parameters of an `nn.Linear` with a qconfig."""
        qconfig = check_source(cls, mod)
        mod = mod if isinstance(mod, _linear.Linear) else mod[0]
        layer = cls(mod.in_features, mod.out_features, mod.bias is not None, qconfig)
        layer.weight, layer.bias = mod.weight, mod.bias
        return layer

    def to_float(self) -> Module:
        """Return an `nn.Linear` with the same parameters."""
        layer = _linear.Linear(self.in_features, self.out_features, self.bias is not None)
        layer.weight, layer.bias = self.weight, self.bias
        return layer.train(self.training)


class _QatConv:
    """What convolutions with a fake-quantized weight have in common."""

    def __init__(self, *args: Any, qconfig: Any = None, **kwargs: Any) -> None:
        check_qconfig(type(self), qconfig)
        super().__init__(*args, **kwargs)
        self.qconfig = qconfig
        self.weight_fake_quant: Any = qconfig.weight()

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight_fake_quant(self.weight), self.bias)

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return such a layer that shares the parameters of a convolution with a qconfig."""
        qconfig = check_source(cls, mod)
        mod = mod if isinstance(mod, _conv._ConvNd) else mod[0]
        layer = cls(**conv_options(mod), qconfig=qconfig)
        layer.weight, layer.bias = mod.weight, mod.bias
        return layer

    def to_float(self) -> Module:
        """Return a convolution with the same parameters."""
        kind = {1: _conv.Conv1d, 2: _conv.Conv2d, 3: _conv.Conv3d}[self.weight.dim() - 2]
        layer = kind(**conv_options(self))
        layer.weight, layer.bias = self.weight, self.bias
        return layer.train(self.training)


class Conv1d(_QatConv, _conv.Conv1d):
    """`nn.Conv1d` whose weight passes `qconfig.weight()`."""

    _FLOAT_MODULE = _conv.Conv1d


class Conv2d(_QatConv, _conv.Conv2d):
    """`nn.Conv2d` whose weight passes `qconfig.weight()`."""

    _FLOAT_MODULE = _conv.Conv2d


class Conv3d(_QatConv, _conv.Conv3d):
    """`nn.Conv3d` whose weight passes `qconfig.weight()`."""

    _FLOAT_MODULE = _conv.Conv3d


__all__ = ["Conv1d", "Conv2d", "Conv3d", "Linear"]
