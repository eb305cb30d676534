"""Jagged tensors by the names that they had before `nested.nested_tensor_from_jagged`."""

from __future__ import annotations

import rushlight
from rushlight.nested._tensor import NestedTensor, as_nested_tensor, nested_tensor_from_jagged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rushlight import Tensor
    from rushlight.types import Device, _dtype

__all__ = [
    "NestedTensor", "buffer_from_jagged", "jagged_from_list", "nested_from_padded",
    "nested_view_from_values_offsets", "nested_view_from_values_offsets_lengths",
]  # fmt: skip


def nested_view_from_values_offsets_lengths(
    values: Tensor,
    offsets: Tensor,
    lengths: Tensor | None,
    ragged_idx: int = 1,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> NestedTensor:
    """The parts of `values` that begin at `offsets` and have these lengths."""
    return nested_tensor_from_jagged(values, offsets, lengths, ragged_idx, min_seqlen, max_seqlen)


def nested_view_from_values_offsets(
    values: Tensor,
    offsets: Tensor,
    ragged_idx: int = 1,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> NestedTensor:
    """The parts of `values` between `offsets`."""
    return nested_tensor_from_jagged(values, offsets, None, ragged_idx, min_seqlen, max_seqlen)


def jagged_from_list(
    tensors: Sequence[Tensor],
    offsets: Tensor | None,
    dtype: _dtype | None = None,
    device: Device = None,
) -> tuple[NestedTensor, Tensor]:
    """A jagged tensor of these, and where each begins; `offsets` are checked to be that."""
    nested = as_nested_tensor(tensors, dtype=dtype, device=device, layout=rushlight.jagged)
    found = nested.offsets()
    if offsets is None:
        return nested, found
    if offsets.tolist() != found.tolist():
        raise RuntimeError(
            f"jagged_from_list: offsets {offsets.tolist()} of tensors whose ends are "
            f"{found.tolist()}"
        )
    return nested, offsets


def nested_from_padded(
    padded: Tensor,
    offsets: Tensor,
    ragged_idx: int = 1,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
    sum_S: int | None = None,  # noqa: N803  (torch's name)
) -> NestedTensor:
    """A jagged tensor of the rows of `padded` without their padding."""
    lengths = offsets.diff().tolist()
    if len(lengths) != len(padded):
        raise RuntimeError(
            f"nested_from_padded: offsets of {len(lengths)} tensors for {len(padded)} rows"
        )
    rows = [row.narrow(ragged_idx - 1, 0, n) for row, n in zip(padded, lengths)]
    if sum_S not in (None, sum(lengths)):
        raise RuntimeError(f"nested_from_padded: sum_S={sum_S} of lengths {lengths}")
    values = rushlight.cat(rows, ragged_idx - 1)
    return nested_view_from_values_offsets(values, offsets, ragged_idx, min_seqlen, max_seqlen)


def buffer_from_jagged(jagged: NestedTensor) -> Tensor:
    """The tensors one after another."""
    return jagged.values()
