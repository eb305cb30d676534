"""Types for annotations."""

import builtins
import os
from collections.abc import Sequence
from typing import IO, Any, Union

import rushlight
from rushlight import Size, Tensor

Number = Union[builtins.int, builtins.float, builtins.bool]  # noqa: UP007
Device = Union[rushlight.device, str, builtins.int, None]  # noqa: UP007
Storage = Any
FileLike = Union[str, os.PathLike[str], IO[bytes]]  # noqa: UP007
_int = builtins.int
_float = builtins.float
_bool = builtins.bool
_complex = builtins.complex
_dtype = rushlight.dtype
_device = rushlight.device
_layout = rushlight.layout
_memory_format = rushlight.memory_format
_size = Union[Size, list[builtins.int], tuple[builtins.int, ...]]  # noqa: UP007
_TensorOrTensors = Union[Tensor, Sequence[Tensor]]  # noqa: UP007

__all__ = ["Device", "FileLike", "Number", "Storage"]
