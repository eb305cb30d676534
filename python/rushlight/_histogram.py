"""How many elements fall between given edges."""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight._out import into
from rushlight.return_types import histogram as _Histogram

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def histogram(
    input: Tensor,
    bins: Tensor | int = 100,
    *,
    range: Sequence[int] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
    out: Tensor | None = None,
) -> Any:
    """Count the elements of each bin; the last bin has its right edge too.

    Args:
        bins: how many bins of equal width, or their edges, ascending.
        range: (least, largest) of equal bins; by default those of input.
        weight: what each element counts, in input's shape.
        density: divide by bin width and total, so that the integral is 1.

    Returns:
        (hist, bin_edges)

    Example:
        >>> rushlight.histogram(rushlight.tensor([1.0, 2, 1, 4]), bins=4).hist
        tensor([2., 1., 0., 1.])
    """
    if not input.is_floating_point():
        raise NotImplementedError(f"histogram: not implemented for dtype {input.dtype}")
    if weight is not None and weight.shape != input.shape:
        raise RuntimeError(
            f"histogram: input {tuple(input.shape)} and weight {tuple(weight.shape)} differ in "
            "shape"
        )
    if isinstance(bins, Tensor):
        if bins.dim() != 1 or bins.dtype != input.dtype or bins.numel() < 2:
            raise RuntimeError(
                f"histogram: expected at least two edges of dtype {input.dtype} in one dim, got "
                "shape "
                f"{tuple(bins.shape)} and dtype {bins.dtype}"
            )
        edges = bins.detach()
    else:
        edges = _equal_bins(input, bins, range)
    with rushlight.no_grad():
        values = input.reshape(-1).contiguous()
        # Places of values below all edges, in each bin, and from the last edge on, NaN too.
        places = rushlight.searchsorted(edges.contiguous(), values, right=True)
        counted = None if weight is None else weight.reshape(-1).to(input.dtype)
        hist = rushlight.bincount(places, counted, edges.numel() + 1)[1:-1].to(input.dtype)
        on_edge = values == edges[-1]
        hist[-1] += on_edge.sum() if counted is None else counted[on_edge].sum()
        if density:
            hist = hist / hist.sum() / edges.diff()
    if out is not None:
        hist, edges = into(out[0], hist), into(out[1], edges)
    return _Histogram(hist, edges)


def _equal_bins(input, bins, limits):
    if bins <= 0:
        raise RuntimeError(f"histogram: bins must be > 0, but got {bins}")
    if limits is not None:
        low, high = (float(limit) for limit in limits)
        if low > high:
            raise RuntimeError(
                f"histogram: min should not exceed max, but got min {low:g} max {high:g}"
            )
    elif input.numel() == 0:
        low, high = 0.0, 1.0
    else:
        low, high = (limit.item() for limit in input.detach().aminmax())
    if not (abs(low) < float("inf") and abs(high) < float("inf")):
        raise RuntimeError(f"histogram: the range [{low}, {high}] of the elements is not finite")
    if low == high:
        low, high = low - 0.5, high + 0.5
    return rushlight.linspace(low, high, bins + 1, dtype=input.dtype, device=input.device)


rushlight.overrides._make_overridable(globals(), "rushlight")
