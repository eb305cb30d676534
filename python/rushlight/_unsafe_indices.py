"""Indexing under a mask: what is masked needs no valid index."""

from __future__ import annotations

import rushlight
from rushlight._numpy_names import take_numpy_names
from rushlight._shown_name import shown_as

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rushlight import Tensor


def _clamped(name, input, indices):
    """The indices with none beyond the dim that it is for."""
    if len(indices) > input.dim():
        raise IndexError(
            f"{name}: expected at most {input.dim()} indices for an input of shape "
            f"{tuple(input.shape)} but got {len(indices)}"
        )
    return tuple(
        None if index is None else index.clamp(-size, size - 1)
        for index, size in zip(indices, input.shape)
    )


def _at(input, places):
    return input[tuple(slice(None) if place is None else place for place in places)]


@shown_as("UnsafeMaskedIndexBackward0", "input")
def _unsafe_masked_index(
    input: Tensor, mask: Tensor, indices: Sequence[Tensor | None], fill: float
) -> Tensor:
    """Return `input[indices]`, and `fill` where the mask is False, whatever the index there."""
    places = _clamped("_unsafe_masked_index", input, indices)
    if input.numel():
        return _at(input, places).masked_fill(mask.logical_not(), fill)
    firsts = [None if place is None else place * 0 for place in places]
    one_each = [
        size if place is None else 1
        for size, place in zip(input.shape, places + (None,) * (input.dim() - len(places)))
    ]
    return input.new_full(_at(input.new_empty(one_each), firsts).shape, fill)


@shown_as("UnsafeMaskedIndexPutAccumulateBackward0", "input", "values")
def _unsafe_masked_index_put_accumulate(
    input: Tensor, mask: Tensor, indices: Sequence[Tensor | None], values: Tensor
) -> Tensor:
    """Return `input` with the values added at the indices where the mask is True."""
    places = _clamped("_unsafe_masked_index_put_accumulate", input, indices)
    if not input.numel():
        return input.clone()
    return input.index_put(places, values.masked_fill(mask.logical_not(), 0), accumulate=True)


rushlight.overrides._make_overridable(
    globals(), "rushlight",
    only=("_unsafe_masked_index", "_unsafe_masked_index_put_accumulate"),
)  # fmt: skip
take_numpy_names(globals(), "_unsafe_masked_index _unsafe_masked_index_put_accumulate")
