"""Poolings that are combinations of other operations; `functional` exports them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import rushlight
from rushlight import Tensor
from rushlight._autocast import autocasts
from rushlight._shown_name import shown_as
from rushlight._table import nn_functional as _table
from rushlight.nn._channels_last import in_format_of
from rushlight.nn._ntuple import _ntuple

TYPE_CHECKING = False


def _lp_pool(avg_pool, input, norm_type, kernel_size, stride, ceil_mode, dims):
    _check_spatial(input, dims, f"lp_pool{dims}d")
    kernel = _ntuple(dims)(kernel_size)
    size = 1
    for k in kernel:
        size *= k
    mean = avg_pool(input.pow(norm_type), kernel, stride, 0, ceil_mode)
    # A mean may come out negative only by odd norm_type; its root is taken of the size.
    return (mean.sign() * mean.abs().relu()).mul(size).pow(1.0 / norm_type)


def _check_spatial(input, dims, name):
    if input.dim() not in (dims + 1, dims + 2):
        raise RuntimeError(
            f"{name}: expected {dims + 1} or {dims + 2} dims but got shape {tuple(input.shape)}"
        )


def lp_pool1d(
    input: Tensor,
    norm_type: float,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """(sum x^p)^(1/p) of each window of (N, C, L)."""
    return _lp_pool(_table.avg_pool1d, input, norm_type, kernel_size, stride, ceil_mode, 1)


def lp_pool2d(
    input: Tensor,
    norm_type: float,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """(sum x^p)^(1/p) of each window of (N, C, H, W)."""
    return _lp_pool(_table.avg_pool2d, input, norm_type, kernel_size, stride, ceil_mode, 2)


def lp_pool3d(
    input: Tensor,
    norm_type: float,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """(sum x^p)^(1/p) of each window of (N, C, D, H, W)."""
    return _lp_pool(_table.avg_pool3d, input, norm_type, kernel_size, stride, ceil_mode, 3)


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """x / (k + alpha * mean of x^2 over `size` neighbouring channels)^beta."""
    if input.dim() < 3:
        raise ValueError(
            f"local_response_norm: expected at least 3 dims but got shape {tuple(input.shape)}"
        )
    if input.numel() == 0:
        return input
    # Channels as the rows of an image: their window is a pooling window.
    squares = (input * input).flatten(2).unsqueeze(1)
    squares = _table.pad(squares, (0, 0, size // 2, (size - 1) // 2))
    mean = _table.avg_pool2d(squares, (size, 1), stride=1).squeeze(1)
    if mean.shape != input.shape:
        mean = mean.view(input.shape)
    return input / (mean * alpha + k).pow(beta)


# -- the reverse of max pooling ------------------------------------------------------------------


def _max_unpool(input, indices, kernel_size, stride, padding, output_size, dims):
    name = f"max_unpool{dims}d"
    _check_spatial(input, dims, name)
    if indices.dtype != rushlight.int64:
        raise RuntimeError(f"{name}: indices must be int64 but are {indices.dtype}")
    if indices.shape != input.shape:
        raise RuntimeError(
            f"{name}: Expected shape of indices to be that of the input, {tuple(input.shape)}, but "
            f"got {tuple(indices.shape)}"
        )
    ntuple = _ntuple(dims)
    kernel = ntuple(kernel_size)
    stride = kernel if stride is None else ntuple(stride)
    size = _unpool_output_size(input, kernel, stride, ntuple(padding), output_size)
    positions = 1
    for n in size:
        positions *= n
    places = indices.flatten(-dims)
    known = places.numel() and not places.is_meta
    if known and not bool(((places >= 0) & (places < positions)).all()):
        raise RuntimeError(
            f"{name}: indices must be below the output's {positions} positions but are in "
            f"[{int(places.min())}, {int(places.max())}]"
        )
    if dims == 1:  # planes of one row
        lengths = [*input.shape[:-1], 1, *size]
        planes = _table._max_unpool(input.unsqueeze(-2), indices.unsqueeze(-2), lengths, 2)
        return planes.squeeze(-2)
    output = _table._max_unpool(input, indices, [*input.shape[:-dims], *size], dims)
    return in_format_of(input, output) if dims == 2 else output


def _unpool_output_size(input, kernel_size, stride, padding, output_size):
    dims = len(kernel_size)
    sizes = input.shape[-dims:]
    default = [(n - 1) * s + k - 2 * p for n, k, s, p in zip(sizes, kernel_size, stride, padding)]
    if output_size is None:
        return default
    output_size = list(output_size)
    if len(output_size) == dims + 2:
        output_size = output_size[2:]
    if len(output_size) != dims:
        raise ValueError(
            f"output_size: expected {dims} or {dims + 2} sizes but got {len(output_size)}"
        )
    for n, size, s in zip(output_size, default, stride):
        if not size - s < n < size + s:
            raise ValueError(f"output_size: {output_size} is not within one stride of {default}")
    return output_size


def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Maxima put back where max_pool1d found them, zeros elsewhere."""
    return _max_unpool(input, indices, kernel_size, stride, padding, output_size, 1)


