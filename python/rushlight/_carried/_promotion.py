"""The dtypes that carried ones are promoted to, beside others: PyTorch's rules."""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight._absent_dtypes import _CarriedDtype
from rushlight._carried._codecs import is_unsigned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


def promoted(one: Any, other: Any) -> Any:
    """Return the common dtype of two of equal weight, one of which is carried.

    Unsigned integers become the floats beside them, complex32 a wider complex dtype; nothing else
    has a common dtype: RuntimeError.
    """
    if one == other:
        return one
    carried, beside = (one, other) if isinstance(one, _CarriedDtype) else (other, one)
    if not isinstance(beside, _CarriedDtype):
        if carried.is_complex:
            if beside in (rushlight.bfloat16, rushlight.float32, rushlight.complex64):
                return rushlight.complex64
            is_wide = beside in (rushlight.float64, rushlight.complex128)
            return rushlight.complex128 if is_wide else carried
        if is_unsigned(carried) and beside.is_floating_point:
            return beside
    raise RuntimeError(
        f"promote_types: {one} and {other} have no common dtype; convert one of them"
    )


def common_dtype(operands: Iterable[Any]) -> Any:
    """Return the dtype that tensors and numbers are promoted to.

    Those of tensors with dims come first, then of tensors without, then of numbers: one that comes
    later counts where its kind is higher (a float beside whole numbers, a complex one beside
    floats).
    """
    found: list[Any] = [None, None, None]
    for part in operands:
        is_tensor = isinstance(part, Tensor)
        place = (0 if part.dim() else 1) if is_tensor else 2
        dtype = part.dtype if is_tensor else rushlight.tensor(part).dtype
        found[place] = (
            dtype if found[place] is None else rushlight.promote_types(found[place], dtype)
        )
    result = None
    for dtype in reversed(found):
        if dtype is not None:
            result = dtype if result is None else _beside_lower(dtype, result)
    return result


def _beside_lower(dtype: Any, lower: Any) -> Any:
    """The dtype of a result where one operand's comes first."""
    if dtype.is_complex or (dtype.is_floating_point and not lower.is_complex):
        return dtype
    if dtype.is_floating_point:
        return rushlight.promote_types(dtype, rushlight.complex32)
    if lower.is_complex:
        return lower
    counts = lower.is_floating_point or dtype is rushlight.bool
    return rushlight.promote_types(dtype, lower) if counts else dtype
