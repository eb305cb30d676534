"""Types for annotations."""

import builtins
from collections.abc import Sequence
from typing import Any, Union

import rushlight
from rushlight import Size, Tensor

Number = Union[builtins.int, builtins.float, builtins.bool]
Device = Union[rushlight.device, str, builtins.int, None]
Storage = Any
_int, _float, _bool, _complex = builtins.int, builtins.float, builtins.bool, builtins.complex
_dtype, _device, _layout = rushlight.dtype, rushlight.device, rushlight.layout
_size = Union[Size, list[builtins.int], tuple[builtins.int, ...]]
_TensorOrTensors = Union[Tensor, Sequence[Tensor]]

__all__ = ["Device", "Number", "Storage"]