@autocasts("float32")
@shown_as("MaxUnpool2DBackward0", "input")
def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Maxima put back where max_pool2d found them, zeros elsewhere."""
    return _max_unpool(input, indices, kernel_size, stride, padding, output_size, 2)


@autocasts("float32")
@shown_as("MaxUnpool3DBackward0", "input")
def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Maxima put back where max_pool3d found them, zeros elsewhere."""
    return _max_unpool(input, indices, kernel_size, stride, padding, output_size, 3)


# -- fractional max pooling ----------------------------------------------------------------------


def _fractional_max_pool(
    input, kernel_size, output_size, output_ratio, return_indices, samples, dims
):
    name = f"fractional_max_pool{dims}d"
    ntuple = _ntuple(dims)
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name}: give output_size or output_ratio")
    _check_spatial(input, dims, name)
    if output_size is None:
        ratio = ntuple(output_ratio)
        if len(ratio) != dims:
            raise ValueError(
                f"{name}: output_ratio must be one number or {dims}, but has {len(ratio)}"
            )
        output_size = [int(n * r) for n, r in zip(input.shape[-dims:], ratio)]
    kernel, out = ntuple(kernel_size), ntuple(output_size)
    batched = input.dim() == dims + 2
    images = input if batched else input.unsqueeze(0)
    if samples is None:
        shape = (images.size(0), images.size(1), dims)
        samples = rushlight.rand(shape, dtype=input.dtype, device=input.device)
    if 0 in input.shape[1:]:
        raise RuntimeError(
            f"{name}: Expected input to have non-zero size for non-batch dimensions, but got "
            f"{list(input.shape)}"
        )
    _check_fractional(name, images, kernel, out, samples)
    samples = samples[: images.size(0)]  # a sample for each image, or for more
    # Flat position of every element of every window, built up dim by dim: (N, C, o1, k1, ...).
    places = None
    for d, (n, k, o) in enumerate(zip(images.shape[2:], kernel, out)):
        # The last sample belongs to the last dim but one, as the reference has it.
        order = dims - 1 - d if dims == 2 else d
        along = _window_starts(samples[..., order], n, k, o)
        along = along.unsqueeze(-1) + rushlight.arange(k, device=input.device)
        if places is None:
            places = along
        else:
            before = (slice(None), slice(None)) + (None,) * (2 * d)
            places = places[..., None, None] * n + along[before]
    # Windows last: (N, C, o1, o2, ..., k1 * k2 * ...).
    outs = [2 + 2 * d for d in range(dims)]
    places = places.permute(0, 1, *outs, *[d + 1 for d in outs]).flatten(2 + dims)
    flat = images.flatten(2)
    values = flat.gather(2, places.flatten(2)).view(places.shape)
    best, which = values.max(-1)
    indices = places.gather(-1, which.unsqueeze(-1)).squeeze(-1)
    if not batched:
        best, indices = best.squeeze(0), indices.squeeze(0)
    return (best, indices) if return_indices else best


