"""Sequences of different lengths in one batch: packed, padded, and back."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import rushlight
from rushlight import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]

if TYPE_CHECKING:
    from typing import NamedTuple

    class PackedSequence_(NamedTuple):
        data: Tensor
        batch_sizes: Tensor
        sorted_indices: Tensor | None
        unsorted_indices: Tensor | None
else:
    PackedSequence_ = namedtuple(
        "PackedSequence_", ["data", "batch_sizes", "sorted_indices", "unsorted_indices"]
    )


def bind(optional: Any, fn: Callable[..., Any]) -> Any:
    return None if optional is None else fn(optional)


class PackedSequence(PackedSequence_):
    """Sequences sorted by length, step by step: all first elements, then all second ones, ...

    Made by `pack_padded_sequence` and `pack_sequence`; RNN modules take and give it.

    Attributes:
        data: (sum of lengths, *).
        batch_sizes: how many sequences reach each step; on the CPU.
        sorted_indices: the order in which the sequences are packed, or None.
        unsorted_indices: the reverse of it.
    """

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> Self:
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            # PackedSequence((data, batch_sizes)), an older form.
            data, batch_sizes = data
        if batch_sizes.device.type != "cpu":
            raise ValueError(f"batch_sizes: must be on the CPU but is on {batch_sizes.device}")
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def __getnewargs__(self) -> Any:
        return tuple(self)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """The same sequences with another dtype or device; batch_sizes stay on the CPU."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        kwargs = {k: v for k, v in kwargs.items() if k not in ("device", "dtype")}
        return type(self)(
            data,
            self.batch_sizes,
            bind(self.sorted_indices, lambda t: t.to(data.device, **kwargs)),
            bind(self.unsorted_indices, lambda t: t.to(data.device, **kwargs)),
        )

    def pin_memory(self) -> Self:
        return type(self)(
            self.data.pin_memory(),
            self.batch_sizes,
            bind(self.sorted_indices, lambda t: t.pin_memory()),
            bind(self.unsorted_indices, lambda t: t.pin_memory()),
        )

    def cuda(self, *args: Any, **kwargs: Any) -> Self:
        if args or kwargs.get("device") is not None:
            return self.to(*args, **kwargs)
        return self.to(*args, device="cuda", **kwargs)

    def cpu(self, *args: Any, **kwargs: Any) -> Self:
        return self.to(*args, device="cpu", **kwargs)

    def double(self) -> Self:
        return self.to(dtype=rushlight.double)

    def float(self) -> Self:
        return self.to(dtype=rushlight.float)

    def half(self) -> Self:
        return self.to(dtype=rushlight.half)

    def long(self) -> Self:
        return self.to(dtype=rushlight.long)

    def int(self) -> Self:
        return self.to(dtype=rushlight.int)

    def short(self) -> Self:
        return self.to(dtype=rushlight.short)

    def char(self) -> Self:
        return self.to(dtype=rushlight.int8)

    def byte(self) -> Self:
        return self.to(dtype=rushlight.uint8)

    @property
    def is_cuda(self) -> bool:
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        return self.data.is_pinned()


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes `permutation`; None stays None."""
    if permutation is None:
        return None
    order = rushlight.arange(permutation.numel(), device=permutation.device)
    return rushlight.empty_like(permutation).scatter_(0, permutation, order.to(permutation.dtype))


def pack_padded_sequence(
    input: Tensor,
    lengths: Tensor | list[int],
    batch_first: bool = False,
    enforce_sorted: bool = True,
) -> PackedSequence:
    """Pack padded sequences.

    Args:
        input: (L, N, *), or (N, L, *) with `batch_first`.
        lengths: the length of each sequence, at least 1.
        enforce_sorted: require decreasing lengths; otherwise the sequences are sorted here.
    """
    lengths = rushlight.as_tensor(lengths, dtype=rushlight.int64, device="cpu")
    batch_dim = 0 if batch_first else 1
    sorted_indices = None
    if not enforce_sorted:
        lengths, sorted_indices = rushlight.sort(lengths, descending=True)
        sorted_indices = sorted_indices.to(input.device)
        input = input.index_select(batch_dim, sorted_indices)
    if batch_first:
        input = input.transpose(0, 1)
    sizes = lengths.tolist()
    if not sizes or input.size(0) == 0:
        raise RuntimeError("pack_padded_sequence: cannot pack an empty tensor")
    if len(sizes) != input.size(1):
        raise RuntimeError(
            f"pack_padded_sequence: {len(sizes)} lengths for a batch of {input.size(1)}"
        )
    if sizes[-1] <= 0:
        raise RuntimeError(f"pack_padded_sequence: lengths must be positive but got {sizes}")
    if any(a < b for a, b in zip(sizes, sizes[1:])):
        raise RuntimeError(
            "pack_padded_sequence: lengths must be sorted in decreasing order when enforce_sorted "
            f"is True, but got {sizes}. You can pass `enforce_sorted=False`"
        )
    if sizes[0] > input.size(0):
        raise RuntimeError(
            f"pack_padded_sequence: length {sizes[0]} exceeds the padded length {input.size(0)}"
        )
    # The sequences end from the last to the first, so each stretch of steps has one batch size.
    parts, batch_sizes, begin = [], [], 0
    for count in range(len(sizes), 0, -1):
        end = sizes[count - 1]
        if end > begin:
            block = input[begin:end, :count]
            parts.append(block.reshape((end - begin) * count, *input.shape[2:]))
            batch_sizes += [count] * (end - begin)
            begin = end
    return PackedSequence(
        rushlight.cat(parts), rushlight.tensor(batch_sizes, dtype=rushlight.int64), sorted_indices
    )


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The reverse of `pack_padded_sequence`.

    Returns:
        The padded sequences, `total_length` long if given, and their lengths.
    """
    data, batch_sizes, _, unsorted_indices = sequence
    counts = batch_sizes.tolist()
    steps = len(counts)
    if total_length is not None and total_length < steps:
        raise ValueError(
            "pad_packed_sequence: Expected total_length to be at least the length of the longest "
            f"sequence in input, {steps}, but got {total_length}"
        )
    padded = data.new_full((total_length or steps, counts[0], *data.shape[1:]), padding_value)
    offset = 0
    begin = 0
    while begin < steps:
        count, end = counts[begin], begin
        while end < steps and counts[end] == count:
            end += 1
        block = data[offset : offset + (end - begin) * count]
        padded[begin:end, :count] = block.view(end - begin, count, *data.shape[1:])
        offset += (end - begin) * count
        begin = end
    lengths = [sum(1 for count in counts if count > i) for i in range(counts[0])]
    lengths = rushlight.tensor(lengths, dtype=rushlight.int64)
    if batch_first:
        padded = padded.transpose(0, 1)
    if unsorted_indices is not None:
        padded = padded.index_select(0 if batch_first else 1, unsorted_indices)
        lengths = lengths[unsorted_indices.cpu()]
    return padded, lengths


