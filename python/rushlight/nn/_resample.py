"""Resizing and sampling of images; `functional` exports it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rushlight import Tensor
from rushlight._autocast import autocasts
from rushlight._ignored import warn_program
from rushlight._table import nn_functional as _table
from rushlight.nn import _pooling

_DIMS_OF_MODE = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}
_PLAIN_MODES = ("nearest", "nearest-exact", "area")


def interpolate(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
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
            f"interpolate: inputs have 3, 4 or 5 dims (got {input.dim()}), and mode is one of "
            f"{' | '.join((*_PLAIN_MODES, *_DIMS_OF_MODE))} (got {mode})"
        )
    if _DIMS_OF_MODE.get(mode, dims) != dims:
        raise NotImplementedError(
            f"Got {input.dim()}D input, but {mode} mode needs {_DIMS_OF_MODE[mode] + 2}D input"
        )
    if mode == "area":
        return getattr(_pooling, f"adaptive_avg_pool{dims}d")(input, size)
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


@autocasts("float32")
def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
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
        warn_program("grid_sample: align_corners is False by default since version 1.3")
        align_corners = False
    orders = [0] * (input.dim() - 2)
    return _table._grid_sample(input, grid, orders, mode, padding_mode, bool(align_corners))
