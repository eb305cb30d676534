"""Windows for spectra, as scipy.signal.windows has them: `sym` says whether the last sample
mirrors the first.
"""

from __future__ import annotations

import math

import rushlight
from rushlight._set_module import set_module as _set_module
from rushlight._windows import _cosines, _finish, _positions, bartlett_window, kaiser_window

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from rushlight import Tensor
    from rushlight.types import Device, _dtype, _layout

_STRIDED = rushlight.strided


def _check(name, M, dtype, layout):
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if layout is not _STRIDED:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    if dtype not in (None, rushlight.float32, rushlight.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")


def bartlett(
    M: int,
    *,
    sym: bool = True,
    dtype: _dtype | None = None,
    layout: _layout = _STRIDED,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """A triangle that ends at zero."""
    _check("bartlett", M, dtype, layout)
    return bartlett_window(
        M, not sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


def general_cosine(
    M: int,
    *,
    a: Iterable[Any],
    sym: bool = True,
    dtype: _dtype | None = None,
    layout: _layout = _STRIDED,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """The sum of (-1)^i a[i] cos(2 pi i k / N)."""
    _check("general_cosine", M, dtype, layout)
    if not isinstance(a, (list, tuple)):
        raise TypeError(f"general_cosine: a must be a list or tuple, got {type(a).__name__}")
    if not a:
        raise ValueError("window: the coefficients a cannot be empty")
    return _cosines(M, not sym, tuple(a), dtype, layout, device, requires_grad, False)


def general_hamming(
    M: int,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: _dtype | None = None,
    layout: _layout = _STRIDED,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """alpha - (1 - alpha) cos(2 pi k / N)."""
    _check("general_hamming", M, dtype, layout)
    return _cosines(M, not sym, (alpha, 1 - alpha), dtype, layout, device, requires_grad, False)


def hamming(
    M: int,
    *,
    sym: bool = True,
    dtype: _dtype | None = None,
    layout: _layout = _STRIDED,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """general_hamming with alpha = 0.54."""
    return general_hamming(
        M, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


def hann(
    M: int,
    *,
    sym: bool = True,
    dtype: _dtype | None = None,
    layout: _layout = _STRIDED,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """general_hamming with alpha = 0.5.

    Example:
        >>> hann(5)
        tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    return general_hamming(
        M,
        alpha=0.5,
        sym=sym,
        dtype=dtype,
        layout=layout,
        device=device,
        requires_grad=requires_grad,
    )


def blackman(
    M: int,
    *,
    sym: bool = True,
    dtype: _dtype | None = None,
    layout: _layout = _STRIDED,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """0.42 - 0.5 cos(2 pi k / N) + 0.08 cos(4 pi k / N)."""
    _check("blackman", M, dtype, layout)
    return _cosines(M, not sym, (0.42, 0.5, 0.08), dtype, layout, device, requires_grad, False)


def nuttall(
    M: int,
    *,
    sym: bool = True,
    dtype: _dtype | None = None,
    layout: _layout = _STRIDED,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """The minimum four-term Blackman-Harris window as Nuttall gives it."""
    _check("nuttall", M, dtype, layout)
    terms = (0.3635819, 0.4891775, 0.1365995, 0.0106411)
    return _cosines(M, not sym, terms, dtype, layout, device, requires_grad, False)


def cosine(
    M: int,
    *,
    sym: bool = True,
    dtype: _dtype | None = None,
    layout: _layout = _STRIDED,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """Half a period of a sine, between its zeros."""
    _check("cosine", M, dtype, layout)
    k, last = _positions(M, not sym, dtype)
    values = ((k + 0.5) * (math.pi / (last + 1))).sin()
    return _finish(values, M, dtype, layout, device, requires_grad, False)


def gaussian(
    M: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: _dtype | None = None,
    layout: _layout = _STRIDED,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """exp(-(k - N / 2)^2 / (2 std^2))."""
    _check("gaussian", M, dtype, layout)
    if std <= 0:
        raise ValueError(f"gaussian: Standard deviation must be positive, got: {std} instead.")
    k, last = _positions(M, not sym, dtype)
    values = (-((k - last / 2) / std).square() / 2).exp()
    return _finish(values, M, dtype, layout, device, requires_grad, False)


def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: _dtype | None = None,
    layout: _layout = _STRIDED,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """exp(-|k - center| / tau)."""
    _check("exponential", M, dtype, layout)
    if tau <= 0:
        raise ValueError(f"exponential: Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("window: the center of a symmetric window is its middle")
    k, last = _positions(M, not sym, dtype)
    values = (-(k - (last / 2 if center is None else center)).abs() / tau).exp()
    return _finish(values, M, dtype, layout, device, requires_grad, False)


def kaiser(
    M: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: _dtype | None = None,
    layout: _layout = _STRIDED,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """I0(beta sqrt(1 - (2 k / N - 1)^2)) / I0(beta)."""
    _check("kaiser", M, dtype, layout)
    if beta < 0:
        raise ValueError(f"kaiser: beta must be non-negative, got: {beta} instead.")
    return kaiser_window(
        M, not sym, beta, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine",
    "general_hamming", "hamming", "hann",
    "kaiser", "nuttall",
]  # fmt: skip

_set_module(
    "rushlight.signal.windows.windows", bartlett, blackman, cosine, exponential, gaussian,
    general_cosine, general_hamming, hamming, hann, kaiser, nuttall,
)  # fmt: skip
