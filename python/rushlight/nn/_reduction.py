"""The `reduction` of losses, and the two older arguments that said the same."""

from __future__ import annotations

from rushlight import Tensor
from rushlight._ignored import warn_program


def legacy_get_string(
    size_average: bool | None, reduce: bool | None, reduction: str = "mean"
) -> str:
    """The reduction that `size_average` and `reduce` mean; `reduction` if neither is given."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is False:
        meant = "none"
    else:
        meant = "sum" if size_average is False else "mean"
    warn_program(f"size_average and reduce are deprecated, use reduction='{meant}'")
    return meant


def check_reduction(reduction: str) -> None:
    """Refuses what is no reduction, before anything is computed."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")


def reduce_loss(
    loss: Tensor, reduction: str, size_average: bool | None = None, reduce: bool | None = None
) -> Tensor:
    """The mean, the sum or the elements themselves."""
    reduction = legacy_get_string(size_average, reduce, reduction)
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    check_reduction(reduction)
    return loss
