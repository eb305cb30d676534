"""Switches for the recording of gradients, as context managers and decorators."""

from __future__ import annotations

import functools

from rushlight import _C
from rushlight._ignored import warn_program as _warn_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar, overload

    from typing_extensions import Self

    F = TypeVar("F", bound=Callable[..., Any])

_GENERATOR_FLAG = 0x20  # of code objects; `inspect` is slow to import


class _Mode:
    """A context manager that also decorates functions and generator functions.

    The decorated function enters a fresh copy of the mode at each call. A generator runs in the
    mode whenever it is resumed, and its consumer never does.
    """

    def clone(self) -> Self:
        """Return a new, unused context manager for the same mode."""
        return type(self)()

    def __call__(self, function: F) -> F:
        if isinstance(function, type):
            _warn_program(
                f"{type(self).__name__}: Decorating classes is deprecated, as it concerns their "
                "construction alone; decorate functions or methods",
                FutureWarning,
            )
        code = getattr(function, "__code__", None)
        if code is not None and code.co_flags & _GENERATOR_FLAG:
            return self._wrap_generator(function)

        @functools.wraps(function)
        def in_mode(*args, **kwargs):
            with self.clone():
                return function(*args, **kwargs)

        return in_mode

    def _wrap_generator(self, function):
        @functools.wraps(function)
        def in_mode(*args, **kwargs):
            generator = function(*args, **kwargs)
            resume, argument = generator.send, None
            while True:
                try:
                    with self.clone():
                        value = resume(argument)
                except StopIteration as stop:
                    return stop.value
                try:
                    resume, argument = generator.send, (yield value)
                except GeneratorExit:
                    with self.clone():
                        generator.close()
                    raise
                except BaseException as error:
                    resume, argument = generator.throw, error

        return in_mode


class _FixedMode(_Mode):
    """A mode without arguments, which may be used as a decorator without being called."""

    if TYPE_CHECKING:

        @overload
        def __new__(cls, function: None = None) -> Self: ...
        @overload
        def __new__(cls, function: F) -> F: ...

    def __new__(cls, function: Any = None) -> Any:
        mode = super().__new__(cls)
        return mode if function is None else mode(function)

    def __init__(self, function: Callable[..., Any] | None = None) -> None:
        self.prev = False

    def __exit__(self, *error: object) -> None:
        _C.set_grad_enabled(self.prev)


class no_grad(_FixedMode):
    """Results of ops do not require gradients, whatever their inputs do.

    Example:
        >>> x = rushlight.ones(1, requires_grad=True)
        >>> with rushlight.no_grad():
        ...     y = x * 2
        >>> y.requires_grad
        False
    """

    def __enter__(self) -> None:
        self.prev: bool = _C.is_grad_enabled()
        _C.set_grad_enabled(False)


class enable_grad(_FixedMode):
    """Gradients are recorded, also inside `no_grad`."""

    def __enter__(self) -> None:
        self.prev: bool = _C.is_grad_enabled()
        _C.set_grad_enabled(True)


class set_grad_enabled(_Mode):
    """Turn recording on or off: at once, or for a `with` block or the calls of a function.

    Args:
        mode: True records gradients.
    """

    def __init__(self, mode: bool) -> None:
        self.prev: bool = _C.is_grad_enabled()
        self.mode = mode
        _C.set_grad_enabled(mode)

    def __call__(self, function: F) -> F:
        _C.set_grad_enabled(self.prev)  # as a decorator it concerns the function alone
        return super().__call__(function)

    def __enter__(self) -> None:
        _C.set_grad_enabled(self.mode)

    def __exit__(self, *error: object) -> None:
        _C.set_grad_enabled(self.prev)

    def clone(self) -> Self:
        return type(self)(self.mode)

    def __str__(self) -> str:
        return f"{type(self).__module__}.{type(self).__qualname__}(mode={self.mode})"


class inference_mode(_Mode):
    """Like `no_grad`, and the tensors made inside can never take part in recording later.

    Args:
        mode: False leaves an enclosing inference mode.
    """

    if TYPE_CHECKING:

        @overload
        def __new__(cls, mode: bool = True) -> Self: ...
        @overload
        def __new__(cls, mode: F) -> F: ...

    def __new__(cls, mode: Any = True) -> Any:
        if isinstance(mode, bool):
            return super().__new__(cls)
        return cls()(mode)  # used as a decorator without being called

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        self._before = (_C.is_inference_mode_enabled(), _C.is_grad_enabled())
        _C.set_inference_mode(self.mode)
        _C.set_grad_enabled(not self.mode)

    def __exit__(self, *error: object) -> None:
        inference, grad = self._before
        _C.set_inference_mode(inference)
        _C.set_grad_enabled(grad)

    def clone(self) -> Self:
        return type(self)(self.mode)
