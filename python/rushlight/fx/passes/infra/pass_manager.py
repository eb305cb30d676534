"""Running passes that return a `PassResult`, in an order that constraints give."""

from __future__ import annotations

import collections
import functools
import inspect

from rushlight.fx.graph_module import GraphModule
from rushlight.fx.passes._constraints import (
    check_constraint,
    this_before_that_pass_constraint,
)
from rushlight.fx.passes.infra.pass_base import PassResult
from rushlight.nn import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["PassManager", "pass_result_wrapper", "this_before_that_pass_constraint"]


def pass_result_wrapper(fn: Callable[..., Any]) -> Callable[..., PassResult | None]:
    """A pass that returns a `PassResult`, of one that returns a module, or changes it and returns
    None.
    """
    if fn is None:
        return None

    @functools.wraps(fn)
    def wrapped(gm: Module) -> PassResult | None:
        result = fn(gm)
        if isinstance(result, PassResult):
            return result
        if result is None or isinstance(result, Module):
            return PassResult(gm if result is None else result, True)
        raise TypeError(f"{_name(fn)}: expected a module or None, got {type(result).__name__}")

    if not inspect.isfunction(fn):
        wrapped.__name__ = type(fn).__name__
    return wrapped


def _name(function):
    return function.__name__ if inspect.isfunction(function) else type(function).__name__


def _ordered(passes, constraints):
    """The passes in an order that all constraints allow."""
    if not constraints:
        return passes
    behind = {a: [] for a in passes}
    missing = dict.fromkeys(passes, 0)
    for a in passes:
        for b in passes:
            if a != b:
                broken = sum(not constraint(a, b) for constraint in constraints)
                behind[b] += [a] * broken
                missing[a] += broken
    ready = collections.deque(a for a in passes if not missing[a])
    found = []
    while ready:
        current = ready.popleft()
        found.append(current)
        for a in behind[current]:
            missing[a] -= 1
            if not missing[a]:
                ready.append(a)
    left = [a for a in passes if missing[a]]
    if left:
        raise RuntimeError(f"Circular dependency detected within the following passes: {left}")
    return found


class PassManager:
    """Runs passes on a module, one after the other.

    Args:
        passes: functions, or `PassBase`, that take a module and return a `PassResult`.
        constraints: functions of two passes: may the first come before the second?
        steps: how often to run all, while something changes.
        run_checks_after_each_pass: call `check` after each.
        suppress_check_failures: go on where a check raises.
    """

    _validated: bool = False
    steps: int = 1

    def __init__(
        self,
        passes: list[Callable[..., PassResult | None]] | None = None,
        constraints: list[Callable[..., bool]] | None = None,
        steps: int | None = None,
        run_checks_after_each_pass: bool = False,
        suppress_check_failures: bool = False,
    ) -> None:
        self.passes: list[Callable[..., PassResult | None]] = passes or []
        self.constraints: list[Callable[..., bool]] = constraints or []
        if steps:
            self.steps = steps
        self.run_checks_after_each_pass = run_checks_after_each_pass
        self.suppress_check_failures = suppress_check_failures

    def add_pass(self, _pass: Callable[..., PassResult | None]) -> None:
        """Add a pass behind the others."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Callable[..., bool]) -> None:
        """Add a constraint."""
        self.constraints.append(constraint)
        self._validated = False

    def validate_constraints(self) -> None:
        """Raise RuntimeError if the order of the passes breaks a constraint."""
        if not self._validated:
            for constraint in self.constraints:
                check_constraint(constraint, self.passes)
            self._validated = True

    def solve_constraints(self) -> None:
        """Bring the passes into an order that the constraints allow.

        Raises: RuntimeError if there is none.
        """
        self.passes = _ordered(self.passes, self.constraints)
        self._validated = True

    def add_checks(self, check: Callable[[Module], None]) -> None:
        """Let a function of a module be called before the passes and, as asked, after each.

        Raises: TypeError if it takes another number of arguments.
        """
        if len(inspect.signature(check).parameters) != 1:
            raise TypeError("add_checks: the function must take one argument, a module")
        self.check = check

    def check(self, module: Module) -> None:
        """Checks a module; `add_checks` replaces it."""

    def _checked(self, module):
        try:
            self.check(module)
        except Exception:
            if not self.suppress_check_failures:
                raise

    def __call__(self, module: Module) -> PassResult:
        if not self._validated:
            self.solve_constraints()
        self._checked(module)
        ever = False
        for _ in range(self.steps):
            modified = False
            for place in range(len(self.passes)):
                module, changed = self._run(place, module)
                modified = modified or changed
            ever = ever or modified
            if not modified:
                break
        return PassResult(module, ever)

    def _run(self, place, module):
        fn = self.passes[place]
        try:
            result = fn(module)
            if not isinstance(result, PassResult) and not hasattr(result, "graph_module"):
                raise TypeError(
                    f"The result of the pass {_name(fn)} should be type PassResult."
                    "Please wrap it with pass_result_wrapper()"
                )
            if isinstance(result.graph_module, GraphModule):
                result.graph_module.recompile()
            if self.run_checks_after_each_pass:
                self._checked(result.graph_module)
        except Exception as error:
            before = [_name(p) for p in self.passes[:place]]
            raise Exception(  # noqa: TRY002 (torch raises it so)
                f"An error occurred when running the '{_name(fn)}' pass after the following "
                f"passes: {before}"
            ) from error
        return result.graph_module, result.modified