def pad_sequence(
    sequences: Tensor | list[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Stack tensors of different first size, (L_i, *), into (L, N, *) or (N, L, *)."""
    if not isinstance(sequences, (tuple, list, Tensor)):
        if not hasattr(sequences, "__iter__"):
            raise RuntimeError(
                "pad_sequence: Expected iterable for input sequences, but got arg of type: "
                f"{type(sequences)}"
            )
        sequences = tuple(sequences)
    if isinstance(sequences, Tensor):
        sequences = sequences.unbind(0)
    if len(sequences) == 0:
        raise RuntimeError("pad_sequence: expected at least one sequence")
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"padding_side: expected left or right but got {padding_side!r}")
    longest = max(sequence.size(0) for sequence in sequences)
    trailing = tuple(sequences[0].shape[1:])
    shape = (len(sequences), longest) if batch_first else (longest, len(sequences))
    padded = sequences[0].new_full((*shape, *trailing), padding_value)
    for i, sequence in enumerate(sequences):
        length = sequence.size(0)
        place = slice(length) if padding_side == "right" else slice(longest - length, longest)
        if batch_first:
            padded[i, place] = sequence
        else:
            padded[place, i] = sequence
    return padded


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False
) -> list[Tensor]:
    """The sequences of a padded batch, each cut to its length."""
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [
        sequence[: int(n)].clone(memory_format=rushlight.contiguous_format)
        for sequence, n in zip(padded_sequences, lengths)
    ]


def pack_sequence(sequences: list[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack a list of tensors of different first size."""
    lengths = rushlight.tensor([sequence.size(0) for sequence in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The list of tensors that `pack_sequence` packed."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
