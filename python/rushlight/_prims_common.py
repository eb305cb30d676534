"""What can be said of sizes and strides, by the names under which libraries import it."""

from __future__ import annotations

import math

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rushlight import Tensor
    from rushlight.types import _dtype

__all__ = [
    "corresponding_complex_dtype", "corresponding_real_dtype", "dtype_to_type", "is_boolean_dtype",
    "is_complex_dtype", "is_float_dtype", "is_integer_dtype", "make_contiguous_strides_for",
    "suggest_memory_format",
]  # fmt: skip


def is_boolean_dtype(dtype: _dtype) -> bool:
    return dtype is rushlight.bool


def is_integer_dtype(dtype: _dtype) -> bool:
    return not (is_boolean_dtype(dtype) or dtype.is_floating_point or dtype.is_complex)


def is_float_dtype(dtype: _dtype) -> bool:
    return dtype.is_floating_point


def is_complex_dtype(dtype: _dtype) -> bool:
    return dtype.is_complex


def corresponding_real_dtype(dtype: _dtype) -> _dtype:
    """The dtype of the real part of complex numbers."""
    return dtype.to_real()


def corresponding_complex_dtype(dtype: _dtype) -> _dtype:
    """The dtype of complex numbers whose parts have this one."""
    return dtype.to_complex()


def dtype_to_type(dtype: _dtype) -> type[bool | int | float | complex]:
    """The type of Python's numbers of a dtype."""
    if is_boolean_dtype(dtype):
        return bool
    if dtype.is_complex:
        return complex
    return float if dtype.is_floating_point else int


def make_contiguous_strides_for(shape: Sequence[int], row_major: bool = True) -> tuple[int, ...]:
    """The strides of a contiguous tensor.

    Args:
        shape: its sizes.
        row_major: False: of one whose matrices, in the last two dims, lie column by column.
    """
    strides = tuple(math.prod(max(size, 1) for size in shape[i:]) for i in range(1, len(shape) + 1))
    if row_major or len(shape) < 2:
        return strides
    return (*strides[:-2], 1, max(shape[-2], 1))


def suggest_memory_format(x: Tensor) -> rushlight.memory_format:
    """The memory format that the strides of a tensor follow."""
    formats = {4: rushlight.channels_last, 5: rushlight.channels_last_3d}
    if x.layout is not rushlight.strided or x.dim() not in formats:
        return rushlight.contiguous_format
    least = 0
    for dim in (1, *range(x.dim() - 1, 1, -1), 0):
        size, stride = x.shape[dim], x.stride(dim)
        if size == 0 or stride < least or (dim == 1 and stride == 0):
            return rushlight.contiguous_format
        if dim == 0 and stride == x.stride(1) and least == stride:
            return rushlight.contiguous_format  # of sizes that say nothing
        least = stride * size
    return formats[x.dim()]
