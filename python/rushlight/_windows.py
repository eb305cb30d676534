"""Window functions: weights that fade a stretch of a signal in and out.

A periodic window of n points is the first n of the symmetric one of n + 1.
"""

import math

import rushlight


def _cosines(name, window_length, periodic, coefficients, options):
    """a0 - a1 cos(t) + a2 cos(2 t) - ... for t from 0 to 2 pi."""
    phase = _places(name, window_length, periodic, options) * (2 * math.pi)
    terms = [(-1) ** k * a * (phase * k).cos() for k, a in enumerate(coefficients)]
    return _finished(sum(terms[1:], terms[0]), window_length, options)


def _places(name, window_length, periodic, options):
    """0 to 1 in window_length steps, in double precision."""
    dtype = options["dtype"] or rushlight.get_default_dtype()
    if window_length < 0:
        raise RuntimeError(
            f"{name} requires non-negative window_length, got window_length={window_length}"
        )
    if not dtype.is_floating_point:
        raise RuntimeError(f"{name} expects floating point dtypes, got: {dtype}")
    last = window_length if periodic else window_length - 1
    places = rushlight.arange(window_length, dtype=rushlight.float64, device=options["device"])
    return places / max(last, 1)


def _finished(window, window_length, options):
    if window_length == 1:
        window = rushlight.ones_like(window)
    window = window.to(options["dtype"] or rushlight.get_default_dtype())
    return window.requires_grad_() if options["requires_grad"] else window


def hann_window(
    window_length,
    periodic=True,
    *,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=False,
    requires_grad=False,
):
    """Return (1 - cos(2 pi n / N)) / 2 for n = 0, 1, ...

    Args:
        window_length: how many points.
        periodic: N is window_length, for spectra; otherwise one less, which makes the window symmetric.

    Example:
        >>> rushlight.hann_window(4)
        tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _cosines(
        "hann_window", window_length, periodic, (0.5, 0.5), _options(dtype, device, requires_grad)
    )


def hamming_window(
    window_length,
    periodic=True,
    alpha=0.54,
    beta=0.46,
    *,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=False,
    requires_grad=False,
):
    """Return alpha - beta cos(2 pi n / N) for n = 0, 1, ... See `hann_window`."""
    return _cosines(
        "hamming_window",
        window_length,
        periodic,
        (alpha, beta),
        _options(dtype, device, requires_grad),
    )


def blackman_window(
    window_length,
    periodic=True,
    *,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=False,
    requires_grad=False,
):
    """Return 0.42 - 0.5 cos(2 pi n / N) + 0.08 cos(4 pi n / N) for n = 0, 1, ... See `hann_window`."""
    return _cosines(
        "blackman_window",
        window_length,
        periodic,
        (0.42, 0.5, 0.08),
        _options(dtype, device, requires_grad),
    )


def bartlett_window(
    window_length,
    periodic=True,
    *,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=False,
    requires_grad=False,
):
    """Return 1 - |2 n / N - 1| for n = 0, 1, ...: a triangle. See `hann_window`."""
    options = _options(dtype, device, requires_grad)
    places = _places("bartlett_window", window_length, periodic, options)
    return _finished(1 - (2 * places - 1).abs(), window_length, options)


def kaiser_window(
    window_length,
    periodic=True,
    beta=12.0,
    *,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=False,
    requires_grad=False,
):
    """Return i0(beta sqrt(1 - (2 n / N - 1)^2)) / i0(beta) for n = 0, 1, ... See `hann_window`."""
    options = _options(dtype, device, requires_grad)
    places = _places("kaiser_window", window_length, periodic, options)
    inside = (1 - (2 * places - 1).square()).clamp(min=0).sqrt() * beta
    window = inside.i0() / rushlight.tensor(beta, dtype=rushlight.float64).i0()
    return _finished(window, window_length, options)


def _options(dtype, device, requires_grad):
    return {"dtype": dtype, "device": device, "requires_grad": requires_grad}
