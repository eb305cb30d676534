"""The layout of images whose channels lie side by side."""

from __future__ import annotations

import rushlight
from rushlight import Tensor


def is_channels_last(input: Tensor) -> bool:
    if input.dim() not in (4, 5) or input.is_contiguous():
        return False
    last = rushlight.channels_last if input.dim() == 4 else rushlight.channels_last_3d
    return input.is_contiguous(memory_format=last)
