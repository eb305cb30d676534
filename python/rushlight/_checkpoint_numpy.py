"""NumPy arrays and scalars in checkpoints, rebuilt without NumPy's own unpickling."""

from __future__ import annotations

import math
import pickle
import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

    from rushlight.types import _dtype

_SAFE_CODE = re.compile(r"[biufcSU]\d{1,9}")


class ArrayDtype:
    """The dtype of an array or scalar: its code, such as "f8", and byte order."""

    def __init__(self, code: str, align: bool = False, copy: bool = False) -> None:
        if not isinstance(code, str) or not _SAFE_CODE.fullmatch(code):
            raise pickle.UnpicklingError(f"NumPy arrays of type {code!r} are not supported")
        self._code = code
        self._order = "|"

    def set_state(self, state: Any) -> None:
        if not isinstance(state, tuple) or len(state) < 5 or state[1] not in ("<", ">", "=", "|"):
            raise pickle.UnpicklingError("the type of a NumPy array is damaged")
        if state[2:5] != (None, None, None):
            raise pickle.UnpicklingError("structured NumPy arrays are not supported")
        self._order = state[1]

    def numpy(self) -> Any:
        import numpy

        return numpy.dtype(self._order.replace("|", "=") + self._code)


def empty_array(kind: str, shape: Sequence[int], code: bytes) -> NDArray[Any]:
    """Return an array to be filled by `set_array_state`, the only way in which they are stored."""
    import numpy

    return numpy.empty(0, "u1")


def is_array(value: Any) -> bool:
    """Say whether `value` is a NumPy array, without loading NumPy."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(value) is numpy.ndarray


def set_array_state(array: NDArray[Any], state: Any) -> None:
    """Give `array` the shape and contents of a stored one."""
    _, shape, dtype, is_fortran, data = state
    dtype = _checked(dtype)
    if not isinstance(shape, tuple) or len(shape) > 32:
        raise pickle.UnpicklingError("a NumPy array has no shape, or more than 32 dims")
    if not all(type(n) is int and 0 <= n < 2**63 for n in shape):
        raise pickle.UnpicklingError("a NumPy array has an impossible shape")
    if not isinstance(data, (bytes, str)):
        raise pickle.UnpicklingError("the contents of a NumPy array are missing")
    data = data.encode("latin1") if isinstance(data, str) else data
    if len(data) != math.prod(shape) * dtype.itemsize:
        raise pickle.UnpicklingError(
            f"a NumPy array of shape {shape} and type {dtype} has {len(data)} bytes"
        )
    _check_text(dtype, data)
    array.__setstate__((1, shape, dtype, bool(is_fortran), data))


def scalar_from(dtype: _dtype | None, data: Any) -> Any:
    """Return a NumPy scalar."""
    import numpy

    dtype = _checked(dtype)
    if isinstance(data, str):
        data = data.encode("latin1")
    if not isinstance(data, bytes) or len(data) != dtype.itemsize:
        raise pickle.UnpicklingError(f"a NumPy scalar of type {dtype} is damaged")
    _check_text(dtype, data)
    return numpy.frombuffer(data, dtype)[0]


def _check_text(dtype, data):
    """Raise an error if an array of text has a number that stands for no character."""
    if dtype.kind == "U":
        order = "be" if dtype.str.startswith(">") else "le"
        data.decode(f"utf-32-{order}", "surrogatepass")


def _checked(dtype):
    if not isinstance(dtype, ArrayDtype):
        raise pickle.UnpicklingError("a NumPy array has no type")
    return dtype.numpy()
