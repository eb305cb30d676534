"""Dynamically quantized layers with a ReLU."""

from __future__ import annotations

from rushlight._module_paths import add_modules as _add_modules
from rushlight.ao.nn.quantized import dynamic as _dynamic


class LinearReLU(_dynamic.Linear):
    """A dynamically quantized `Linear` and a ReLU."""

    _relu = True

    def _get_name(self):
        return "DynamicQuantizedLinearReLU"


__all__ = ["LinearReLU"]

_add_modules(__name__, {"modules": "*", "modules.linear_relu": "*"})
