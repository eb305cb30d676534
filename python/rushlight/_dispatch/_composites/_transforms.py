"""Fourier transforms: each is one of three operations, after its input was cut or padded."""

from __future__ import annotations

import rushlight
from rushlight._dispatch._emit import emit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_COMPLEX = {rushlight.float64: rushlight.complex128, rushlight.float32: rushlight.complex64}


def _norm(norm, forward):
    """How the result is scaled: 0 not at all, 1 by the root of the number of elements, 2 by it."""
    if norm == "ortho":
        return 1
    return 2 * (forward == (norm == "forward"))


def _as_float(x):
    if x.is_floating_point() or x.is_complex():
        return x
    return emit("_to_copy", x, dtype=rushlight.get_default_dtype())


def _as_complex(x):
    if x.is_complex():
        return x
    return emit("_to_copy", x, dtype=_COMPLEX.get(x.dtype, rushlight.complex64))


def _resized(x, dims, sizes):
    """x with these sizes: cut, or filled up with zeros."""
    pad = [0] * (2 * x.dim())
    for dim, size in zip(dims, sizes):
        if size < x.shape[dim]:
            x = emit("slice.Tensor", x, dim, 0, size)
        elif size > x.shape[dim]:
            pad[2 * (x.dim() - 1 - dim) + 1] = size - x.shape[dim]
    return emit("constant_pad_nd", x, pad) if any(pad) else x


def _place(x, s, dim):
    """(dims, sizes) of a transform of several; None where torch's own errors are wanted."""
    if dim is None:
        dim = range(x.dim()) if s is None else range(x.dim() - len(s), x.dim())
    dims = [dim] if isinstance(dim, int) else list(dim)
    if any(not -x.dim() <= d < x.dim() for d in dims):
        return None
    dims = [d % x.dim() for d in dims]
    sizes = [-1] * len(dims) if s is None else list(s)
    if len(sizes) != len(dims) or len({*dims}) < len(dims):
        return None
    sizes = [x.shape[d] if n == -1 else n for d, n in zip(dims, sizes)]
    return None if any(n < 1 for n in sizes) else (dims, sizes)


def _is_refused(x, norm, *sizes):
    """Whether the library's own function is to say what is wrong, or to work in half precision."""
    if norm not in (None, "forward", "backward", "ortho") or x.dim() == 0 or not x.numel():
        return True
    return x.dtype in (rushlight.float16, rushlight.bfloat16) or any(n < 1 for n in sizes)


def _complex_transform(forward):
    def transform(input, n=None, dim=-1, norm=None):
        place = _place(input, None if n is None else [n], dim)
        if place is None or _is_refused(input, norm):
            return NotImplemented
        x = _as_float(input)
        if x.is_complex():
            return emit("_fft_c2c", _resized(x, *place), place[0], _norm(norm, forward), forward)
        result = emit("_fft_r2c", _resized(x, *place), place[0], _norm(norm, forward), False)
        return result if forward else emit("_conj", result)

    return transform


def _complex_transforms(forward, dims=None):
    def transform(input, s=None, dim=dims, norm=None):
        place = _place(input, s, dim)
        if place is None or _is_refused(input, norm):
            return NotImplemented
        x = _resized(_as_complex(_as_float(input)), *place)
        return emit("_fft_c2c", x, place[0], _norm(norm, forward), forward)

    return transform


def _half(forward):
    """rfft and ihfft: half of the frequencies of real numbers."""

    def transform(input, n=None, dim=-1, norm=None):
        place = _place(input, None if n is None else [n], dim)
        if place is None or _is_refused(input, norm) or input.is_complex():
            return NotImplemented
        x = _resized(_as_float(input), *place)
        result = emit("_fft_r2c", x, place[0], _norm(norm, forward), True)
        return result if forward else emit("_conj", result)

    return transform


def _halves(forward, dims=None):
    def transform(input, s=None, dim=dims, norm=None):
        place = _place(input, s, dim)
        if place is None or not place[0] or _is_refused(input, norm) or input.is_complex():
            return NotImplemented
        x, (dims, number) = _resized(_as_float(input), *place), (place[0], _norm(norm, forward))
        if forward:
            return emit("_fft_r2c", x, dims, number, True)
        last = emit("_fft_r2c", x, dims[-1:], number, True)
        if len(dims) == 1:
            return emit("_conj", last)
        return emit("_fft_c2c", emit("_conj_physical", last), dims[:-1], number, False)

    return transform


def _to_real(x, dim, number, size, forward):
    if forward:
        x = emit("clone", emit("_conj", x))
    return emit("_fft_c2r", x, dim, number, size)


def _real(forward):
    """irfft and hfft: real numbers of half of their frequencies."""

    def transform(input, n=None, dim=-1, norm=None):
        if _is_refused(input, norm) or _place(input, None, dim) is None:
            return NotImplemented
        size = 2 * (input.shape[dim] - 1) if n is None else n
        if size < 1:
            return NotImplemented
        dims = [dim % input.dim()]
        x = _as_complex(_as_float(input))
        if n is not None:
            x = _resized(x, dims, [n // 2 + 1])
        return _to_real(x, dims, _norm(norm, forward), size, forward)

    return transform


def _reals(forward, dims=None):
    def transform(input, s=None, dim=dims, norm=None):
        place = _place(input, s, dim)
        if place is None or not place[0] or _is_refused(input, norm):
            return NotImplemented
        dims, sizes = place
        given = s is not None and list(s)[-1] != -1
        size = sizes[-1] if given else 2 * (input.shape[dims[-1]] - 1)
        if size < 1:
            return NotImplemented
        x = _resized(_as_complex(_as_float(input)), dims, [*sizes[:-1], size // 2 + 1])
        number = _norm(norm, forward)
        if not forward:
            return emit("_fft_c2r", x, dims, number, size)
        if len(dims) > 1:
            x = emit("_fft_c2c", x, dims[:-1], number, True)
        return _to_real(x, dims[-1:], number, size, True)

    return transform


WRITTEN: dict[str, Callable[..., Any]] = {
    "fft.fft": _complex_transform(True), "fft.ifft": _complex_transform(False),
    "fft.fftn": _complex_transforms(True), "fft.ifftn": _complex_transforms(False),
    "fft.fft2": _complex_transforms(True, (-2, -1)),
    "fft.ifft2": _complex_transforms(False, (-2, -1)),
    "fft.rfft": _half(True), "fft.ihfft": _half(False),
    "fft.rfftn": _halves(True), "fft.ihfftn": _halves(False),
    "fft.rfft2": _halves(True, (-2, -1)), "fft.ihfft2": _halves(False, (-2, -1)),
    "fft.irfft": _real(False), "fft.hfft": _real(True),
    "fft.irfftn": _reals(False), "fft.hfftn": _reals(True),
    "fft.irfft2": _reals(False, (-2, -1)), "fft.hfft2": _reals(True, (-2, -1)),
}  # fmt: skip
