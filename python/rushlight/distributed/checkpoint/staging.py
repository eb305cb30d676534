"""Copies of what is to be written, taken before the program goes on."""

from __future__ import annotations

import concurrent.futures
import dataclasses
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
            copy = self._cloned(local)
        else:
            copy.copy_(local)
        if self.cache_staged_state_dict:
            self._kept[path] = copy
        if isinstance(value, DTensor):
            return DTensor._make(copy, value.device_mesh, value.placements, value.shape)
        return copy

    def _cloned(self, tensor):
        return tensor.clone()

    def synchronize_staging(self) -> None:
        """The copy was there when `stage` returned."""

    def close(self) -> None:
        """Give the kept memory back."""
        self._kept.clear()


class _SharedStager(BlockingAsyncStager):
    """Copies into memory that other processes may map."""

    def _cloned(self, tensor):
        copy = tensor.clone()
        return copy.share_memory_() if copy.device.type == "cpu" else copy


@dataclasses.dataclass
class StagingOptions:
    """How DefaultStager takes copies.

    Args:
        use_pinned_memory, use_non_blocking_copy: for tensors on a GPU; without one they raise.
        use_shared_memory: in memory that other processes may map.
        use_async_staging: in a thread, while the program goes on.
    """

    use_pinned_memory: bool = True
    use_shared_memory: bool = True
    use_async_staging: bool = True
    use_non_blocking_copy: bool = True


class DefaultStager(AsyncStager):
    """Takes copies as StagingOptions say.

    Args:
        config: the options. The default ones need a GPU, as in torch.

    Raises:
        AssertionError: an option needs a GPU, and there is none.
    """

    def __init__(self, config: StagingOptions | None = None) -> None:
        self._config = StagingOptions() if config is None else config
        for name in ("use_pinned_memory", "use_non_blocking_copy"):
            if getattr(self._config, name) and not rushlight.cuda.is_available():
                raise AssertionError(f"DefaultStager: {name} needs a GPU, and there is none")
        self._copies = _SharedStager() if self._config.use_shared_memory else BlockingAsyncStager()
        self._threads = None
        self._under_way: Future[dict[str, Any]] | None = None
        if self._config.use_async_staging:
            self._threads = concurrent.futures.ThreadPoolExecutor(1, "rushlight staging")

    def stage(self, state_dict: dict[str, Any]) -> Future[dict[str, Any]] | dict[str, Any]:
        """A copy of all tensors in nested dicts and lists, or a Future of one."""
        if self._threads is None:
            return self._copies.stage(state_dict)
        self._under_way = self._threads.submit(self._copies.stage, state_dict)
        return self._under_way

    def synchronize_staging(self) -> None:
        """Wait for the copy."""
        if self._under_way is not None:
            self._under_way.result()

    def close(self) -> None:
        """End the thread."""
        if self._threads is not None:
            self._threads.shutdown(wait=True)


__all__ = ["AsyncStager", "BlockingAsyncStager", "DefaultStager", "StagingOptions"]
