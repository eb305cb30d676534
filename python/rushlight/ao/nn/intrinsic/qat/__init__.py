"""Fused layers whose weights are rounded to quantized steps while they are trained."""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight._module_paths import add_modules as _add_modules
from rushlight.ao.nn import intrinsic as _intrinsic, qat as _qat
from rushlight.nn import functional as F, init
from rushlight.nn.modules import (
    activation as _activation,
    batchnorm as _norm,
    conv as _conv,
    linear as _linear,
)
from rushlight.nn.modules.module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self


_PLAIN = ("nn.modules.conv", "nn.modules.linear")


class _WithReLU:
    """What trained layers with a ReLU have in common."""

    def to_float(self) -> Module:
        """Return the layer and a ReLU, with the same parameters."""
        layer = super().to_float()
        name = type(layer).__name__
        kind = "LinearReLU" if name == "Linear" else name.replace("Conv", "ConvReLU")
        return getattr(_intrinsic, kind)(layer, _activation.ReLU()).train(self.training)


class LinearReLU(_WithReLU, _qat.Linear):
    """A fake-quantized `Linear` and a ReLU."""

    _FLOAT_MODULE = _intrinsic.LinearReLU

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(super().forward(input))


class ConvReLU1d(_WithReLU, _qat.Conv1d):
    """A fake-quantized `Conv1d` and a ReLU."""

    _FLOAT_MODULE = _intrinsic.ConvReLU1d

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(super().forward(input))


class ConvReLU2d(_WithReLU, _qat.Conv2d):
    """A fake-quantized `Conv2d` and a ReLU."""

    _FLOAT_MODULE = _intrinsic.ConvReLU2d

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(super().forward(input))


class ConvReLU3d(_WithReLU, _qat.Conv3d):
    """A fake-quantized `Conv3d` and a ReLU."""

    _FLOAT_MODULE = _intrinsic.ConvReLU3d

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(super().forward(input))


