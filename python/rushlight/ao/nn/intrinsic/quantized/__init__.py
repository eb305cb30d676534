"""Quantized layers with a ReLU."""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight.ao.nn import quantized as _quantized
from rushlight.nn import functional as F


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


__all__ = ["ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "LinearReLU"]
