"""Weights of 8 or 4 bits with a scale per group, products in the input's dtype.

These names are rushlight's own. Few rows are multiplied by the integers as they lie in memory; for
others, and where gradients are recorded, a weight is turned into float32 a part of its rows at a
time (docs/quantization.md has figures).
"""

from __future__ import annotations

import copy

import rushlight
from rushlight import Tensor
from rushlight.nn import functional as F
from rushlight.nn.modules.linear import Linear
from rushlight.nn.modules.module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_PART = 1 << 22  # elements of a weight that are float32 at a time: 16 MiB
_MOST_ROWS = 64  # more are multiplied faster by a weight in float32, the making of it included


class WeightOnlyLinear(Module):
    """`nn.Linear` whose weight has 8 or 4 bits per element and a scale per group of columns.

    Each group of `group_size` elements of a row is `scale * integer`, integers from -127 to 127 or
    -7 to 7. Of 4 bits, two integers share a byte.

    Args:
        in_features, out_features: the sizes of the last dim.
        bits: 8 or 4.
        group_size: elements that share a scale, a divisor of in_features; None for whole rows.
    """

    in_features: int
    out_features: int
    group_size: int

    integers: Tensor
    scales: Tensor
    bias: Tensor | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bits: int = 8,
        group_size: int | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if bits not in (4, 8):
            raise ValueError(f"WeightOnlyLinear: bits must be 8 or 4, got {bits}")
        group_size = in_features if group_size is None else group_size
        if group_size < 1 or in_features % group_size or (bits == 4 and in_features % 2):
            raise ValueError(
                f"WeightOnlyLinear: group_size must divide in_features {in_features} (even for "
                f"4 bits), got {group_size}"
            )
        self.in_features, self.out_features = in_features, out_features
        self.bits, self.group_size = bits, group_size
        dtype, columns = (
            (rushlight.int8, in_features) if bits == 8 else (rushlight.uint8, in_features // 2)
        )
        self.register_buffer("integers", rushlight.zeros(out_features, columns, dtype=dtype))
        groups = in_features // group_size
        self.register_buffer("scales", rushlight.zeros(out_features, groups))
        self.register_buffer("bias", rushlight.zeros(out_features) if bias else None)

    @classmethod
    def from_float(
        cls, linear: Linear, bits: int = 8, group_size: int | None = None
    ) -> WeightOnlyLinear:
        """Return the layer that stands for an `nn.Linear`."""
        layer = cls(
            linear.in_features, linear.out_features, bits, group_size, linear.bias is not None
        )
        with rushlight.no_grad():
            groups = linear.weight.detach().float().unflatten(1, (-1, layer.group_size))
            largest = 2 ** (bits - 1) - 1
            scales = groups.abs().amax(2) / largest
            scales = rushlight.where(scales == 0, 1.0, scales)
            integers = (groups / scales.unsqueeze(2)).round().clamp(-largest, largest)
            integers = integers.flatten(1).to(rushlight.int8)
            if bits == 4:
                integers = (integers + 8).to(rushlight.uint8)
                integers = integers[:, ::2] + integers[:, 1::2] * 16
            layer.integers.copy_(integers)
            layer.scales.copy_(scales)
            if linear.bias is not None:
                layer.bias.copy_(linear.bias)
        return layer

    def dequantized_weight(self, begin: int = 0, end: int | None = None) -> Tensor:
        """Return rows of the weight in float32, (end - begin, in_features)."""
        integers = self.integers[begin:end]
        if self.bits == 4:
            pairs = rushlight.stack([integers % 16, integers // 16], 2).flatten(1)
            integers = pairs.to(rushlight.int8) - 8
        groups = integers.float().unflatten(1, (-1, self.group_size))
        return (groups * self.scales[begin:end].unsqueeze(2)).flatten(1)

    def forward(self, input: Tensor) -> Tensor:
        """Return (..., out_features) of (..., in_features), in the input's dtype."""
        if self._reads_integers(input):
            flat = input.reshape(-1, self.in_features).float()
            result = rushlight._group_mm(flat, self.integers, self.scales)
            result = result.view(*input.shape[:-1], self.out_features).to(input.dtype)
        else:
            rows = max(1, _PART // self.in_features)
            parts = [
                F.linear(input, self.dequantized_weight(begin, begin + rows).to(input.dtype))
                for begin in range(0, self.out_features, rows)
            ]
            result = parts[0] if len(parts) == 1 else rushlight.cat(parts, -1)
        return result if self.bias is None else result + self.bias.to(input.dtype)

    def _reads_integers(self, input: Tensor) -> bool:
        """Whether the kernel that multiplies by the integers as they lie serves this input."""
        return (
            type(input) is Tensor
            and not (input.requires_grad and rushlight._C._records())
            and input.device.type == self.integers.device.type == "cpu"
            and input.is_floating_point()
            and input.dtype is not rushlight.float64
            and input.numel() <= _MOST_ROWS * self.in_features
            and self.group_size % 32 == 0
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bits={self.bits}, "
            f"group_size={self.group_size}, bias={self.bias is not None}"
        )


def quantize_weight_only(
    model: Module,
    bits: int = 8,
    group_size: int | None = None,
    *,
    filter_fn: Callable[[Module, str], bool] | None = None,
    inplace: bool = False,
) -> Module:
    """Return the model with each `nn.Linear` replaced by a `WeightOnlyLinear`.

    Args:
        bits: 8 or 4, of each element of a weight.
        group_size: how many elements of a row share a scale; None for whole rows.
        filter_fn: (layer, name) -> whether to replace it.
        inplace: change the model itself.

    Raises:
        ValueError: group_size does not divide a layer's in_features.

    Example:
        >>> from rushlight.ao.quantization import quantize_weight_only
        >>> model = rushlight.nn.Sequential(rushlight.nn.Linear(64, 8))
        >>> quantize_weight_only(model, bits=4, group_size=32)[0].integers.shape
        torch.Size([8, 32])
    """
    model = model if inplace else copy.deepcopy(model)
    if type(model) is Linear:
        return WeightOnlyLinear.from_float(model, bits, group_size)
    for name, layer in list(model.named_modules()):
        if type(layer) is Linear and (filter_fn is None or filter_fn(layer, name)):
            parent, _, own = name.rpartition(".")
            new = WeightOnlyLinear.from_float(layer, bits, group_size).train(layer.training)
            setattr(model.get_submodule(parent), own, new)
    return model


__all__ = ["WeightOnlyLinear", "quantize_weight_only"]
