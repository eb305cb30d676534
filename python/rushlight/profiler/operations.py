"""What libraries call to mark a part of a program without the class `record_function`:
torch.ops.profiler._record_function_enter and its kin.
"""

from __future__ import annotations

import rushlight
from rushlight import _C
from rushlight.profiler import record_function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor


class _RecordFunction:
    """What `_record_function_enter_new` returns: a part of the program that has begun."""

    def __init__(self, name: str, args: Any) -> None:
        self._context = record_function(name, args)
        self._context.__enter__()

    def end(self) -> None:
        self._context.__exit__(None, None, None)


class Operation:
    """An operation with overloads: calls the first that takes the type of the argument."""

    def __init__(self, name: str, **overloads: Any) -> None:
        self.__name__: str = name
        self.__module__ = "torch.ops.profiler"
        self._overloads = overloads
        for overload_name, function in overloads.items():
            setattr(self, overload_name, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _C._has_torch_function(args):  # a proxy of fx, for one
            return _C._handle_torch_function(self, args, args, kwargs)
        return self.default(*args, **kwargs)

    def overloads(self) -> Any:
        """The names of the overloads."""
        return list(self._overloads)

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='profiler.{self.__name__}')>"


def enter(name: str, args: Any = None) -> Tensor:
    """Begin a part; the tensor that is returned stands for it."""
    handle = rushlight.zeros(1, dtype=rushlight.uint8)
    handle._record = _RecordFunction(name, args)
    return handle


def enter_new(name: str, args: Any = None) -> _RecordFunction:
    """Begin a part and return what stands for it."""
    return _RecordFunction(name, args)


def leave(handle: Tensor | _RecordFunction) -> None:
    """End the part that `_record_function_enter` or `_record_function_enter_new` has begun."""
    record = getattr(handle, "_record", handle)
    if not isinstance(record, _RecordFunction):
        raise TypeError(
            "_record_function_exit: expected what _record_function_enter returned, got"
            f" {type(handle).__name__}"
        )
    record.end()


def install(namespace: str) -> None:
    """Put the operations into torch.ops.profiler."""
    for name, overloads in {
        "_record_function_enter": {"default": enter},
        "_record_function_enter_new": {"default": enter_new},
        "_record_function_exit": {"default": leave, "_RecordFunction": leave},
    }.items():
        setattr(namespace, name, Operation(name, **overloads))
