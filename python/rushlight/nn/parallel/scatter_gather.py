"""Sharing arguments out among devices, and bringing results together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rushlight import Tensor
from rushlight.types import _device

__all__ = ["gather", "scatter", "scatter_kwargs"]


def _is_named_tuple(value):
    return isinstance(value, tuple) and hasattr(value, "_fields")


def is_namedtuple(obj: Any) -> bool:
    """Is it of a class of named tuples?"""
    return _is_named_tuple(obj)


def scatter(inputs: Any, target_gpus: Sequence[int | _device], dim: int = 0) -> Sequence[Any]:
    """Cut the tensors in `inputs` along `dim` into a part for each device.

    Args:
        inputs: tensors, in tuples, lists and dicts; other objects are given to each device.
        target_gpus: the devices.
        dim: the dim that counts samples.
    """
    from rushlight.nn.parallel._functions import Scatter

    def share(value):
        if isinstance(value, Tensor):
            return Scatter.apply(target_gpus, None, dim, value)
        if _is_named_tuple(value):
            return [type(value)(*parts) for parts in zip(*map(share, value))]
        if isinstance(value, tuple) and value:
            return list(zip(*map(share, value)))
        if isinstance(value, list) and value:
            return [list(parts) for parts in zip(*map(share, value))]
        if isinstance(value, dict) and value:
            return [type(value)(parts) for parts in zip(*map(share, value.items()))]
        return [value] * len(target_gpus)

    return share(inputs)


def scatter_kwargs(
    inputs: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    target_gpus: Sequence[int | _device],
    dim: int = 0,
) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    """The positional and the keyword arguments for each device."""
    positional = list(scatter(inputs, target_gpus, dim)) if inputs else []
    named = list(scatter(kwargs, target_gpus, dim)) if kwargs else []
    count = max(len(positional), len(named))
    positional += [()] * (count - len(positional))
    named += [{}] * (count - len(named))
    return tuple(positional), tuple(named)


def gather(outputs: Any, target_device: int | _device, dim: int = 0) -> Any:
    """Bring the outputs of all devices together on one of them.

    Args:
        outputs: what each device gave: tensors, in tuples, lists and dicts.
        target_device: where the result is.
        dim: the dim along which tensors are joined.
    """
    from rushlight.nn.parallel._functions import Gather

    def join(values):
        first = values[0]
        if isinstance(first, Tensor):
            return Gather.apply(target_device, dim, *values)
        if first is None:
            return None
        if isinstance(first, Mapping):
            if any(len(value) != len(first) for value in values):
                raise ValueError("All dicts must have the same number of keys")
            return type(first)((key, join([value[key] for value in values])) for key in first)
        if _is_named_tuple(first):
            return type(first)._make(map(join, zip(*values)))
        if not isinstance(first, (tuple, list)):
            raise TypeError(f"gather: outputs of type {type(first).__name__} cannot be joined")
        return type(first)(map(join, zip(*values)))

    return join(list(outputs))
