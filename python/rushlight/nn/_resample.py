"""Resizing and sampling of images; `functional` exports it."""

import math
import warnings

import rushlight
from rushlight._ops import nn_functional as _table
from rushlight.nn import functional as F

_DIMS_OF_MODE = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}
_PLAIN_MODES = ("nearest", "nearest-exact", "area")


def interpolate(
    input,
    size=None,
    scale_factor=None,
    mode="nearest",
    align_corners=None,
    recompute_scale_factor=None,
    antialias=False,
):
    """Resize the spatial dims of (N, C, *) to `size` or by `scale_factor`. See `nn.Upsample`.

    Args:
        mode: nearest, nearest-exact, linear, bilinear, bicubic, trilinear or area.
        align_corners: whether the corner pixels of input and output coincide.
        recompute_scale_factor: whether to take the scale from the sizes, not from `scale_factor`.
        antialias: with bilinear and bicubic, average over all of the input when shrinking.
    """
    if mode in _PLAIN_MODES:
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: linear | "
                "bilinear | bicubic | trilinear"
            )
    elif align_corners is None:
        align_corners = False
    dims = input.dim() - 2
    size, scales = _target_size(input, dims, size, scale_factor, recompute_scale_factor)
    if antialias and not (mode in ("bilinear", "bicubic") and dims == 2):
        raise ValueError(
            "Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D "
            "tensor as input"
        )
    if dims not in (1, 2, 3) or mode not in (*_PLAIN_MODES, *_DIMS_OF_MODE):
        raise NotImplementedError(
            f"interpolate: input of {input.dim()} dims and mode {mode!r} are not supported; inputs "
            f"have 3, 4 or 5 dims and mode is one of {(*_PLAIN_MODES, *_DIMS_OF_MODE)}"
        )
    if _DIMS_OF_MODE.get(mode, dims) != dims:
        raise NotImplementedError(
            f"Got {input.dim()}D input, but {mode} mode needs {_DIMS_OF_MODE[mode] + 2}D input"
        )
    if mode == "area":
        pool = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)[dims - 1]
        return pool(input, size)
    return _table._interpolate(input, size, mode, bool(align_corners), antialias, scales)


def _target_size(input, dims, size, scale_factor, recompute_scale_factor):
    """The output's spatial size, and the factors that the result shall be exact for."""
    if (size is None) == (scale_factor is None):
        what = "either" if size is None else "only one of"
        raise ValueError(f"{what} size or scale_factor should be defined")
    given = size if scale_factor is None else scale_factor
    values = list(given) if isinstance(given, (list, tuple)) else [given] * dims
    if len(values) != dims:
        name = "size" if scale_factor is None else "scale_factor"
        raise ValueError(
            f"Input and {name} must have the same number of spatial dimensions, but got input with "
            f"spatial dimensions of {list(input.shape[2:])} and {name} of {given}"
        )
    if scale_factor is None:
        if recompute_scale_factor:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        return values, []
    factors = [float(value) for value in values]
    size = [math.floor(n * factor) for n, factor in zip(input.shape[2:], factors)]
    return size, [] if recompute_scale_factor else factors


# -- sampling at the places of a grid ------------------------------------------------------------


def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    """Sample (N, C, *) at the places that `grid` lists.

    Args:
        grid: (N, *out, 2 or 3): x, y(, z) in [-1, 1] from one side of the image to the other.
        mode: bilinear (linear in every dim), nearest or bicubic.
        padding_mode: what lies outside: zeros, border or reflection.
        align_corners: whether -1 and 1 are the centres or, by default, the edges of the corner
            pixels.

    Returns:
        (N, C, *out)
    """
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError(
            "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', "
            f"but got: {mode!r}"
        )
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or "
            f"'reflection', but got: {padding_mode!r}"
        )
    if align_corners is None:
        warnings.warn(
            "grid_sample: align_corners is False by default since version 1.3", stacklevel=2
        )
        align_corners = False
    dims = input.dim() - 2
    _check_grid(input, grid, dims, mode)
    # Places in units of pixels, the last spatial dim first in the grid.
    places = []
    for d in range(dims):
        size, at = input.shape[2 + d], grid[..., dims - 1 - d]
        places.append((at + 1) / 2 * (size - 1) if align_corners else ((at + 1) * size - 1) / 2)
    edges = (padding_mode, align_corners)
    if mode == "bicubic":
        return _bicubic(input, places, edges)
    places = [_inside(at, input.shape[2 + d], *edges) for d, at in enumerate(places)]
    if mode == "nearest":
        return _pixels(input, [at.round() for at in places])
    return _linear(input, places)


