"""What torch has in `torch._C._nn`: functions of `nn.functional`, by the names of operations."""

from __future__ import annotations

from rushlight._utils import (
    _flatten_dense_tensors as flatten_dense_tensors,
    _unflatten_dense_tensors as unflatten_dense_tensors,
)
from rushlight.nn import functional as F
from rushlight.nn.modules._conversion import _parse_to

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["_parse_to", "flatten_dense_tensors", "unflatten_dense_tensors"]

_INTERPOLATED = {
    **{f"upsample_nearest{n}d": "nearest" for n in (1, 2, 3)},
    **{f"_upsample_nearest_exact{n}d": "nearest-exact" for n in (1, 2, 3)},
    "upsample_linear1d": "linear", "upsample_bilinear2d": "bilinear",
    "upsample_bicubic2d": "bicubic", "upsample_trilinear3d": "trilinear",
}  # fmt: skip


def _interpolation(name, mode):
    def resampled(input, output_size, *rest, align_corners=None, scale_factors=None):
        if mode.startswith("nearest"):
            (scale_factors,) = rest or (scale_factors,)
        elif rest:
            align_corners, *factors = rest
            (scale_factors,) = factors or (scale_factors,)
        scale = None if output_size is not None else scale_factors
        return F.interpolate(input, output_size, scale, mode, align_corners)

    resampled.__name__ = resampled.__qualname__ = name
    resampled.__doc__ = f"Return `input` in another size: see `interpolate`, mode {mode!r}."
    return resampled


globals().update({name: _interpolation(name, mode) for name, mode in _INTERPOLATED.items()})


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(F, name)
