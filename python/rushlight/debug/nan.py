"""The NaN trap."""

from __future__ import annotations

import functools

from rushlight import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from typing_extensions import Self

    from rushlight import Tensor

_depth = 0


class trap_nan:
    """Raises where the first NaN or infinity is made, in forward or in backward.

    A context; `trap_nan().start()` switches the trap on for good. The error is a RuntimeError that
    names the op, the line of the program, the module whose forward ran, each input with its
    statistics, which of them carried the value, and the ops that led to it, back to the first large
    value. Each result is read once more, at the speed of memory: networks are a few percent slower.

    What a program asks for is no error: an op that is given NaN or infinity as a number, as in
    `masked_fill(mask, -inf)`, and infinities that an input holds already. A result that is computed
    when it is read (docs/layout_and_laziness.md) is not looked at itself, but what reads it is. The
    trap watches all threads of the process; of what the workers of a DataLoader compute, it looks
    at the batches.

    Args:
        infinity: False lets infinities pass, and raises for NaN alone.

    Example:
        >>> with trap_nan():
        ...     rushlight.zeros(2).log()
        Traceback (most recent call last):
            ...
        RuntimeError: log: the result is not finite: 2 inf of 2 elements, the first at [0]; ...
    """

    def __init__(self, infinity: bool = True) -> None:
        self.infinity: bool = infinity

    def start(self) -> Self:
        """Switch the trap on; `stop` switches it off again."""
        global _depth
        _depth += 1
        _C._trap_start(self.infinity)
        return self

    def stop(self) -> None:
        """Switch the trap off."""
        global _depth
        _depth = max(_depth - 1, 0)
        if _depth == 0:
            _C._trap_stop()
            if not _C._profiler_active():
                _C._forget_module_paths()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exception: Any) -> None:
        self.stop()

    def __call__(self, function: Callable[..., Any]) -> Any:
        @functools.wraps(function)
        def trapped(*args, **kwargs):
            with trap_nan(self.infinity):
                return function(*args, **kwargs)

        return trapped


def describe(tensor: Tensor) -> Any:
    """One line about the values of a tensor: dtype, shape, NaN, infinities, range and mean.

    Args:
        tensor: floating or complex, on the CPU.

    Example:
        >>> describe(rushlight.tensor([1.0, float("nan"), 3.0]))
        'float32 [3]: 1 nan; the others from 1 to 3, mean 2'
    """
    return _C._describe_values(tensor)
