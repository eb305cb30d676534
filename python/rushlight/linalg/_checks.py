"""Checks that the functions of linear algebra share."""

from __future__ import annotations

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight import Tensor


def check_matrix(name: str, a: Tensor) -> None:
    """Raise unless `a` is a floating point or complex matrix, or a batch of them."""
    if a.dim() < 2:
        raise RuntimeError(
            f"{name}: The input tensor A must have at least 2 dimensions, got shape {list(a.shape)}"
        )
    check_inexact(name, a)


def check_inexact(name: str, a: Tensor) -> None:
    if not (a.is_floating_point() or a.is_complex()):
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. Got {a.dtype}"
        )


def check_square(name: str, a: Tensor) -> None:
    check_matrix(name, a)
    if a.shape[-1] != a.shape[-2]:
        raise RuntimeError(
            f"{name}: A must be batches of square matrices, but they are {a.shape[-2]} by "
            f"{a.shape[-1]} matrices"
        )


def eps(a: Tensor) -> float:
    return rushlight.finfo(a.dtype).eps
