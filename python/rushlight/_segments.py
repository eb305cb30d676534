"""Reductions over segments of unequal length: `segment_reduce`."""

from __future__ import annotations

import rushlight
from rushlight._shown_name import shown_as
from rushlight.autograd.function import Function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor

# What an empty segment holds, and the name that scatter_reduce has for the reduction.
_REDUCTIONS = {
    "sum": (0.0, "sum"),
    "mean": (0.0, "sum"),
    "prod": (1.0, "prod"),
    "max": (float("-inf"), "amax"),
    "amax": (float("-inf"), "amax"),
    "min": (float("inf"), "amin"),
    "amin": (float("inf"), "amin"),
}


@shown_as("SegmentReduceBackward0", "data")
def segment_reduce(
    data: Any,
    reduce: bool | None,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Tensor:
    """Reduce consecutive parts of `data` along `axis`.

    Args:
        data: floating point, of shape (*batch, length, *rest) with `axis` batch dimensions.
        reduce: "sum", "mean", "prod", "max" or "amax", "min" or "amin".
        lengths: the length of each segment, of shape (*batch, segments).
        indices: not implemented, as in torch.
        offsets: where each segment begins, and the end of the last, in place of `lengths`.
        axis: the dimension of `data` that is divided.
        unsafe: do not check that the lengths are not negative and add up to the whole.
        initial: what each reduction begins with; without it the mean of an empty segment is NaN.

    Returns:
        A tensor of shape (*batch, segments, *rest).

    Example:
        >>> data = rushlight.tensor([1.0, 2.0, 3.0, 4.0])
        >>> segment_reduce(data, "sum", lengths=rushlight.tensor([1, 0, 3]))
        tensor([1., 0., 9.])
    """
    if reduce not in _REDUCTIONS:
        raise RuntimeError(f"segment_reduce: unsupported reduction {reduce!r}")
    if not data.is_floating_point():
        raise NotImplementedError(f"segment_reduce: not implemented for dtype {data.dtype}")
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    if not -data.dim() <= axis < data.dim():
        raise IndexError(f"segment_reduce: axis {axis} is out of range for shape {data.shape}")
    axis %= data.dim()
    lengths = _checked_lengths(data, lengths, offsets, axis, unsafe)
    batch, rest = data.shape[:axis], data.shape[axis + 1 :]
    rows, segments, length = batch.numel(), lengths.size(-1), data.size(axis)
    if data.is_meta:
        return data.new_empty((*batch, segments, *rest))
    starts = lengths.cumsum(-1) - lengths if offsets is None else offsets[..., :-1]
    counts = lengths.reshape(-1)
    members = rushlight.repeat_interleave(
        rushlight.arange(rows * segments, device=data.device), counts.to(data.device)
    )
    elements = data.reshape(rows * length, *rest)
    if counts.sum() != rows * length:  # unsafe: elements that are in no segment
        of_rows = rushlight.arange(rows, device=data.device)
        firsts = (starts.reshape(rows, segments) + length * of_rows[:, None]).ravel()
        within = rushlight.arange(len(members), device=data.device)
        places = within - (counts.cumsum(0) - counts)[members]
        elements = elements[firsts[members] + places]
    members = members.reshape(-1, *(1 for _ in rest)).expand(elements.shape)
    empty, scatter = _REDUCTIONS[reduce]
    out = data.new_full((rows * segments, *rest), empty if initial is None else initial)
    if elements.requires_grad and scatter in ("amax", "amin"):
        out = _Extremes.apply(out, members, elements, scatter)
    elif elements.requires_grad and scatter == "prod" and bool(elements.isnan().any()):
        out = _products(out, members, elements, counts)
    else:
        out = out.scatter_reduce(0, members, elements, scatter)
    if reduce == "mean":
        parts = counts.to(data.dtype).reshape(-1, *(1 for _ in rest))
        out = out / (parts if initial is None else parts.clamp(min=1))
    return out.reshape(*batch, segments, *rest)


class _Extremes(Function):
    """Elements equal to an extreme share its gradient, NaNs if that is NaN; `initial` has none."""

    @staticmethod
    def forward(ctx: Any, start: Tensor, members: Tensor, elements: Tensor, reduce: str) -> Tensor:
        out = start.scatter_reduce(0, members, elements, reduce)
        extremes = out.gather(0, members)
        hits = (elements == extremes) | (elements.isnan() & extremes.isnan())
        ties = rushlight.zeros_like(out).scatter_add(0, members, hits.to(out.dtype))
        ctx.save_for_backward(members, hits / ties.gather(0, members).clamp(min=1))
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        members, shares = ctx.saved_tensors
        return None, None, gradient.gather(0, members) * shares, None


def _products(start, members, elements, counts):
    """Segment by segment, as rows that are filled up with ones: the gradient of a product is not
    found by division where there are NaNs."""
    of_first = members.reshape(len(members), -1)[:, 0]
    places = rushlight.arange(len(members), device=members.device)
    places = places - (counts.cumsum(0) - counts).to(members.device)[of_first]
    rows = start.new_ones((len(start), 1 + int(counts.max()), *start.shape[1:]))
    rows[:, 0] = start
    return rows.index_put((of_first, 1 + places), elements).prod(1)


def _segment_reduce(
    data, reduce, *, lengths=None, indices=None, offsets=None, axis=0, unsafe=False, initial=None
):
    """Reduce parts of `data`: see `segment_reduce`."""
    return segment_reduce(
        data, reduce, lengths=lengths, indices=indices, offsets=offsets, axis=axis, unsafe=unsafe,
        initial=initial,
    )  # fmt: skip


def _checked_lengths(data, lengths, offsets, axis, unsafe):
    if lengths is None and offsets is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    given = offsets if lengths is None else lengths
    if given.dim() != axis + 1 or given.shape[:-1] != data.shape[:axis]:
        raise RuntimeError(
            f"segment_reduce(): lengths or offsets of shape {tuple(given.shape)} do not fit data "
            f"of shape {tuple(data.shape)} with axis {axis}"
        )
    if lengths is None:
        lengths = offsets.diff()
        if data.is_meta or given.is_meta:
            return lengths
        if not unsafe and not bool((offsets[..., :1] == 0).all()):
            raise RuntimeError("segment_reduce(): offsets must begin with 0")
    if unsafe or data.is_meta or given.is_meta:
        return lengths
    if bool((lengths < 0).any()):
        raise RuntimeError("segment_reduce(): lengths contains negative value!")
    if not bool((lengths.sum(-1) == data.size(axis)).all()):
        raise RuntimeError(
            "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(axis) "
            f"when !unsafe, and data.size(axis) is {data.size(axis)}"
        )
    return lengths


rushlight.overrides._make_overridable(globals(), "rushlight")
