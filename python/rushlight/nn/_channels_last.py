"""The layout of images whose channels lie side by side."""

from __future__ import annotations

import rushlight
from rushlight import Tensor


def _format_of(input):
    return rushlight.channels_last if input.dim() == 4 else rushlight.channels_last_3d


def is_channels_last(input: Tensor) -> bool:
    if input.dim() not in (4, 5) or input.is_contiguous():
        return False
    return input.is_contiguous(memory_format=_format_of(input))


def in_format_of(like: Tensor, tensor: Tensor) -> Tensor:
    """`tensor`, in channels_last where `like`, of the same dims, is."""
    if not is_channels_last(like):
        return tensor
    return tensor.contiguous(memory_format=_format_of(like))
