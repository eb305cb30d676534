"""Python's multiprocessing, whose queues and pipes share the memory of tensors, and `spawn`.

    import rushlight.multiprocessing as mp

A tensor that is sent is first moved to shared memory, in place, and what the receiver gets is a
tensor on the same memory. `Tensor.share_memory_()` and `Module.share_memory()` do this beforehand.
"""

from __future__ import annotations

import multiprocessing as _multiprocessing
from multiprocessing import *  # noqa: F403

from rushlight.multiprocessing.reductions import init_reductions
from rushlight.multiprocessing.spawn import (  # noqa: F401 (the name of a setting)
    ENV_VAR_PARALLEL_START,
    ProcessContext,
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

_STRATEGIES = frozenset({"file_descriptor", "file_system"})
_strategy = "file_descriptor"


def get_all_sharing_strategies() -> set[str]:
    """The names that set_sharing_strategy takes."""
    return set(_STRATEGIES)


def get_sharing_strategy() -> str:
    """The name that was set."""
    return _strategy


def set_sharing_strategy(new_strategy: str) -> None:
    """Accept the name of a way to share memory; there is one here, by file descriptor.

    Files with names, "file_system" in torch, would outlive processes that are killed.
    """
    global _strategy
    if new_strategy not in _STRATEGIES:
        raise AssertionError(
            f"set_sharing_strategy: {new_strategy!r} is none of {sorted(_STRATEGIES)}"
        )
    _strategy = new_strategy


__all__ = [
    *_multiprocessing.__all__,
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "init_reductions",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]