def _check_grid(input, grid, dims, mode):
    if grid.dtype != input.dtype:
        raise RuntimeError(
            "grid_sample: expected input and grid to have the same dtype but got "
            f"{input.dtype} and {grid.dtype}"
        )
    if grid.dim() == 0 or grid.shape[-1] != dims or grid.dim() != input.dim() or dims not in (2, 3):
        raise RuntimeError(
            "grid_sample: expected a 4D or 5D input, and a grid of as many dims whose last has "
            f"size {dims}, but got shapes {tuple(input.shape)} and {tuple(grid.shape)}"
        )
    if grid.shape[0] != input.shape[0]:
        raise RuntimeError(
            "grid_sample: expected grid and input to have same batch size, but got shapes "
            f"{tuple(input.shape)} and {tuple(grid.shape)}"
        )
    if 0 in input.shape[2:]:
        raise RuntimeError(
            "grid_sample: expected input to have non-empty spatial dimensions, but got shape "
            f"{tuple(input.shape)}"
        )
    if mode == "bicubic" and dims != 2:
        raise RuntimeError("grid_sample: bicubic interpolation only supports 4D input")


def _inside(at, size, padding_mode, align_corners):
    """Places with those outside the image moved in, as the padding mode says."""
    if padding_mode == "zeros":
        return at
    if padding_mode == "reflection":
        low, span = (0.0, size - 1) if align_corners else (-0.5, size)
        if span == 0:
            at = at * 0
        else:
            distance = (at - low).abs()
            turns = (distance / span).detach().floor()
            rest = distance - turns * span
            at = rushlight.where(turns % 2 == 0, rest, span - rest) + low
    # What is not a number comes to the first pixel.
    return rushlight.where(at.isnan(), rushlight.zeros_like(at), at).clamp(0, size - 1)


def _pixels(input, places):
    """The pixels (N, C, *out) at whole places, one tensor (N, *out) for each dim; 0 outside."""
    sizes = input.shape[2:]
    flat, inside = 0, True
    for at, size in zip(places, sizes):
        inside = (at >= 0) & (at <= size - 1) & inside
        flat = flat * size + at.detach().clamp(0, size - 1).nan_to_num(0).to(rushlight.int64)
    batch, channels = input.shape[:2]
    index = flat.reshape(batch, 1, -1).expand(-1, channels, -1)
    found = input.reshape(batch, channels, -1).gather(2, index)
    found = found.reshape(batch, channels, *flat.shape[1:])
    return found.masked_fill(~inside.unsqueeze(1), 0)


def _linear(input, places):
    """The pixels around each place, the nearer the heavier."""
    below = [at.detach().floor() for at in places]
    total = 0
    for corner in range(2 ** len(places)):
        weight, at = 1, []
        for d, (place, low) in enumerate(zip(places, below)):
            high = corner >> d & 1
            past = place - low
            weight = weight * (past if high else 1 - past)
            at.append(low + high)
        total = total + _pixels(input, at) * weight.unsqueeze(1)
    return total


def _bicubic(input, places, edges):
    below = [at.detach().floor() for at in places]
    weights = [_cubic_weights(at - low) for at, low in zip(places, below)]
    total = 0
    for i in range(4):
        row, line = _inside(below[0] + (i - 1), input.shape[2], *edges), 0
        for j in range(4):
            column = _inside(below[1] + (j - 1), input.shape[3], *edges)
            line = line + _pixels(input, [row, column]) * weights[1][j].unsqueeze(1)
        total = total + line * weights[0][i].unsqueeze(1)
    return total


def _cubic_weights(t, sharpness=-0.75):
    """Weights of the four neighbours of a place t past the second one (Keys, 1981)."""

    def near(x):
        return ((sharpness + 2) * x - (sharpness + 3)) * x * x + 1

    def far(x):
        return ((sharpness * x - 5 * sharpness) * x + 8 * sharpness) * x - 4 * sharpness

    return far(t + 1), near(t), near(1 - t), far(2 - t)
