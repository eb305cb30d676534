"""Activations from a quantized tensor to one with a scale and zero point of its own."""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight._absent_dtypes import quint8
from rushlight._ignored import warn_program
from rushlight._quantized._tensor import QuantizedTensor, dequantize
from rushlight.ao.nn.quantizable import MultiheadAttention as _ObservedAttention
from rushlight.ao.nn.quantized import functional as _functional
from rushlight.nn import functional as F
from rushlight.nn.modules import activation as _float
from rushlight.nn.modules.module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self


def observed(layer: Module) -> tuple[float, int]:
    """Return the scale and zero point that the observer of a layer's result chooses."""
    scale, zero_point = layer.activation_post_process.calculate_qparams()
    return float(scale), int(zero_point)


def set_result(layer: Module, scale: float, zero_point: int, factory_kwargs: Any = None) -> None:
    """Give a layer buffers with its result's scale and zero point."""
    options = factory_kwargs or {}
    layer.register_buffer("scale", rushlight.tensor(float(scale), **options))
    layer.register_buffer("zero_point", rushlight.tensor(int(zero_point), **options))


class ReLU6(_float.ReLU):
    """`nn.ReLU6` of a quantized tensor, with its scale and zero point.

    Args:
        inplace: change the tensor itself.
    """

    def forward(self, input: Tensor) -> Tensor:
        result = F.relu6(input)
        return input.copy_(result) if self.inplace else result

    def _get_name(self):
        return "QuantizedReLU6"

    @staticmethod
    def from_float(mod: Module, use_precomputed_fake_quant: bool = False) -> ReLU6:
        """Return what replaces an `nn.ReLU6`."""
        return ReLU6(mod.inplace)


class Hardswish(_float.Hardswish):
    """`nn.Hardswish` of a quantized tensor.

    Args:
        scale, zero_point: how the result is quantized.
    """

    scale: Tensor
    zero_point: Tensor

    def __init__(self, scale: float, zero_point: int, device: Any = None, dtype: Any = None):
        super().__init__()
        set_result(self, scale, zero_point, {"device": device, "dtype": dtype})

    def forward(self, input: Tensor) -> Tensor:
        return _functional.hardswish(input, float(self.scale), int(self.zero_point))

    def _get_name(self):
        return "QuantizedHardswish"

    @staticmethod
    def from_float(mod: Module, use_precomputed_fake_quant: bool = False) -> Hardswish:
        """Return what replaces an observed `nn.Hardswish`."""
        return Hardswish(*observed(mod))

    @classmethod
    def from_reference(cls, mod: Module, scale: float, zero_point: int) -> Self:
        """Return the layer with this scale and zero point."""
        return cls(float(scale), int(zero_point))


class ELU(_float.ELU):
    """`nn.ELU` of a quantized tensor.

    Args:
        scale, zero_point: how the result is quantized.
        alpha: as of `nn.ELU`.
    """

    def __init__(self, scale: float, zero_point: int, alpha: float = 1.0) -> None:
        super().__init__(alpha)
        self.scale = scale
        self.zero_point = zero_point

    def forward(self, input: Tensor) -> Tensor:
        return _functional.elu(input, self.scale, self.zero_point, self.alpha)

    def _get_name(self):
        return "QuantizedELU"

    @staticmethod
    def from_float(mod: Module, use_precomputed_fake_quant: bool = False) -> ELU:
        """Return what replaces an observed `nn.ELU`."""
        return ELU(*observed(mod), mod.alpha)

    @classmethod
    def from_reference(cls, mod: Module, scale: float, zero_point: int) -> Self:
        """Return the layer with this scale and zero point."""
        return cls(float(scale), int(zero_point), mod.alpha)


class LeakyReLU(_float.LeakyReLU):
    """`nn.LeakyReLU` of a quantized tensor.

    Args:
        scale, zero_point: how the result is quantized.
        negative_slope: as of `nn.LeakyReLU`.
    """

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self,
        scale: float,
        zero_point: int,
        negative_slope: float = 0.01,
        inplace: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(negative_slope, inplace)
        set_result(self, scale, zero_point, {"device": device, "dtype": dtype})

    def forward(self, input: Tensor) -> Tensor:
        return _functional.leaky_relu(
            input, self.negative_slope, self.inplace, float(self.scale), int(self.zero_point)
        )

    def _get_name(self):
        return "QuantizedLeakyReLU"

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return what replaces an observed `nn.LeakyReLU`."""
        return cls(*observed(mod), mod.negative_slope, mod.inplace)

    @classmethod
    def from_reference(cls, mod: Module, scale: float, zero_point: int) -> Self:
        """Return the layer with this scale and zero point."""
        return cls(float(scale), int(zero_point), mod.negative_slope, mod.inplace)


class Sigmoid(_float.Sigmoid):
    """`nn.Sigmoid` of a quantized tensor.

    Args:
        output_scale, output_zero_point: how the result is quantized.
    """

    def __init__(self, output_scale: float, output_zero_point: int) -> None:
        super().__init__()
        self.output_scale = output_scale
        self.output_zero_point = output_zero_point

    def forward(self, input: Tensor) -> Tensor:
        result = dequantize(input).sigmoid()
        return rushlight.quantize_per_tensor(
            result, self.output_scale, self.output_zero_point, input.dtype
        )

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return what replaces an observed `nn.Sigmoid`."""
        return cls(*observed(mod))