def _check_fractional(name, images, kernel, out, samples):
    dims = images.dim() - 2
    for what, sizes in (("kernel_size", kernel), ("output_size", out)):
        if len(sizes) != dims:
            raise RuntimeError(
                f"{name}: {what} must either be a single int or {dims} ints, but is {sizes}"
            )
    for axis, n, k, o in zip(("time", "height", "width")[-dims:], images.shape[2:], kernel, out):
        if o + k - 1 > n:
            raise RuntimeError(
                f"{name}: pool {axis} {k} too large relative to input {axis} {n} with output {o}"
            )
    shape = (*images.shape[:2], dims)
    fits = samples.dim() == 3 and samples.shape[1:] == shape[1:] and len(samples) >= shape[0]
    if not fits:
        raise RuntimeError(
            f"{name}: Expect _random_samples of shape {list(shape)}, but got {list(samples.shape)}"
        )


def _window_starts(sample, size, kernel, out):
    """Where the windows begin: steps of (size - kernel) / (out - 1), shifted by the sample."""
    if out == 1:
        return rushlight.full((*sample.shape, 1), size - kernel, device=sample.device)
    alpha = (size - kernel) / (out - 1)
    steps = rushlight.arange(out, device=sample.device)
    shift = sample.unsqueeze(-1)
    starts = ((steps + shift) * alpha).trunc() - (shift * alpha).trunc()
    starts = starts.to(rushlight.int64)
    return rushlight.where(steps == out - 1, size - kernel, starts)


def _fractional_max_pools(dims):
    shown = shown_as(f"FractionalMaxPool{dims}DBackward0", "input")

    @autocasts("float32")
    @shown
    def pool_with_indices(
        input,
        kernel_size,
        output_size=None,
        output_ratio=None,
        return_indices=False,
        _random_samples=None,
    ):
        return _fractional_max_pool(
            input, kernel_size, output_size, output_ratio, True, _random_samples, dims
        )

    @autocasts("float32")
    @shown
    def pool(
        input,
        kernel_size,
        output_size=None,
        output_ratio=None,
        return_indices=False,
        _random_samples=None,
    ):
        return _fractional_max_pool(
            input, kernel_size, output_size, output_ratio, return_indices, _random_samples, dims
        )

    name = f"fractional_max_pool{dims}d"
    named = (
        (pool, name, f"Maxima of windows at random steps. See `nn.FractionalMaxPool{dims}d`."),
        (pool_with_indices, f"{name}_with_indices",
         f"{name} that also gives where the maxima were."),
    )  # fmt: skip
    return _named(named)


# -- poolings of the op table, in the forms that torch gives them --------------------------------


def _max_pool(dims):
    plain = getattr(_table, f"_max_pool{dims}d")
    with_indices = getattr(_table, f"_max_pool{dims}d_with_indices")

    def max_pool(always_indices):
        def pool(
            input,
            kernel_size,
            stride=None,
            padding=0,
            dilation=1,
            ceil_mode=False,
            return_indices=False,
        ):
            chosen = with_indices if always_indices or return_indices else plain
            return chosen(input, kernel_size, stride, padding, dilation, ceil_mode)

        return pool

    named = (
        (max_pool(False), f"max_pool{dims}d",
         f"Largest element of each {dims}-D window; with its place in its plane on request."),
        (max_pool(True), f"max_pool{dims}d_with_indices",
         f"Largest element of each {dims}-D window, and its place in its plane."),
    )  # fmt: skip
    return _named(named)


def _named(functions):
    for function, name, doc in functions:
        function.__name__ = function.__qualname__ = name
        function.__doc__ = doc
    return [function for function, _, _ in functions]


