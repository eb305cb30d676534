"""Memory formats of convolutions' weights."""

from __future__ import annotations

from rushlight.nn.modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from rushlight.types import _memory_format

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    from rushlight.nn.modules.module import Module

    _T = TypeVar("_T", bound="Module")

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def _convert(module, memory_format, kinds):
    for child in module.modules():
        if isinstance(child, kinds):
            child.weight.data = child.weight.detach().clone(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: _T, memory_format: _memory_format) -> _T:
    """Put the weights of all 2D convolutions below `module` into a memory format."""
    return _convert(module, memory_format, (Conv2d, ConvTranspose2d))


def convert_conv3d_weight_memory_format(module: _T, memory_format: _memory_format) -> _T:
    """Put the weights of all 3D convolutions below `module` into a memory format."""
    return _convert(module, memory_format, (Conv3d, ConvTranspose3d))
