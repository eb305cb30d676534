"""The scale and zero point of a weight in float32, and the weight rounded by them."""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight._absent_dtypes import qint8, quint8
from rushlight._quantized._tensor import (
    per_channel_affine,
    per_channel_affine_float_qparams,
    per_tensor_affine,
)
from rushlight.nn.modules.module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self

_SCHEMES = (None, per_tensor_affine, per_channel_affine, per_channel_affine_float_qparams)
_USUAL = {"qscheme": per_tensor_affine, "dtype": quint8, "scale": 1.0, "zero_point": 0}


def set_qparams(module: Module, name: str, qparams: dict[str, Any], device: Any) -> None:
    """Give a module the attributes with which a weight of that name is quantized."""
    scheme, dtype = qparams["qscheme"], qparams["dtype"]
    if scheme not in _SCHEMES:
        raise AssertionError(f"reference layer: qscheme {scheme} is not supported")
    setattr(module, f"{name}_qscheme", scheme)
    setattr(module, f"{name}_dtype", dtype)
    axis = 0
    if scheme is not None:
        zero_dtype = rushlight.int32
        if scheme is per_channel_affine_float_qparams:
            zero_dtype = rushlight.float32
        for key, kind in (("scale", rushlight.float32), ("zero_point", zero_dtype)):
            value = qparams[key]
            given = value.detach().clone() if isinstance(value, Tensor) else value
            value = rushlight.as_tensor(given, device=device).to(kind)
            module.register_buffer(f"{name}_{key}", value)
        axis = qparams.get("axis", 0) if scheme is not per_tensor_affine else 0
        module.register_buffer(f"{name}_axis", rushlight.tensor(axis, device=device))
    module.is_decomposed = qparams.get("is_decomposed", False)
    setattr(module, f"{name}_axis_int", axis)
    setattr(module, f"{name}_quant_min", qparams.get("quant_min"))
    setattr(module, f"{name}_quant_max", qparams.get("quant_max"))


def quantized(module: Module, name: str) -> Tensor:
    """Return a weight of a module quantized as its attributes say."""
    weight = getattr(module, name).detach()
    scheme, dtype = getattr(module, f"{name}_qscheme"), getattr(module, f"{name}_dtype")
    if scheme is None or dtype not in (qint8, quint8, rushlight.qint32):
        return weight.to(rushlight.float16) if dtype is rushlight.float16 else weight
    scale, zero = getattr(module, f"{name}_scale"), getattr(module, f"{name}_zero_point")
    if scheme is per_tensor_affine:
        return rushlight.quantize_per_tensor(weight, float(scale), int(zero), dtype)
    axis = getattr(module, f"{name}_axis_int")
    return rushlight.quantize_per_channel(weight, scale, zero, axis, dtype)


class ReferenceQuantizedModule(Module):
    """A layer whose `weight` is rounded to quantized steps."""

    def _init_weight_qparams(self, weight_qparams, device):
        set_qparams(self, "weight", weight_qparams or _USUAL, device)

    def _take_parameters(self, source: Module) -> Self:
        for name in ("weight", "bias"):
            value = getattr(source, name)
            value = None if value is None else rushlight.nn.Parameter(value.detach())
            setattr(self, name, value)
        return self

    def get_weight(self) -> Tensor:
        """Return the numbers that the quantized weight stands for."""
        weight = quantized(self, "weight")
        return weight.dequantize() if weight.is_quantized else weight.to(self.weight.dtype)

    def get_quantized_weight(self) -> Tensor:
        """Return the quantized weight."""
        return quantized(self, "weight")


__all__ = ["ReferenceQuantizedModule"]
