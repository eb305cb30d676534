"""Discrete Fourier transforms.

`norm` says where the factor 1 / n stands: "backward" (the default) in the inverse, "forward" in the
transform, "ortho" as 1 / sqrt(n) in both.
"""

from rushlight import Tensor as Tensor
from rushlight._table import fft as _native
from rushlight.fft._grid import fftfreq, fftshift, ifftshift, rfftfreq
from rushlight.fft._transforms import (
    fft,
    fft2,
    fftn,
    hfft,
    hfft2,
    hfftn,
    ifft,
    ifft2,
    ifftn,
    ihfft,
    ihfft2,
    ihfftn,
    irfft,
    irfft2,
    irfftn,
    rfft,
    rfft2,
    rfftn,
)  # fmt: skip
from rushlight.overrides import _make_overridable

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2",
    "ifftn", "ifftshift", "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft", "rfft2",
    "rfftfreq", "rfftn",
]  # fmt: skip

_c2c = _native._c2c  # modes are given the functions of here
_make_overridable(globals(), __name__)
