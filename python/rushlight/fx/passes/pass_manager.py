"""Running passes that return what they were given, changed, in an order that constraints give."""

from __future__ import annotations

import functools
import inspect
import logging

from rushlight.fx.passes._constraints import (
    check_constraint,
    this_before_that_pass_constraint,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = [
    "PassManager",
    "inplace_wrapper",
    "log_hook",
    "loop_pass",
    "these_before_those_pass_constraint",
    "this_before_that_pass_constraint",
]

logger: logging.Logger = logging.getLogger(__name__)


def inplace_wrapper(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function that calls another one and returns its first argument, which that one changes."""

    @functools.wraps(fn)
    def wrapped(gm: Any, *args: Any, **kwargs: Any) -> Any:
        fn(gm, *args, **kwargs)
        return gm

    return wrapped


def log_hook(fn: Callable[..., Any], level: int = logging.INFO) -> Callable[..., Any]:
    """A function that logs what another one returns, and returns it.

    Args:
        fn: the function.
        level: level of the log's line.
    """

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        value = fn(*args, **kwargs)
        logger.log(level, "Ran pass %s\t Return value: %s", fn, value)
        return value

    return wrapped


def loop_pass(
    base_pass: Callable[[Any], Any],
    n_iter: int | None = None,
    predicate: Callable[[Any], bool] | None = None,
) -> Callable[[Any], Any]:
    """A pass that does another one several times, each on what the one before returned.

    Args:
        base_pass: the pass.
        n_iter: how often.
        predicate: or, whether once more, asked before each.

    Raises:
        AssertionError: not exactly one of `n_iter` and `predicate` is given.
        RuntimeError (when called): `n_iter` is not positive.
    """
    if (n_iter is None) == (predicate is None):
        raise AssertionError("Exactly one of `n_iter`or `predicate` must be specified.")

    @functools.wraps(base_pass)
    def repeated(source: Any) -> Any:
        if predicate is not None:
            while predicate(source):
                source = base_pass(source)
            return source
        if n_iter <= 0:
            raise RuntimeError(f"loop_pass: n_iter must be positive, got {n_iter}")
        for _ in range(n_iter):
            source = base_pass(source)
        return source

    return repeated


def these_before_those_pass_constraint(
    these: Callable[..., Any], those: Callable[..., Any]
) -> Callable[[Any, Any], bool]:
    """A constraint: `these` come before `those`, also where wrappers are around them."""

    def depends_on(a: Callable[..., Any], b: Callable[..., Any]) -> bool:
        return inspect.unwrap(a) != those or inspect.unwrap(b) != these

    return depends_on


class PassManager:
    """Runs passes, one after the other.

    Args:
        passes: functions that return what the next one takes.
        constraints: functions of two passes: may the first come before the second?

    Example:
        >>> from rushlight.fx.passes.pass_manager import PassManager
        >>> PassManager([lambda x: x + 1, lambda x: x * 2])(3)
        8
    """

    _validated: bool = False

    def __init__(
        self,
        passes: list[Callable[..., Any]] | None = None,
        constraints: list[Callable[..., Any]] | None = None,
    ) -> None:
        self.passes: list[Callable[..., Any]] = passes or []
        self.constraints: list[Callable[..., Any]] = constraints or []

    @classmethod
    def build_from_passlist(cls, passes: list[Callable[..., Any]]) -> PassManager:
        """A manager of the passes, without constraints."""
        return PassManager(passes)

    def add_pass(self, _pass: Callable[..., Any]) -> None:
        """Add a pass behind the others."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Callable[..., Any]) -> None:
        """Add a constraint."""
        self.constraints.append(constraint)
        self._validated = False

    def remove_pass(self, _passes: list[str]) -> None:
        """Remove the passes of the names."""
        if _passes is not None:
            self.passes = [p for p in self.passes if p.__name__ not in _passes]
            self._validated = False

    def replace_pass(self, _target: Callable[..., Any], _replacement: Callable[..., Any]) -> None:
        """Put a pass in the place of those with another one's name."""
        name = _target.__name__
        self.passes = [_replacement if p.__name__ == name else p for p in self.passes]
        self._validated = False

    def validate(self) -> None:
        """Raise RuntimeError if the order of the passes breaks a constraint."""
        if not self._validated:
            for constraint in self.constraints:
                check_constraint(constraint, self.passes)
            self._validated = True

    def __call__(self, source: Any) -> Any:
        self.validate()
        for current in self.passes:
            source = current(source)
        return source
