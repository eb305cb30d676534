"""The `reduction` of losses, and the two older arguments that said the same."""

from __future__ import annotations

from rushlight import Tensor
from rushlight._ignored import warn_program

_ENUM = {"none": 0, "mean": 1, "sum": 2}  # as torch's operations take it


def get_enum(reduction: str) -> int:
    """The number that stands for a reduction in `torch.ops.aten`."""
    if reduction == "elementwise_mean":
        warn_program("reduction='elementwise_mean' is deprecated, use reduction='mean'")
        reduction = "mean"
    check_reduction(reduction)
    return _ENUM[reduction]


def legacy_get_enum(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> int:
    """The number of the reduction that `size_average` and `reduce` mean."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))


def legacy_get_string(
    size_average: bool | None,
    reduce: bool | None,
    emit_warning: bool = True,
    *,
    reduction: str = "mean",
) -> str:
    """The reduction that `size_average` and `reduce` mean; `reduction` if neither is given."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is False:
        meant = "none"
    else:
        meant = "sum" if size_average is False else "mean"
    if emit_warning:
        warn_program(f"size_average and reduce are deprecated, use reduction='{meant}'")
    return meant


def check_reduction(reduction: str) -> None:
    """Refuses what is no reduction, before anything is computed."""
    if reduction not in _ENUM:
        raise ValueError(f"{reduction} is not a valid value for reduction")


def reduce_loss(
    loss: Tensor, reduction: str, size_average: bool | None = None, reduce: bool | None = None
) -> Tensor:
    """The mean, the sum or the elements themselves."""
    reduction = legacy_get_string(size_average, reduce, reduction=reduction)
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    check_reduction(reduction)
    return loss
