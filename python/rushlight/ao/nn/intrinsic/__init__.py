"""Layers in a row that a quantized model computes as one."""

from __future__ import annotations

from rushlight._module_paths import add_modules as _add_modules
from rushlight.nn.modules.activation import LeakyReLU, ReLU, Tanh
from rushlight.nn.modules.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from rushlight.nn.modules.container import Sequential
from rushlight.nn.modules.conv import Conv1d, Conv2d, Conv3d
from rushlight.nn.modules.linear import Linear
from rushlight.nn.modules.module import Module
from rushlight.nn.utils import parametrize as _parametrize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _FusedModule(Sequential):
    """Layers in a row, of the given classes."""

    _layers: tuple[type[Module], ...] = ()

    def __init__(self, *layers: Module) -> None:
        kinds = tuple(_parametrize.type_before_parametrizations(layer) for layer in layers)
        if kinds != self._layers:
            expected = ", ".join(kind.__name__ for kind in self._layers)
            given = ", ".join(kind.__name__ for kind in kinds)
            raise AssertionError(f"{type(self).__name__}: expected {expected}, got {given}")
        super().__init__(*layers)


class ConvReLU1d(_FusedModule):
    """A `Conv1d` and a `ReLU`."""

    _layers = (Conv1d, ReLU)


class ConvReLU2d(_FusedModule):
    """A `Conv2d` and a `ReLU`."""

    _layers = (Conv2d, ReLU)


class ConvReLU3d(_FusedModule):
    """A `Conv3d` and a `ReLU`."""

    _layers = (Conv3d, ReLU)


class LinearReLU(_FusedModule):
    """A `Linear` and a `ReLU`."""

    _layers = (Linear, ReLU)


class ConvBn1d(_FusedModule):
    """A `Conv1d` and a `BatchNorm1d`."""

    _layers = (Conv1d, BatchNorm1d)


class ConvBn2d(_FusedModule):
    """A `Conv2d` and a `BatchNorm2d`."""

    _layers = (Conv2d, BatchNorm2d)


class ConvBn3d(_FusedModule):
    """A `Conv3d` and a `BatchNorm3d`."""

    _layers = (Conv3d, BatchNorm3d)


class ConvBnReLU1d(_FusedModule):
    """A `Conv1d`, a `BatchNorm1d` and a `ReLU`."""

    _layers = (Conv1d, BatchNorm1d, ReLU)


class ConvBnReLU2d(_FusedModule):
    """A `Conv2d`, a `BatchNorm2d` and a `ReLU`."""

    _layers = (Conv2d, BatchNorm2d, ReLU)


class ConvBnReLU3d(_FusedModule):
    """A `Conv3d`, a `BatchNorm3d` and a `ReLU`."""

    _layers = (Conv3d, BatchNorm3d, ReLU)


class BNReLU2d(_FusedModule):
    """A `BatchNorm2d` and a `ReLU`."""

    _layers = (BatchNorm2d, ReLU)


class BNReLU3d(_FusedModule):
    """A `BatchNorm3d` and a `ReLU`."""

    _layers = (BatchNorm3d, ReLU)


class LinearBn1d(_FusedModule):
    """A `Linear` and a `BatchNorm1d`."""

    _layers = (Linear, BatchNorm1d)


class LinearLeakyReLU(_FusedModule):
    """A `Linear` and a `LeakyReLU`."""

    _layers = (Linear, LeakyReLU)


class LinearTanh(_FusedModule):
    """A `Linear` and a `Tanh`."""

    _layers = (Linear, Tanh)


class ConvAdd2d(_FusedModule):
    """A `Conv2d`, whose result another tensor is added to.

    Args:
        conv: the convolution.
        add: the function that adds.
    """

    def __init__(self, conv: Module, add: Any) -> None:
        Sequential.__init__(self, conv)
        self.add: Any = add

    def forward(self, x1: Any, x2: Any) -> Any:  # type: ignore[override]
        return self.add(self[0](x1), x2)


class ConvAddReLU2d(_FusedModule):
    """A `Conv2d`, whose result another tensor is added to, and a ReLU.

    Args:
        conv: the convolution.
        add: the function that adds.
        relu: the ReLU.
    """

    def __init__(self, conv: Module, add: Any, relu: Any) -> None:
        Sequential.__init__(self, conv)
        self.add: Any = add
        self.relu = relu

    def forward(self, x1: Any, x2: Any) -> Any:  # type: ignore[override]
        return self.relu(self.add(self[0](x1), x2))


__all__ = [
    "BNReLU2d", "BNReLU3d", "ConvAdd2d", "ConvAddReLU2d",
    "ConvBn1d", "ConvBn2d", "ConvBn3d", "ConvBnReLU1d", "ConvBnReLU2d", "ConvBnReLU3d",
    "ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "LinearBn1d", "LinearLeakyReLU", "LinearReLU",
    "LinearTanh",
]  # fmt: skip

_add_modules(__name__, {"modules": "*", "modules.fused": "*"})
