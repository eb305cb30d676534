"""Operations that a quantised model would replace, on floating-point tensors."""

import rushlight
from rushlight.nn.modules.module import Module


class FloatFunctional(Module):
    """Arithmetic as a module, whose results a quantised model would observe."""

    def forward(self, x):
        raise RuntimeError("FloatFunctional is not intended to use the 'forward'. Please use add()")

    def add(self, x, y):
        return rushlight.add(x, y)

    add_scalar = add

    def mul(self, x, y):
        return rushlight.mul(x, y)

    mul_scalar = mul

    def cat(self, x, dim=0):
        return rushlight.cat(x, dim=dim)

    def add_relu(self, x, y):
        return rushlight.add(x, y).relu()

    def matmul(self, x, y):
        return rushlight.matmul(x, y)


__all__ = ["FloatFunctional"]
