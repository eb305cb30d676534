"""Windows for spectra: bells over a stretch of samples, each value a sum of cosines or close to
one.

A periodic window is a symmetric one of one more sample, without the last.
"""

from __future__ import annotations

import math

import rushlight
from rushlight._python_types import as_dtype

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight import Tensor
    from rushlight.types import Device, _dtype, _layout


def _positions(window_length, periodic, dtype):
    """(0, 1, ... ; the last one of the symmetric window), computed in float64."""
    if window_length < 0:
        raise RuntimeError(f"window: requires a non-negative window length, got {window_length}")
    if dtype is not None and not as_dtype(dtype).is_floating_point:
        raise RuntimeError(f"window: expects floating point dtypes, got {dtype}")
    last = window_length - 1 + bool(periodic)
    return rushlight.arange(window_length, dtype=rushlight.float64, device="cpu"), max(last, 1)


def _finish(values, window_length, dtype, layout, device, requires_grad, pin_memory):
    if layout is not rushlight.strided:
        raise RuntimeError(f"window: the layout must be strided, got {layout}")
    if window_length == 1:
        values = rushlight.ones_like(values)
    dtype = rushlight.get_default_dtype() if dtype is None else dtype
    values = values.to(device or rushlight.get_default_device(), dtype)
    if pin_memory and not values.is_meta:
        values = values.pin_memory()
    return values.requires_grad_(requires_grad)


def _cosines(window_length, periodic, coefficients, dtype, *options):
    k, last = _positions(window_length, periodic, dtype)
    angle = k * (2 * math.pi / last)
    values = sum((-1) ** i * a * (angle * i).cos() for i, a in enumerate(coefficients))
    return _finish(values, window_length, dtype, *options)


def hann_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = rushlight.strided,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Return sin(pi k / N)^2 for k = 0, ..., N - 1, or with N - 1 in the place of N if not
    periodic.

    Example:
        >>> hann_window(4)
        tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _cosines(
        window_length, periodic, (0.5, 0.5), dtype, layout, device, requires_grad, pin_memory
    )


def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = rushlight.strided,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Return alpha - beta cos(2 pi k / N)."""
    return _cosines(
        window_length, periodic, (alpha, beta), dtype, layout, device, requires_grad, pin_memory
    )


def blackman_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = rushlight.strided,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Return 0.42 - 0.5 cos(2 pi k / N) + 0.08 cos(4 pi k / N)."""
    return _cosines(
        window_length, periodic, (0.42, 0.5, 0.08), dtype, layout, device, requires_grad, pin_memory
    )


def bartlett_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = rushlight.strided,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Return a triangle: 1 - |2 k / N - 1|."""
    k, last = _positions(window_length, periodic, dtype)
    values = 1 - (k * (2 / last) - 1).abs()
    return _finish(values, window_length, dtype, layout, device, requires_grad, pin_memory)


def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = rushlight.strided,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Return I0(beta sqrt(1 - (2 k / N - 1)^2)) / I0(beta), I0 being a modified Bessel function."""
    k, last = _positions(window_length, periodic, dtype)
    inside = 1 - (k * (2 / last) - 1).square()
    top = rushlight.i0(beta * inside.clamp(min=0).sqrt())
    values = top / rushlight.i0(
        rushlight.tensor(float(beta), dtype=rushlight.float64, device="cpu")
    )
    return _finish(values, window_length, dtype, layout, device, requires_grad, pin_memory)
