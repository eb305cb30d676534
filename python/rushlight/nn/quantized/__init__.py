"""Operations that a quantised model would replace, on floating-point tensors."""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight.nn.modules.module import Module


class FloatFunctional(Module):
    """Arithmetic as a module, whose results a quantised model would observe."""

    def forward(self, x: Tensor) -> Tensor:
        raise RuntimeError("FloatFunctional is not intended to use the 'forward'. Please use add()")

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        return rushlight.add(x, y)

    add_scalar = add

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        return rushlight.mul(x, y)

    mul_scalar = mul

    def cat(self, x: list[Tensor], dim: int = 0) -> Tensor:
        return rushlight.cat(x, dim=dim)

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        return rushlight.add(x, y).relu()

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        return rushlight.matmul(x, y)


__all__ = ["FloatFunctional"]
