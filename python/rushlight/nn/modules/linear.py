"""Linear and bilinear layers."""

from __future__ import annotations

import math
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.nn import functional as F, init
from rushlight.nn.modules.lazy import LazyModuleMixin
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter, UninitializedParameter
from rushlight.types import Device, _dtype

__all__ = ["Bilinear", "Identity", "LazyLinear", "Linear"]


class Identity(Module):
    """Returns its input; takes and ignores any arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Any:
        return input


class Linear(Module):
    """y = x W^T + b on the last dim.

    Args:
        in_features: size of the last dim of the input.
        out_features: size of the last dim of the output.
        bias: whether to add b.

    Shape:
        (*, in_features) to (*, out_features); `weight` is (out_features, in_features). Weight and
        bias start uniform in +-1/sqrt(in_features).
    """

    __constants__: list[str] = ["in_features", "out_features"]

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Device = None,
        dtype: _dtype | None = None,
    ) -> None:
        super().__init__()
        factory = {"device": device, "dtype": dtype}
        self.in_features = in_features
        self.out_features = out_features
        self.weight: Parameter = Parameter(rushlight.empty((out_features, in_features), **factory))
        bias = Parameter(rushlight.empty(out_features, **factory)) if bias else None
        self.register_parameter("bias", bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        # a=sqrt(5) makes the Kaiming bound 1/sqrt(fan_in).
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class NonDynamicallyQuantizableLinear(Linear):
    """A Linear under the name that MultiheadAttention's output layer has."""


class Bilinear(Module):
    """y_k = x1^T A_k x2 + b_k.

    Shape:
        (*, in1_features) and (*, in2_features) to (*, out_features). All start uniform in
        +-1/sqrt(in1_features).
    """

    __constants__: list[str] = ["in1_features", "in2_features", "out_features"]

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Device = None,
        dtype: _dtype | None = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features: must be positive but got {in1_features}")
        factory = {"device": device, "dtype": dtype}
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        shape = (out_features, in1_features, in2_features)
        self.weight: Parameter = Parameter(rushlight.empty(shape, **factory))
        bias = Parameter(rushlight.empty(out_features, **factory)) if bias else None
        self.register_parameter("bias", bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.weight.size(1))
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class LazyLinear(LazyModuleMixin, Linear):
    """A Linear that takes `in_features` from its first input."""

    cls_to_become = Linear

    def __init__(
        self,
        out_features: int,
        bias: bool = True,
        device: Device = None,
        dtype: _dtype | None = None,
    ) -> None:
        factory = {"device": device, "dtype": dtype}
        # Without a bias for now: the sizes are not known and nothing must be drawn.
        super().__init__(0, 0, False, **factory)
        self.weight: UninitializedParameter = UninitializedParameter(**factory)
        self.out_features = out_features
        if bias:
            self.bias: UninitializedParameter = UninitializedParameter(**factory)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        if self.has_uninitialized_params():
            with rushlight.no_grad():
                self.in_features = input.shape[-1]
                self.weight.materialize((self.out_features, self.in_features))
                if self.bias is not None:
                    self.bias.materialize((self.out_features,))
                self.reset_parameters()
        if self.in_features == 0:
            self.in_features: Any = self.weight.shape[-1]
