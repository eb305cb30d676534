"""Python's multiprocessing, and starting a function in several processes.

Tensors that go through a queue or a pipe are copied.
"""

from multiprocessing import *  # noqa: F403
from multiprocessing import __all__ as _standard
from multiprocessing import get_context

from rushlight.multiprocessing.spawn import (
    ProcessContext, ProcessException, ProcessExitedException, ProcessRaisedException, spawn, start_processes,
)  # fmt: skip

_STRATEGIES = {"file_system", "file_descriptor"}
_strategy = "file_descriptor"


def get_all_sharing_strategies():
    """The names that set_sharing_strategy takes."""
    return set(_STRATEGIES)


def get_sharing_strategy():
    """The name that was set."""
    return _strategy


def set_sharing_strategy(new_strategy):
    """Accepted: tensors are copied between processes whatever the strategy."""
    global _strategy
    assert new_strategy in _STRATEGIES, f"unknown sharing strategy {new_strategy!r}"
    _strategy = new_strategy


__all__ = [
    *_standard, "ProcessContext", "ProcessException", "ProcessExitedException", "ProcessRaisedException",
    "get_all_sharing_strategies", "get_context", "get_sharing_strategy", "set_sharing_strategy", "spawn", "start_processes",
]  # fmt: skip