class Softmax(_float.Softmax):
    """`nn.Softmax` of a quantized tensor.

    Args:
        dim: the dim whose elements sum to 1.
        scale, zero_point: how the result is quantized.
    """

    def __init__(self, dim: int | None = None, scale: float = 1.0, zero_point: int = 0) -> None:
        super().__init__(dim)
        self.scale = scale
        self.zero_point = zero_point

    def forward(self, input: Tensor) -> Tensor:
        numbers = F.softmax(dequantize(input), self.dim, _stacklevel=5)
        return rushlight.quantize_per_tensor(numbers, self.scale, self.zero_point, input.dtype)

    def _get_name(self):
        return "QuantizedSoftmax"

    @staticmethod
    def from_float(mod: Module, use_precomputed_fake_quant: bool = False) -> Softmax:
        """Return what replaces an observed `nn.Softmax`."""
        return Softmax(mod.dim, *observed(mod))

    @classmethod
    def from_reference(cls, mod: Module, scale: float, zero_point: int) -> Self:
        """Return the layer with this scale and zero point."""
        return cls(mod.dim, float(scale), int(zero_point))


class PReLU(Module):
    """`nn.PReLU` of a quantized tensor, with a quantized slope.

    Args:
        output_scale, output_zero_point: how the result is quantized.
        num_parameters: the number of slopes, 1 or one per channel.
    """

    def __init__(
        self, output_scale: float, output_zero_point: int, num_parameters: int = 1
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.scale = output_scale
        self.zero_point = output_zero_point
        slopes = rushlight.randn(num_parameters, dtype=rushlight.float32)
        self.set_weight(rushlight.quantize_per_tensor(slopes, 1.0, 0, quint8))

    def set_weight(self, w: QuantizedTensor) -> None:
        """Take the slopes, quantized per tensor."""
        self.weight = w

    def forward(self, input: Tensor) -> Tensor:
        numbers = F.prelu(dequantize(input), dequantize(self.weight))
        return rushlight.quantize_per_tensor(numbers, self.scale, self.zero_point, input.dtype)

    def _get_name(self):
        return "QuantizedPReLU"

    @classmethod
    def _of_weight(cls, mod, observer, scale, zero_point):
        layer = cls(float(scale), int(zero_point), mod.num_parameters)
        slopes = mod.weight.detach().float()
        observer(slopes)
        if observer.dtype is not quint8:
            warn_program(
                f"quantized PReLU: the weight's observer should have dtype quint8, got "
                f"{observer.dtype}",
            )
        step, zero = observer.calculate_qparams()
        layer.set_weight(rushlight.quantize_per_tensor(slopes, float(step), int(zero), quint8))
        return layer

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return what replaces an observed `nn.PReLU`."""
        return cls._of_weight(mod, mod.qconfig.weight(), *observed(mod))

    @classmethod
    def from_reference(cls, mod: Module, scale: float, zero_point: int) -> Self:
        """Return the layer with this scale and zero point."""
        return cls._of_weight(mod, mod.qconfig.weight(), scale, zero_point)


class MultiheadAttention(_ObservedAttention):
    """What replaces an observed `quantizable.MultiheadAttention`: its parts quantized."""

    _FLOAT_MODULE = _ObservedAttention

    def _get_name(self):
        return "QuantizedMultiheadAttention"

    @classmethod
    def from_float(cls, other: Module) -> Self:
        """Refused: observe a `quantizable.MultiheadAttention` first."""
        raise NotImplementedError(
            "quantized MultiheadAttention: observe a quantizable.MultiheadAttention, then "
            "from_observed"
        )

    @classmethod
    def from_observed(cls, other: Module) -> Self:
        """Return what replaces a `quantizable.MultiheadAttention` that has seen tensors."""
        from rushlight.ao.quantization.quantize import convert

        converted = convert(other, inplace=False, remove_qconfig=True)
        converted.__class__ = cls
        for name in ("bias_k", "bias_v"):
            value = converted._parameters.pop(name, None)
            if value is not None:
                least, most = value.detach().aminmax()
                scale, zero = rushlight._choose_qparams_per_tensor(
                    rushlight.stack([least, most]), False
                )
                value = rushlight.quantize_per_tensor(value.detach(), scale, zero, quint8)
            setattr(converted, name, value)
        converted.in_proj_weight = converted.in_proj_bias = None
        return converted


__all__ = [
    "ELU", "Hardswish", "LeakyReLU", "MultiheadAttention", "PReLU", "ReLU6", "Sigmoid", "Softmax",
]  # fmt: skip
