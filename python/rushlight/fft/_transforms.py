"""All forms of the transform, from the complex one over some dims."""

from __future__ import annotations

import math

import rushlight
from rushlight._autocast import autocasts
from rushlight._integers import integers
from rushlight._out import into
from rushlight._shown_name import shown_as
from rushlight._table import fft as _native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol

    from rushlight import Tensor

    class _OfPlanes(Protocol):
        def __call__(
            self,
            input: Tensor,
            s: Sequence[int] | None = None,
            dim: Sequence[int] = (-2, -1),
            norm: str | None = None,
            *,
            out: Tensor | None = None,
        ) -> Tensor: ...


@autocasts("float32")
def fft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Transform along a dim, which is cut or padded with zeros to n."""
    return into(out, _complex("fft", input, [n], [dim], norm, False))


@autocasts("float32")
def ifft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Inverse of fft."""
    return into(out, _complex("ifft", input, [n], [dim], norm, True))


@autocasts("float32")
def fftn(
    input: Tensor,
    s: Sequence[int] | None = None,
    dim: Sequence[int] | None = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """fft over several dims: all, or the last len(s)."""
    return into(out, _complex("fftn", input, *_sizes_and_dims("fftn", input, s, dim), norm, False))


@autocasts("float32")
def ifftn(
    input: Tensor,
    s: Sequence[int] | None = None,
    dim: Sequence[int] | None = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Inverse of fftn."""
    return into(out, _complex("ifftn", input, *_sizes_and_dims("ifftn", input, s, dim), norm, True))


@autocasts("float32")
def rfft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """fft of real input: the n // 2 + 1 frequencies that are not conjugates of others."""
    return into(out, _from_real("rfft", input, [n], [dim], norm))


@autocasts("float32")
def rfftn(
    input: Tensor,
    s: Sequence[int] | None = None,
    dim: Sequence[int] | None = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """fftn of real input; the last dim is halved."""
    return into(out, _from_real("rfftn", input, *_sizes_and_dims("rfftn", input, s, dim), norm))


@autocasts("float32")
def irfft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Inverse of rfft: n real samples, 2 (m - 1) by default."""
    return into(out, _to_real("irfft", input, [n], [dim], norm, True))


@autocasts("float32")
def irfftn(
    input: Tensor,
    s: Sequence[int] | None = None,
    dim: Sequence[int] | None = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Inverse of rfftn."""
    return into(
        out, _to_real("irfftn", input, *_sizes_and_dims("irfftn", input, s, dim), norm, True)
    )


@autocasts("float32")
def hfft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Real frequencies of a Hermitian signal, of which the first half is given."""
    return into(out, _to_real("hfft", input, [n], [dim], norm, False))


@autocasts("float32")
def hfftn(
    input: Tensor,
    s: Sequence[int] | None = None,
    dim: Sequence[int] | None = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """hfft over several dims; the last is the halved one."""
    return into(
        out, _to_real("hfftn", input, *_sizes_and_dims("hfftn", input, s, dim), norm, False)
    )


@autocasts("float32")
def ihfft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Inverse of hfft."""
    return into(out, _from_real("ihfft", input, [n], [dim], norm, True))


@autocasts("float32")
def ihfftn(
    input: Tensor,
    s: Sequence[int] | None = None,
    dim: Sequence[int] | None = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Inverse of hfftn."""
    return into(
        out, _from_real("ihfftn", input, *_sizes_and_dims("ihfftn", input, s, dim), norm, True)
    )


def _over_two_dims(transform: Callable[..., Tensor]) -> _OfPlanes:
    @autocasts("float32")
    def of_planes(
        input: Tensor,
        s: Sequence[int] | None = None,
        dim: Sequence[int] = (-2, -1),
        norm: str | None = None,
        *,
        out: Tensor | None = None,
    ) -> Tensor:
        return transform(input, s, dim, norm, out=out)

    of_planes.__name__ = of_planes.__qualname__ = transform.__name__[:-1] + "2"
    of_planes.__doc__ = f"{transform.__name__} over the last two dims."
    return of_planes


fft2: _OfPlanes = _over_two_dims(fftn)
ifft2: _OfPlanes = _over_two_dims(ifftn)
rfft2: _OfPlanes = _over_two_dims(rfftn)
irfft2: _OfPlanes = _over_two_dims(irfftn)
hfft2: _OfPlanes = _over_two_dims(hfftn)
ihfft2: _OfPlanes = _over_two_dims(ihfftn)


def _sizes_and_dims(name, input, s, dim):
    s = None if s is None else list(integers(s))
    dim = None if dim is None else list(integers(dim))
    if s is not None and dim is not None and len(s) != len(dim):
        raise RuntimeError(
            f"{name}: When dim and shape are both given, they must have the same length"
        )
    if s is not None and len(s) > input.dim():
        raise RuntimeError(
            f"{name}: Got shape with {len(s)} values but input tensor only has {input.dim()} "
            "dimensions."
        )
    if dim is None:
        dim = (
            list(range(input.dim() - len(s), input.dim()))
            if s is not None
            else list(range(input.dim()))
        )
    sizes = [None if n == -1 else n for n in s] if s is not None else [None] * len(dim)
    return sizes, dim


def _wrapped(name, input, dims):
    count, wrapped = input.dim(), []
    for d in dims:
        if not count:
            raise IndexError(f"{name}: Dimension specified as {d} but tensor has no dimensions")
        if not -count <= d < count:
            raise IndexError(
                f"{name}: Dimension out of range (expected to be in range of [{-count}, "
                f"{count - 1}], but got {d})"
            )
        wrapped.append(d % count)
    if len(wrapped) > 1 and len(set(wrapped)) != len(wrapped):
        raise RuntimeError(f"{name}: FFT dims must be unique")
    return wrapped


def _promoted(name, input):
    if input.is_complex():
        return input
    if input.dtype in (rushlight.float16, rushlight.bfloat16):
        raise RuntimeError(f"{name}: Unsupported dtype {input.dtype}")
    if input.is_floating_point():
        return input
    return input.to(rushlight.get_default_dtype())


def _as_complex(input):
    return input if input.is_complex() else input.to(input.dtype.to_complex())


def _resized(name, input, sizes, dims):
    """The input, cut or padded with zeros to the sizes that are given."""
    shape, added = input.shape, {}
    for n, d in zip(sizes, dims):
        points = shape[d]
        if n is None:
            n = points
        if n < 1:
            raise RuntimeError(f"{name}: Invalid number of data points ({n}) specified")
        if n < points:
            input = input.narrow(d, 0, n)
        elif n > points:
            added[d] = n - points
    if not added:
        return input
    last_first = reversed(range(input.dim()))
    return rushlight.constant_pad_nd(input, [n for d in last_first for n in (0, added.get(d, 0))])


def _scale(name, norm, inverse, input, dims, n=1):
    """The factor of a transform of n times as many points as `input` has along dims."""
    if norm not in (None, "backward", "forward", "ortho"):
        raise RuntimeError(f"{name}: Invalid normalization mode: {norm!r}")
    if norm != "ortho" and (norm == "forward") == inverse:
        return 1.0
    shape = input.shape
    points = n * math.prod(shape[d] for d in dims)
    return 1 / math.sqrt(points) if norm == "ortho" else 1 / points


def _complex(name, input, sizes, dims, norm, inverse):
    dims = _wrapped(name, input, dims)
    input = _promoted(name, input)
    if name == "fft" and not input.is_complex():
        input = _resized(name, input, sizes, dims)
        return _whole_of_real(input, dims, _scale(name, norm, inverse, input, dims))
    input = _resized(name, _as_complex(input), sizes, dims)
    return _native._c2c(input, dims, inverse, _scale(name, norm, inverse, input, dims))


@shown_as("FftR2CBackward0", "input")
def _whole_of_real(input, dims, scale):
    """The transform of real numbers, of all frequencies."""
    return _native._c2c(_as_complex(input), dims, False, scale)


def _from_real(name, input, sizes, dims, norm, inverse=False):
    if input.is_complex():
        real = "real-valued" if name.endswith("n") else "real"
        raise RuntimeError(f"{name} expects a {real} input tensor, but got {input.dtype}")
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    dims = _wrapped(name, input, dims)
    input = _resized(name, _promoted(name, input), sizes, dims)
    *others, last = dims
    scale = _scale(name, norm, inverse, input, dims)
    if not inverse:
        return _half_of_real(input, dims, scale)
    half = _native._r2c(input, last, input.shape[last], False, scale, False)
    half = half.conj_physical()  # so that the parts of real frequencies are -0
    # torch lays out an inverse transform as one after the other
    return _native._c2c(half, others, inverse, 1.0, False) if others else half


@shown_as("FftR2CBackward0", "input")
def _half_of_real(input, dims, scale):
    """The transform of real numbers, of half the frequencies of the last dim."""
    *others, last = dims
    if others:
        input = _others_last(input, dims)
    half = _native._r2c(input, last, input.shape[last], False, scale, False)
    return _native._c2c(half, others, False, 1.0, True) if others else half


def _others_last(input, dims):
    """input with the last of dims last in memory, and the others of them before it."""
    *others, last = dims
    falling = sorted(range(input.dim()), key=lambda d: -input.stride(d))
    order = [d for d in falling if d not in dims] + [d for d in falling if d in others] + [last]
    return input.permute(order).contiguous().permute([order.index(d) for d in range(len(order))])


def _to_real(name, input, sizes, dims, norm, inverse):
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    dims = _wrapped(name, input, dims)
    *others, last = dims
    n = 2 * (input.shape[last] - 1) if sizes[-1] is None else sizes[-1]
    if n < 1:
        raise RuntimeError(f"{name}: Invalid number of data points ({n}) specified")
    half = _resized(name, _as_complex(_promoted(name, input)), [*sizes[:-1], n // 2 + 1], dims)
    scale = _scale(name, norm, inverse, half, others, n)
    if inverse:
        return _real_of_half(half, dims, n, scale)
    if others:
        half = _native._c2c(half, others, inverse, 1.0)
    return _native._c2r(half, last, n, inverse, scale, True)


@shown_as("FftC2RBackward0", "half")
def _real_of_half(half, dims, n, scale):
    """The inverse transform of half the frequencies of the last dim: n real numbers there."""
    *others, last = dims
    if others:
        half = _native._c2c(half, others, True, 1.0)
    return _native._c2r(half, last, n, True, scale, True)
