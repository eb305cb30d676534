"""Copies of what is to be written, taken before the program goes on."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import rushlight
from rushlight.distributed.tensor._dtensor import DTensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from concurrent.futures import Future
    from typing import Any


@runtime_checkable
class AsyncStager(Protocol):
    """Takes the copy that `async_save` writes."""

    _synchronize_after_execute: bool = True

    @property
    def should_synchronize_after_execute(self) -> bool:
        """Must `async_save` wait for the copy?"""
        return self._synchronize_after_execute

    def stage(self, state_dict: dict[str, Any]) -> Future[dict[str, Any]] | dict[str, Any]:
        """A copy that the program will not change, or a Future of one."""
        ...

    def synchronize_staging(self) -> None:
        """Wait for the copy."""

    def close(self) -> None:
        """No more copies are taken."""


class BlockingAsyncStager(AsyncStager):
    """Copies while the program waits.

    Args:
        cache_staged_state_dict: keep the memory of the copy for the next one.
        type_check: accepted, as in torch: any value may be copied.
    """

    _synchronize_after_execute = False
    cache_staged_state_dict: bool
    type_check: bool

    def __init__(self, cache_staged_state_dict: bool = False, type_check: bool = False) -> None:
        self.cache_staged_state_dict, self.type_check = cache_staged_state_dict, type_check
        self._kept: dict[tuple[Any, ...], rushlight.Tensor] = {}

    def stage(self, state_dict: dict[str, Any]) -> dict[str, Any]:
        """A copy of all tensors in nested dicts and lists."""
        return self._copy(state_dict, ())

    def _copy(self, value, path):
        if isinstance(value, dict):
            return {key: self._copy(inner, (*path, key)) for key, inner in value.items()}
        if isinstance(value, list):
            return [self._copy(inner, (*path, i)) for i, inner in enumerate(value)]
        if not isinstance(value, rushlight.Tensor):
            return value
        local = (value.to_local() if isinstance(value, DTensor) else value).detach()
        copy = self._kept.get(path)
        if copy is None or copy.shape != local.shape or copy.dtype is not local.dtype:
            copy = local.clone()
        else:
            copy.copy_(local)
        if self.cache_staged_state_dict:
            self._kept[path] = copy
        if isinstance(value, DTensor):
            return DTensor._make(copy, value.device_mesh, value.placements, value.shape)
        return copy

    def synchronize_staging(self) -> None:
        """The copy was there when `stage` returned."""

    def close(self) -> None:
        """Give the kept memory back."""
        self._kept.clear()


__all__ = ["AsyncStager", "BlockingAsyncStager"]
