"""Histograms of points of several dims."""

from __future__ import annotations

import rushlight
from rushlight._integers import is_integer
from rushlight.return_types import histogramdd as _Histogram

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight import Tensor


def histogramdd(
    input: Tensor,
    bins: Sequence[Any] | int,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """How many points lie in each box of a grid.

    Args:
        input: points of shape (*, D).
        bins: the number of equal bins of all D dims, or of each; or, D tensors, their edges. The
            last bin of a dim has both edges.
        range: lower and upper end of each dim, 2 D numbers; the points' own by default.
        weight: what each point counts, of shape (*).
        density: divide by the sum and by the size of the boxes: an integral of 1.

    Returns:
        hist of one dim per coordinate, and the tuple of bin_edges.

    Raises:
        RuntimeError: for bins, range or weight that do not fit.

    Example::

        >>> points = rushlight.tensor([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0], [2.0, 2.0]])
        >>> hist, edges = rushlight.histogramdd(points, [2, 2])
        >>> hist.tolist()
        [[0.0, 1.0], [1.0, 2.0]]
    """
    if input.dim() < 2:
        raise RuntimeError(
            "torch.histogramdd: input tensor should have at least 2 dimensions, got shape "
            f"{tuple(input.shape)}"
        )
    if not input.is_floating_point():
        raise RuntimeError(
            f"torch.histogramdd: input should be of a floating point type, got {input.dtype}"
        )
    points = input.detach().reshape(-1, input.shape[-1])
    count, dims = points.shape
    bins = [int(bins)] * dims if is_integer(bins) else list(bins)
    if len(bins) != dims:
        raise RuntimeError(
            "histogramdd: The size of bins must be equal to the innermost dimension of the input: "
            f"got {len(bins)} for {dims}"
        )
    if range is not None and len(range) != 2 * dims:
        raise RuntimeError(
            f"torch.histogramdd: for a {dims}-dimensional histogram range should have {2 * dims} "
            f"elements, but got {len(range)}"
        )
    if weight is not None:
        if tuple(weight.shape) != tuple(input.shape[:-1]) or weight.dtype != input.dtype:
            raise RuntimeError(
                "torch.histogramdd: if weight tensor is provided it should have the shape and "
                "dtype of the input without its last dim, "
                f"{tuple(input.shape[:-1])} and {input.dtype}, but got {tuple(weight.shape)} and "
                f"{weight.dtype}"
            )
        weight = weight.detach().reshape(-1)
    edges = tuple(
        _edges(points[:, d], bins[d], None if range is None else range[2 * d : 2 * d + 2])
        for d in _count(dims)
    )
    inside = rushlight.ones(count, dtype=rushlight.bool, device=input.device)
    place = rushlight.zeros(count, dtype=rushlight.int64, device=input.device)
    for d in _count(dims):
        values, last = points[:, d].contiguous(), edges[d].numel() - 2
        inside &= (values >= edges[d][0]) & (values <= edges[d][-1])
        at = rushlight.searchsorted(edges[d], values, right=True) - 1
        place = place * (last + 1) + at.clamp(0, last)
    shape = [e.numel() - 1 for e in edges]
    total = 1
    for size in shape:
        total *= size
    ones = (
        rushlight.ones(count, dtype=input.dtype, device=input.device) if weight is None else weight
    )
    hist = rushlight.zeros(total, dtype=input.dtype, device=input.device)
    hist = hist.index_add(0, place[inside], ones[inside]).reshape(shape)
    if density:
        hist = hist / hist.sum()
        for d, e in enumerate(edges):
            size = [1] * dims
            size[d] = -1
            hist = hist / e.diff().view(size)
    return _Histogram(hist, edges)


_count = range


def _edges(values, bins, ends):
    if isinstance(bins, rushlight.Tensor):
        if bins.dim() != 1 or bins.numel() < 2:
            raise RuntimeError(
                "torch.histogramdd: bins tensor should have one dimension and 2 or more edges, "
                f"but got shape {tuple(bins.shape)}"
            )
        if bins.dtype != values.dtype:
            raise RuntimeError(
                "torch.histogramdd: input tensor and bins tensors should have the same dtype, but "
                f"got {values.dtype} and {bins.dtype}"
            )
        return bins.detach().contiguous()
    if bins <= 0:
        raise RuntimeError(f"torch.histogramdd: bins must be > 0, but got {bins}")
    if ends is not None:
        low, high = (float(end) for end in ends)
        if not (abs(low) < float("inf") and abs(high) < float("inf")):
            raise RuntimeError(f"torch.histogramdd: range [{low}, {high}] is not finite")
    elif values.numel():
        low, high = values.min().item(), values.max().item()
        if not (abs(low) < float("inf") and abs(high) < float("inf")):
            raise RuntimeError(
                f"torch.histogramdd: range of [{low}, {high}] is not finite: give range"
            )
    else:
        low, high = 0.0, 1.0
    if low > high:
        raise RuntimeError(
            f"torch.histogramdd: min should not exceed max, but got min {low} max {high}"
        )
    if low == high:
        low, high = low - 0.5, high + 0.5
    return rushlight.linspace(low, high, bins + 1, dtype=values.dtype, device=values.device)


rushlight.overrides._make_overridable(globals(), "rushlight")
