"""Contexts that decorate functions too: `no_grad` and its kin are made of these."""

from __future__ import annotations

import functools
import inspect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from typing_extensions import Self


def context_decorator(ctx: Any, func: Callable[..., Any]) -> Any:
    """`func` called inside a context.

    Args:
        ctx: a context, or what makes a new one for each call.
        func: a function, a generator function, whose steps each run inside, or a class, which is
            refused.
    """
    if callable(ctx) and hasattr(ctx, "__enter__"):
        raise AssertionError(
            f"Passed in {ctx} is both callable and also a valid context manager (has __enter__), "
            "making it ambiguous which interface to use."
        )
    make = ctx if callable(ctx) else lambda: ctx
    if inspect.isclass(func):
        raise RuntimeError(
            f"{func.__name__}: a class cannot be decorated with a context; decorate its methods"
        )
    if inspect.isgeneratorfunction(func):
        return _wrap_generator(make, func)

    @functools.wraps(func)
    def decorated(*args, **kwargs):
        with make():
            return func(*args, **kwargs)

    return decorated


def _wrap_generator(ctx_factory, func):
    """A generator function whose steps run inside a context each, unlike its caller's code."""

    @functools.wraps(func)
    def stepped(*args, **kwargs):
        generator = func(*args, **kwargs)
        advance, value = generator.send, None
        try:
            while True:
                with ctx_factory():
                    item = advance(value)
                try:
                    value = yield item
                    advance = generator.send
                except GeneratorExit:
                    with ctx_factory():
                        generator.close()
                    raise
                except BaseException as error:
                    value, advance = error, generator.throw
        except StopIteration as end:
            return end.value

    return stepped


class _DecoratorContextManager:
    """The base class of contexts that can be used as decorators: a copy for each call."""

    def __call__(self, orig_func: Any) -> Any:
        return context_decorator(self.clone, orig_func)

    def __enter__(self) -> Self:
        raise NotImplementedError

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        raise NotImplementedError

    def clone(self) -> Any:
        """A new context of the same kind; for those with arguments, to be overridden."""
        return type(self)()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """One that decorates without being called: @context, as well as @context()."""

    def __new__(cls, orig_func: Any = None) -> Any:
        if orig_func is None:
            return super().__new__(cls)
        return cls()(orig_func)
