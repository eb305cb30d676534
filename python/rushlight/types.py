"""Types for annotations."""

import builtins
from collections.abc import Sequence
from typing import Any, Union

import rushlight
from rushlight import Size, Tensor

Number = Union[builtins.int, builtins.float, builtins.bool]  # noqa: UP007
Device = Union[rushlight.device, str, builtins.int, None]  # noqa: UP007
Storage = Any
_int, _float, _bool, _complex = builtins.int, builtins.float, builtins.bool, builtins.complex
_dtype, _device, _layout = rushlight.dtype, rushlight.device, rushlight.layout
_size = Union[Size, list[builtins.int], tuple[builtins.int, ...]]  # noqa: UP007
_TensorOrTensors = Union[Tensor, Sequence[Tensor]]  # noqa: UP007

__all__ = ["Device", "Number", "Storage"]
