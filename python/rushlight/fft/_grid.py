"""Frequencies of a transform's bins, and their order."""

from __future__ import annotations

import rushlight
from rushlight._integers import integers
from rushlight._out import into

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor
    from rushlight.types import Device, _dtype, _layout


def fftfreq(
    n: int,
    d: float = 1.0,
    *,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """Frequencies of the n bins of fft, for samples d apart: 0, 1, ..., -2, -1 over n d."""
    bins = rushlight.arange(n, dtype=rushlight.int64, layout=layout, device=device)
    bins = rushlight.where(bins < (n + 1) // 2, bins, bins - n)
    return _scaled(bins, n * d, out, dtype, requires_grad)


def rfftfreq(
    n: int,
    d: float = 1.0,
    *,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """Frequencies of the n // 2 + 1 bins of rfft, for samples d apart."""
    bins = rushlight.arange(n // 2 + 1, layout=layout, device=device)
    return _scaled(bins, n * d, out, dtype, requires_grad)


def _scaled(bins, span, out, dtype, requires_grad):
    result = bins.to(dtype or rushlight.get_default_dtype()) * (1.0 / span)
    if out is not None:
        return into(out, result)
    return result.requires_grad_(requires_grad)


def _dims(input, dim):
    return list(range(input.dim())) if dim is None else list(integers(dim))


def fftshift(input: Tensor, dim: int | None = None) -> Any:
    """Moves the zero frequency to the middle."""
    dims = _dims(input, dim)
    return input.roll([input.shape[d] // 2 for d in dims], dims)


def ifftshift(input: Tensor, dim: int | None = None) -> Any:
    """Moves the zero frequency from the middle to the front."""
    dims = _dims(input, dim)
    return input.roll([(input.shape[d] + 1) // 2 for d in dims], dims)
