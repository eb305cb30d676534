"""Sharing tensors out among devices: there is one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight import Tensor
from rushlight.types import _device

__all__ = ["gather", "scatter", "scatter_kwargs"]


def _check(target_gpus):
    if len(target_gpus) != 1:
        raise RuntimeError(f"scatter: one device can be used, got {len(target_gpus)}")


def scatter(inputs: Any, target_gpus: Sequence[int], dim: int = 0) -> list[Tensor]:
    """The inputs for each device: for the one that there is, all of them."""
    _check(target_gpus)
    return [inputs]


def scatter_kwargs(
    inputs: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    target_gpus: Sequence[int | _device],
    dim: int = 0,
) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    """The positional and the keyword arguments for each device."""
    _check(target_gpus)
    return (tuple(inputs),), (kwargs or {},)


def gather(outputs: Any, target_device: int | _device, dim: int = 0) -> Tensor:
    """Bring the outputs of all devices together."""
    _check(outputs)
    return outputs[0]
