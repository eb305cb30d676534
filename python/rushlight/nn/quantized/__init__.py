"""Operations that a quantised model would replace, on floating-point tensors."""

from __future__ import annotations

import importlib

import rushlight
from rushlight import Tensor
from rushlight._set_module import set_module as _set_module
from rushlight.nn.modules.linear import Identity
from rushlight.nn.modules.module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class FloatFunctional(Module):
    """Arithmetic as a module, whose results a quantised model observes."""

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process: Any = Identity()

    def forward(self, x: Tensor) -> Tensor:
        raise RuntimeError("FloatFunctional is not intended to use the 'forward'. Please use add()")

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        return self.activation_post_process(rushlight.add(x, y))

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        return rushlight.add(x, y)

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        return self.activation_post_process(rushlight.mul(x, y))

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        return rushlight.mul(x, y)

    def cat(self, x: list[Tensor], dim: int = 0) -> Tensor:
        return self.activation_post_process(rushlight.cat(x, dim=dim))

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        return self.activation_post_process(rushlight.add(x, y).relu())

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        return self.activation_post_process(rushlight.matmul(x, y))


class FXFloatFunctional(Module):
    """Arithmetic as a module whose calls stand in graphs as plain arithmetic."""

    def forward(self, x: Tensor) -> Tensor:
        raise RuntimeError("FXFloatFunctional has no forward: call add, mul or another method")

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        return rushlight.add(x, y)

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        return rushlight.add(x, y)

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        return rushlight.mul(x, y)

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        return rushlight.mul(x, y)

    def cat(self, x: list[Tensor], dim: int = 0) -> Tensor:
        return rushlight.cat(x, dim=dim)

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        return rushlight.add(x, y).relu()

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        return rushlight.matmul(x, y)


_set_module(
    "rushlight.ao.nn.quantized.modules.functional_modules", FXFloatFunctional, FloatFunctional
)

__all__ = ["FXFloatFunctional", "FloatFunctional"]


def __getattr__(name: str) -> Any:
    """The older place of what is in `ao.nn.quantized`."""
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(importlib.import_module("rushlight.ao.nn.quantized"), name)
