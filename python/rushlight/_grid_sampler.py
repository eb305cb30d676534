"""grid_sample under its older names, which number their modes."""

from __future__ import annotations

from rushlight.nn import functional as F
from rushlight.overrides import _make_overridable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor

_MODES = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")


def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: str, align_corners: bool
) -> Tensor:
    """nn.functional.grid_sample, the modes by their numbers.

    Args:
        interpolation_mode: 0 bilinear, 1 nearest, 2 bicubic.
        padding_mode: 0 zeros, 1 border, 2 reflection.
        align_corners: see `nn.functional.grid_sample`.

    Example::

        >>> image = rushlight.arange(4.0).reshape(1, 1, 2, 2)
        >>> rushlight.grid_sampler(image, rushlight.zeros(1, 1, 1, 2), 0, 0, True).item()
        1.5
    """
    for what, number in (
        ("interpolation_mode", interpolation_mode),
        ("padding_mode", padding_mode),
    ):
        if number not in (0, 1, 2):
            raise RuntimeError(f"grid_sampler: expected {what} to be 0, 1 or 2, but got {number}")
    mode, padding = _MODES[interpolation_mode], _PADDINGS[padding_mode]
    return F.grid_sample(input, grid, mode, padding, align_corners)


def grid_sampler_2d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: str, align_corners: bool
) -> Tensor:
    """grid_sampler of images (N, C, H, W)."""
    _check_dims("grid_sampler_2d", input, 4)
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


def grid_sampler_3d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: str, align_corners: bool
) -> Any:
    """grid_sampler of volumes (N, C, D, H, W)."""
    _check_dims("grid_sampler_3d", input, 5)
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


def _check_dims(name, input, dims):
    if input.dim() != dims:
        raise RuntimeError(
            f"{name}: expected input of {dims} dims, but got shape {tuple(input.shape)}"
        )


_make_overridable(globals(), "rushlight")
