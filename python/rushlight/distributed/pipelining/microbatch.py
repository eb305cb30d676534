"""Dividing batches into micro-batches, and merging what comes out."""

from __future__ import annotations

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight import Tensor


class TensorChunkSpec:
    """A tensor is divided into micro-batches along a dim.

    Args:
        split_dim: the dim.

    Example:
        >>> TensorChunkSpec.from_tuple((0, 1))
        (TensorChunkSpec(0), TensorChunkSpec(1))
    """

    def __init__(self, split_dim: int) -> None:
        self.split_dim = split_dim

    def __repr__(self) -> str:
        return f"TensorChunkSpec({self.split_dim})"

    @staticmethod
    def from_tuple(chunk_dims: Sequence[int]) -> tuple[TensorChunkSpec, ...]:
        """One for each positional argument."""
        return tuple(map(TensorChunkSpec, chunk_dims))

    @staticmethod
    def from_dict(chunk_dims: dict[str, int]) -> dict[str, TensorChunkSpec]:
        """One for each keyword argument."""
        return {name: TensorChunkSpec(dim) for name, dim in chunk_dims.items()}


def split(value: Any, spec: TensorChunkSpec | None, count: int) -> list[Any]:
    """A value for each micro-batch: tensors are divided, along dim 0 by default; others are shared.

    Raises:
        ValueError: a tensor does not divide: micro-batches must have one size.
    """
    if not isinstance(value, rushlight.Tensor):
        return [value] * count
    dim = 0 if spec is None else spec.split_dim
    if value.size(dim) % count:
        raise ValueError(
            f"pipelining: a batch of {value.size(dim)} does not divide into {count} micro-batches"
        )
    return list(value.chunk(count, dim))


def split_args_kwargs_into_chunks(
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    chunks: int,
    args_chunk_spec: Sequence[TensorChunkSpec] | None = None,
    kwargs_chunk_spec: dict[str, TensorChunkSpec] | None = None,
) -> tuple[list[tuple[Any, ...]], list[dict[str, Any]]]:
    """The arguments of each micro-batch.

    Args:
        args, kwargs: those of the batch.
        chunks: how many micro-batches.
        args_chunk_spec, kwargs_chunk_spec: along which dims; 0 by default.

    Example:
        >>> split_args_kwargs_into_chunks((rushlight.arange(4),), {"n": 5}, 2)
        ([(tensor([0, 1]),), (tensor([2, 3]),)], [{'n': 5}, {'n': 5}])
    """
    specs = args_chunk_spec or [None] * len(args)
    if len(specs) != len(args):
        raise ValueError(f"args_chunk_spec has {len(specs)} entries for {len(args)} arguments")
    columns = [split(value, spec, chunks) for value, spec in zip(args, specs)]
    named = {
        name: split(value, (kwargs_chunk_spec or {}).get(name), chunks)
        for name, value in (kwargs or {}).items()
    }
    return (
        [tuple(column[i] for column in columns) for i in range(chunks)],
        [{name: values[i] for name, values in named.items()} for i in range(chunks)],
    )


def merge_chunks(chunks: list[Any], chunk_spec: Any = None) -> Any:
    """The output of the batch, of those of its micro-batches.

    Args:
        chunks: tensors, or tuples, lists or dicts of them.
        chunk_spec: the same with a TensorChunkSpec for each tensor; all along dim 0 by default.
    """
    first = chunks[0]
    if isinstance(first, dict):
        specs = chunk_spec or {}
        return {key: merge_chunks([c[key] for c in chunks], specs.get(key)) for key in first}
    if isinstance(first, (tuple, list)):
        specs = chunk_spec or [None] * len(first)
        return type(first)(merge_chunks(list(c), s) for c, s in zip(zip(*chunks), specs))
    if not isinstance(first, rushlight.Tensor):
        return first
    return rushlight.cat(_tensors(chunks), 0 if chunk_spec is None else chunk_spec.split_dim)


def _tensors(chunks: list[Any]) -> list[Tensor]:
    # A loss of each micro-batch has no dims.
    return [chunk.unsqueeze(0) if chunk.dim() == 0 else chunk for chunk in chunks]


__all__ = ["TensorChunkSpec", "merge_chunks", "split_args_kwargs_into_chunks"]