class _ConvBn:
    """A convolution, its weight scaled as the norm does and fake-quantized, and a batch norm.

    The result is divided by that scale before the norm, so that the norm's statistics are those of
    the plain convolution (Krishnamoorthi, "Quantizing deep convolutional networks for efficient
    inference", 2018).
    """

    _norm_class: type[Module]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool | None = None,
        padding_mode: str = "zeros",
        eps: float = 1e-5,
        momentum: float = 0.1,
        freeze_bn: bool = False,
        qconfig: Any = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bool(bias),
            padding_mode,
        )  # fmt: skip
        self._add_norm(eps, momentum, freeze_bn, qconfig)

    def _add_norm(self, eps, momentum, freeze_bn, qconfig):
        _qat.check_qconfig(type(self), qconfig)
        self.qconfig: Any = qconfig
        self.bn: Any = self._norm_class(self.out_channels, eps, momentum)
        self.weight_fake_quant: Any = qconfig.weight()
        self.freeze_bn: bool = freeze_bn
        self.bn.train(not freeze_bn)

    def update_bn_stats(self) -> Self:
        """Normalize by the batch and update the running statistics."""
        self.freeze_bn = False
        self.bn.training = True
        return self

    def freeze_bn_stats(self) -> Self:
        """Normalize by the running statistics and keep them."""
        self.freeze_bn = True
        self.bn.training = False
        return self

    def reset_running_stats(self) -> None:
        """Forget the running statistics."""
        self.bn.reset_running_stats()

    def reset_bn_parameters(self) -> None:
        """Draw the norm's weight anew, and the bias of a convolution; forget the statistics."""
        self.bn.reset_running_stats()
        init.uniform_(self.bn.weight)
        init.zeros_(self.bn.bias)
        if self.bias is not None and isinstance(self, _conv._ConvNd):
            fan_in = self.weight[0].numel()
            init.uniform_(self.bias, -(fan_in**-0.5), fan_in**-0.5)

    def train(self, mode: bool = True) -> Self:
        """Set the mode; of a frozen norm it stays."""
        self.training = mode
        if not self.freeze_bn:
            for child in self.children():
                child.train(mode)
        return self

    def forward(self, input: Tensor) -> Tensor:
        factor = self.bn.weight / rushlight.sqrt(self.bn.running_var + self.bn.eps)
        by_row = [-1] + [1] * (self.weight.dim() - 1)
        by_channel = [1, -1] + [1] * (self.weight.dim() - 2)
        weight = self.weight_fake_quant(self.weight * factor.reshape(by_row))
        zeros = rushlight.zeros(self.out_channels, dtype=input.dtype, device=input.device)
        result = self._conv_forward(input, weight, zeros) / factor.reshape(by_channel)
        if self.bias is not None:
            result = result + self.bias.reshape(by_channel)
        return self.bn(result)

    _options_of = staticmethod(_qat.conv_options)

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return such a layer that shares the parameters of a fused pair with a qconfig."""
        qconfig = _qat.check_source(cls, mod)
        conv, norm = mod[0], mod[1]
        layer = cls(**cls._options_of(conv), eps=norm.eps, momentum=norm.momentum, qconfig=qconfig)
        _qat.share_parameters(conv, layer)
        layer.bn.weight, layer.bn.bias = norm.weight, norm.bias
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            setattr(layer.bn, name, getattr(norm, name))
        return layer

    def to_float(self) -> Module:
        """Return a layer that includes the norm."""
        conv = next(kind for kind in type(self).__mro__ if kind.__module__.endswith(_PLAIN))
        layer = conv(**self._options_of(self))
        weight, bias = self.fused_parameters()
        layer.weight, layer.bias = weight, bias
        return layer.train(self.training)

    def fused_parameters(self) -> tuple[Tensor, Tensor]:
        """Return the weight and bias of a convolution that includes the norm."""
        from rushlight.nn.utils.fusion import fuse_conv_bn_weights

        norm = self.bn
        return fuse_conv_bn_weights(
            self.weight, self.bias, norm.running_mean, norm.running_var, norm.eps, norm.weight,
            norm.bias,
        )  # fmt: skip


class ConvBn1d(_ConvBn, _conv.Conv1d):
    """A fake-quantized `Conv1d` and a batch norm."""

    _FLOAT_MODULE = _intrinsic.ConvBn1d
    _norm_class = _norm.BatchNorm1d


class ConvBn2d(_ConvBn, _conv.Conv2d):
    """A fake-quantized `Conv2d` and a batch norm."""

    _FLOAT_MODULE = _intrinsic.ConvBn2d
    _norm_class = _norm.BatchNorm2d


class ConvBn3d(_ConvBn, _conv.Conv3d):
    """A fake-quantized `Conv3d` and a batch norm."""

    _FLOAT_MODULE = _intrinsic.ConvBn3d
    _norm_class = _norm.BatchNorm3d


class ConvBnReLU1d(_WithReLU, ConvBn1d):
    """A fake-quantized `Conv1d`, a batch norm and a ReLU."""

    _FLOAT_MODULE = _intrinsic.ConvBnReLU1d

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(super().forward(input))


class ConvBnReLU2d(_WithReLU, ConvBn2d):
    """A fake-quantized `Conv2d`, a batch norm and a ReLU."""

    _FLOAT_MODULE = _intrinsic.ConvBnReLU2d

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(super().forward(input))


class ConvBnReLU3d(_WithReLU, ConvBn3d):
    """A fake-quantized `Conv3d`, a batch norm and a ReLU."""

    _FLOAT_MODULE = _intrinsic.ConvBnReLU3d

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(super().forward(input))


class LinearBn1d(_ConvBn, _linear.Linear):
    """A fake-quantized `Linear` and a batch norm."""

    _FLOAT_MODULE = _intrinsic.LinearBn1d
    _norm_class = _norm.BatchNorm1d

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        eps: float = 1e-5,
        momentum: float = 0.1,
        freeze_bn: bool = False,
        qconfig: Any = None,
    ) -> None:
        _linear.Linear.__init__(self, in_features, out_features, bias)
        self._add_norm(eps, momentum, freeze_bn, qconfig)

    @property
    def out_channels(self) -> int:
        """The features that the norm has."""
        return self.out_features

    def _conv_forward(self, input, weight, bias):
        return F.linear(input, weight, bias)

    @staticmethod
    def _options_of(layer):
        return {
            "in_features": layer.in_features, "out_features": layer.out_features,
            "bias": layer.bias is not None,
        }  # fmt: skip


def freeze_bn_stats(mod: Module) -> None:
    """Keep the running statistics of a module: `model.apply(freeze_bn_stats)`."""
    if isinstance(mod, _ConvBn):
        mod.freeze_bn_stats()


def update_bn_stats(mod: Module) -> None:
    """Update the running statistics of a module: `model.apply(update_bn_stats)`."""
    if isinstance(mod, _ConvBn):
        mod.update_bn_stats()


__all__ = [
    "ConvBn1d", "ConvBn2d", "ConvBn3d", "ConvBnReLU1d", "ConvBnReLU2d", "ConvBnReLU3d",
    "ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "LinearBn1d", "LinearReLU", "freeze_bn_stats",
    "update_bn_stats",
]  # fmt: skip

_add_modules(
    __name__,
    {
        "modules": "*",
        "modules.conv_fused": (
            "ConvBn1d ConvBnReLU1d ConvReLU1d ConvBn2d ConvBnReLU2d ConvReLU2d ConvBn3d "
            "ConvBnReLU3d ConvReLU3d update_bn_stats freeze_bn_stats"
        ),
        "modules.linear_fused": "LinearBn1d",
        "modules.linear_relu": "LinearReLU",
    },
)