def _sizes(input, output_size, dims):
    """One size for all dims, or one for each; None keeps the input's."""
    sizes = _ntuple(dims)(output_size)
    if input.dim() <= dims and isinstance(output_size, (tuple, list)):
        raise ValueError(
            f"Input dimension should be at least {dims + 1}, got shape {tuple(input.shape)}"
        )
    _check_spatial(input, dims, "adaptive pooling")
    return [n if s is None else s for s, n in zip(sizes, input.shape[-dims:])]


def _adaptive_pools(dims):
    def adaptive_avg_pool(input, output_size):
        return _table._adaptive_avg_pool(input, _sizes(input, output_size, dims))

    def adaptive_max_pool_with_indices(input, output_size, return_indices=False):
        return _table._adaptive_max_pool(input, _sizes(input, output_size, dims))

    def adaptive_max_pool(input, output_size, return_indices=False):
        found = _table._adaptive_max_pool(input, _sizes(input, output_size, dims))
        return tuple(found) if return_indices else found[0]

    named = (
        (adaptive_avg_pool, f"adaptive_avg_pool{dims}d", "Mean of each of output_size windows."),
        (adaptive_max_pool_with_indices, f"adaptive_max_pool{dims}d_with_indices",
         "Largest element of each of output_size windows, and its place in its plane."),
        (adaptive_max_pool, f"adaptive_max_pool{dims}d",
         "Largest element of each of output_size windows."),
    )  # fmt: skip
    if dims == 3:
        for function, _, _ in named:
            autocasts("float32")(function)
    return _named(named)


if TYPE_CHECKING:
    adaptive_avg_pool1d: Callable[..., Tensor]
    adaptive_avg_pool2d: Callable[..., Tensor]
    adaptive_avg_pool3d: Callable[..., Tensor]
    adaptive_max_pool1d: Callable[..., Tensor]
    adaptive_max_pool1d_with_indices: Callable[..., tuple[Tensor, Tensor]]
    adaptive_max_pool2d: Callable[..., Tensor]
    adaptive_max_pool2d_with_indices: Callable[..., tuple[Tensor, Tensor]]
    adaptive_max_pool3d: Callable[..., Tensor]
    adaptive_max_pool3d_with_indices: Callable[..., tuple[Tensor, Tensor]]
    fractional_max_pool2d: Callable[..., Tensor]
    fractional_max_pool2d_with_indices: Callable[..., tuple[Tensor, Tensor]]
    fractional_max_pool3d: Callable[..., Tensor]
    fractional_max_pool3d_with_indices: Callable[..., tuple[Tensor, Tensor]]
    max_pool1d: Callable[..., Tensor]
    max_pool1d_with_indices: Callable[..., tuple[Tensor, Tensor]]
    max_pool2d: Callable[..., Tensor]
    max_pool2d_with_indices: Callable[..., tuple[Tensor, Tensor]]
    max_pool3d: Callable[..., Tensor]
    max_pool3d_with_indices: Callable[..., tuple[Tensor, Tensor]]
max_pool1d, max_pool1d_with_indices = _max_pool(1)
max_pool2d, max_pool2d_with_indices = _max_pool(2)
max_pool3d, max_pool3d_with_indices = _max_pool(3)
adaptive_avg_pool1d, adaptive_max_pool1d_with_indices, adaptive_max_pool1d = _adaptive_pools(1)
adaptive_avg_pool2d, adaptive_max_pool2d_with_indices, adaptive_max_pool2d = _adaptive_pools(2)
adaptive_avg_pool3d, adaptive_max_pool3d_with_indices, adaptive_max_pool3d = _adaptive_pools(3)
fractional_max_pool2d, fractional_max_pool2d_with_indices = _fractional_max_pools(2)
fractional_max_pool3d, fractional_max_pool3d_with_indices = _fractional_max_pools(3)
