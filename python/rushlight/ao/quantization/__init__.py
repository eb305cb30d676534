"""The marks at which a model would be quantised: tensors pass them as they are."""

from __future__ import annotations

from rushlight.nn.modules.module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor


class QuantStub(Module):
    """Where a model's input would be quantised: the identity."""

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        self.qconfig = qconfig

    def forward(self, x: Tensor) -> Tensor:
        return x


class DeQuantStub(QuantStub):
    """Where a model's output would become floating-point again: the identity."""


__all__ = ["DeQuantStub", "QuantStub"]
