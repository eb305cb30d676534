"""Frequencies of a transform's bins, and their order."""

import rushlight
from rushlight._out import into


def fftfreq(n, d=1.0, *, out=None, dtype=None, layout=None, device=None, requires_grad=False):
    """Frequencies of the n bins of fft, for samples d apart: 0, 1, ..., -2, -1 over n d."""
    bins = rushlight.arange(n, dtype=rushlight.int64)
    bins = rushlight.where(bins < (n + 1) // 2, bins, bins - n)
    return _scaled(bins, n * d, out, dtype, requires_grad)


def rfftfreq(n, d=1.0, *, out=None, dtype=None, layout=None, device=None, requires_grad=False):
    """Frequencies of the n // 2 + 1 bins of rfft, for samples d apart."""
    return _scaled(rushlight.arange(n // 2 + 1), n * d, out, dtype, requires_grad)


def _scaled(bins, span, out, dtype, requires_grad):
    result = bins.to(dtype or rushlight.get_default_dtype()) * (1.0 / span)
    if out is not None:
        return into(out, result)
    return result.requires_grad_(requires_grad)


def _dims(input, dim):
    return list(range(input.dim())) if dim is None else [dim] if isinstance(dim, int) else list(dim)


def fftshift(input, dim=None):
    """Moves the zero frequency to the middle."""
    dims = _dims(input, dim)
    return input.roll([input.shape[d] // 2 for d in dims], dims)


def ifftshift(input, dim=None):
    """Moves the zero frequency from the middle to the front."""
    dims = _dims(input, dim)
    return input.roll([(input.shape[d] + 1) // 2 for d in dims], dims)
