"""Types for annotations."""

import builtins
import os
from collections.abc import Sequence
from typing import IO, Any, Union

import rushlight
from rushlight import Size, Tensor

Number = Union[builtins.int, builtins.float, builtins.bool]  # noqa: UP007
Device = Union[rushlight.device, str, builtins.int, None]  # noqa: UP007
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


class Storage:
    """What annotations name as a storage, of bytes or of numbers."""

    _cdata: int
    device: _device
    dtype: _dtype
    _torch_load_uninitialized: bool


def _of_storages(name: builtins.str) -> None:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"Storage.{name}: the classes of storages have it")

    refuse.__name__, refuse.__qualname__ = name, f"Storage.{name}"
    refuse.__doc__ = "Raises NotImplementedError: the classes of storages have it."
    setattr(Storage, name, refuse)


for _name in (
    "cpu", "data_ptr", "element_size", "from_file", "is_shared", "nbytes", "share_memory_",
):  # fmt: skip
    _of_storages(_name)

__all__ = ["Device", "FileLike", "Number", "Storage"]
