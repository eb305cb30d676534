"""Nested tensors as views of a buffer that holds all elements."""

from __future__ import annotations

import math

import rushlight
from rushlight._prims_common import make_contiguous_strides_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight import Tensor


def _nested_compute_contiguous_strides_offsets(nested_size: Tensor) -> tuple[Tensor, Tensor]:
    """Return (strides, offsets) of tensors that lie one behind the other.

    Args:
        nested_size: a row of sizes for each tensor.
    """
    sizes = nested_size.tolist()
    strides = [make_contiguous_strides_for(row) for row in sizes]
    offsets, at = [], 0
    for row in sizes:
        offsets.append(at)
        at += math.prod(row)
    return rushlight.tensor(strides).reshape(nested_size.shape), rushlight.tensor(offsets).long()


def _nested_view_from_buffer(
    input: Tensor, nested_size: Tensor, nested_strides: Tensor, offsets: Tensor
) -> Tensor:
    """Make a nested tensor of views of a buffer.

    Args:
        input: the buffer, of one dim.
        nested_size, nested_strides: a row for each tensor.
        offsets: where each begins.
    """
    from rushlight.nested._tensor import make

    rows = zip(nested_size.tolist(), nested_strides.tolist(), offsets.tolist(), strict=True)
    return make([input.as_strided(size, stride, offset) for size, stride, offset in rows], False)
