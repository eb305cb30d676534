"""The operations that a checkpointed function ran, for errors of `checkpoint(debug=True)`."""

from __future__ import annotations

import sys

import rushlight
from rushlight.utils._python_dispatch import TorchDispatchMode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any


class OperationLog(TorchDispatchMode):
    """A context that notes each operation with its arguments and the line that called it."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type[Any]],
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        named = kwargs or {}
        given = [_shown(a) for a in args] + [f"{n}={_shown(a)}" for n, a in named.items()]
        self.lines.append(f"{func}({', '.join(given)}) on {_line()}")
        return func(*args, **named)

    def __str__(self) -> str:
        return "\n".join(f"  {line}" for line in self.lines)


def _shown(value):
    if isinstance(value, rushlight.Tensor):
        return f"{str(value.dtype).rpartition('.')[2]}{list(value.shape)}"
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(_shown, value))}]"
    return repr(value)


def _line():
    """The innermost line outside of the library."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("rushlight"):
        frame = frame.f_back
    return f"line {frame.f_lineno} of {frame.f_code.co_filename}" if frame else "an unknown line"
