"""Where tensors of a model become quantized, and floating-point again."""

from __future__ import annotations

from rushlight import Tensor
from rushlight.nn.modules.module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class QuantStub(Module):
    """Where a model's input is quantized: the identity until `convert` replaces it."""

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Tensor) -> Tensor:
        return x


class DeQuantStub(QuantStub):
    """Where a model's output becomes floating-point again: the identity until `convert`."""


class QuantWrapper(Module):
    """A module between a `QuantStub` and a `DeQuantStub`."""

    quant: Any
    dequant: Any

    def __init__(self, module: Module) -> None:
        super().__init__()
        qconfig = getattr(module, "qconfig", None)
        self.quant, self.dequant = QuantStub(qconfig), DeQuantStub(qconfig)
        self.module = module
        self.train(module.training)

    def forward(self, X: Tensor) -> Tensor:
        return self.dequant(self.module(self.quant(X)))


__all__ = ["DeQuantStub", "QuantStub", "QuantWrapper"]
