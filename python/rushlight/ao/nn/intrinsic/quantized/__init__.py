"""Quantized layers with a ReLU."""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight._absent_dtypes import qint8
from rushlight._module_paths import add_modules as _add_modules
from rushlight._quantized._tensor import dequantize
from rushlight.ao.nn import quantized as _quantized
from rushlight.nn import functional as F
from rushlight.nn.modules.module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self


class LinearReLU(_quantized.Linear):
    """A quantized `Linear` and a ReLU."""

    def _get_name(self):
        return "QuantizedLinearReLU"

    def forward(self, x: Tensor) -> Tensor:
        _quantized._need_quantized(self, x)
        return rushlight.quantize_per_tensor(
            F.relu(self._product(x)), self.scale, self.zero_point, x.dtype
        )


class ConvReLU1d(_quantized.Conv1d):
    """A quantized `Conv1d` and a ReLU."""

    _relu = True


class ConvReLU2d(_quantized.Conv2d):
    """A quantized `Conv2d` and a ReLU."""

    _relu = True


class ConvReLU3d(_quantized.Conv3d):
    """A quantized `Conv3d` and a ReLU."""

    _relu = True


class BNReLU2d(_quantized.BatchNorm2d):
    """A quantized `BatchNorm2d` and a ReLU."""

    _relu = True


class BNReLU3d(_quantized.BatchNorm3d):
    """A quantized `BatchNorm3d` and a ReLU."""

    _relu = True


class LinearLeakyReLU(_quantized.Linear):
    """A quantized `Linear` and a leaky ReLU.

    Args:
        in_features, out_features, bias: as of `nn.Linear`.
        negative_slope: as of `nn.LeakyReLU`.
        dtype: `qint8`.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        negative_slope: float,
        bias: bool = True,
        dtype: Any = qint8,
    ) -> None:
        super().__init__(in_features, out_features, bias, dtype)
        self.negative_slope = negative_slope

    @classmethod
    def _more_options(cls, mod):
        return {"negative_slope": mod[1].negative_slope}

    @classmethod
    def from_reference(  # type: ignore[override]
        cls, ref_mod: Module, output_scale: float, output_zero_point: int
    ) -> Self:
        """Return the layer with the quantized weight of a pair of a reference layer and a ReLU."""
        linear, relu = ref_mod[0], ref_mod[1]
        layer = cls(linear.in_features, linear.out_features, relu.negative_slope)
        layer.set_weight_bias(linear.get_quantized_weight(), linear.bias)
        layer._set_result(output_scale, output_zero_point)
        return layer

    def _get_name(self):
        return "QuantizedLinearLeakyReLU"

    def forward(self, x: Tensor) -> Tensor:
        _quantized._need_quantized(self, x)
        result = F.leaky_relu(self._product(x), self.negative_slope)
        return rushlight.quantize_per_tensor(result, self.scale, self.zero_point, x.dtype)


class LinearTanh(_quantized.Linear):
    """A quantized `Linear` and a tanh."""

    def _get_name(self):
        return "QuantizedLinearTanh"

    def forward(self, x: Tensor) -> Tensor:
        _quantized._need_quantized(self, x)
        result = self._product(x).tanh()
        return rushlight.quantize_per_tensor(result, self.scale, self.zero_point, x.dtype)


class ConvAdd2d(_quantized.Conv2d):
    """A quantized `Conv2d`, whose result another quantized tensor is added to."""

    def forward(self, input: Tensor, extra_input: Tensor) -> Tensor:  # type: ignore[override]
        _quantized._need_quantized(self, input)
        _quantized._need_quantized(self, extra_input)
        return self._finish(self._sum(input) + dequantize(extra_input), input)


class ConvAddReLU2d(ConvAdd2d):
    """A quantized `Conv2d`, whose result another quantized tensor is added to, and a ReLU."""

    _relu = True


def __getattr__(name: str) -> Any:
    if name == "dynamic":
        import importlib

        return importlib.import_module("rushlight.ao.nn.intrinsic.quantized.dynamic")
    raise AttributeError(f"module 'rushlight.ao.nn.intrinsic.quantized' has no attribute {name!r}")


__all__ = [
    "BNReLU2d", "BNReLU3d", "ConvAdd2d", "ConvAddReLU2d", "ConvReLU1d", "ConvReLU2d", "ConvReLU3d",
    "LinearLeakyReLU", "LinearReLU", "LinearTanh",
]  # fmt: skip

_add_modules(
    __name__,
    {
        "modules": "*",
        "modules.bn_relu": "BNReLU2d BNReLU3d",
        "modules.conv_add": "ConvAdd2d ConvAddReLU2d",
        "modules.conv_relu": "ConvReLU1d ConvReLU2d ConvReLU3d",
        "modules.linear_relu": "LinearReLU LinearLeakyReLU LinearTanh",
    },
)
