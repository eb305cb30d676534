"""Layers in a row that a quantized model computes as one."""

from __future__ import annotations

from rushlight.nn.modules.activation import ReLU
from rushlight.nn.modules.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from rushlight.nn.modules.container import Sequential
from rushlight.nn.modules.conv import Conv1d, Conv2d, Conv3d
from rushlight.nn.modules.linear import Linear
from rushlight.nn.modules.module import Module


class _FusedModule(Sequential):
    """Layers in a row, of the given classes."""

    _layers: tuple[type[Module], ...] = ()

    def __init__(self, *layers: Module) -> None:
        kinds = tuple(type(layer) for layer in layers)
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


__all__ = [
    "ConvBn1d", "ConvBn2d", "ConvBn3d", "ConvBnReLU1d", "ConvBnReLU2d", "ConvBnReLU3d",
    "ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "LinearReLU",
]  # fmt: skip
