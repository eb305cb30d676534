"""Schedules of a sparsifier's level: how much of each weight is zero, by the epoch."""

from __future__ import annotations

import weakref

from rushlight._ignored import warn_program as _warn_program
from rushlight._module_paths import add_modules as _add_modules
from rushlight.ao.pruning.sparsifier import BaseSparsifier

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class BaseScheduler:
    """Sets the level of each of a sparsifier's weights in `step`.

    Subclasses write `get_sl`, which returns the levels at `self.last_epoch`.

    Args:
        sparsifier: which has been prepared.
        last_epoch: the epoch before the first.
        verbose: print each level.
    """

    last_epoch: int

    def __init__(
        self, sparsifier: BaseSparsifier, last_epoch: int = -1, verbose: bool = False
    ) -> None:
        _check(type(self), sparsifier)
        self.sparsifier = sparsifier
        self.base_sl: list[float] = [group["sparsity_level"] for group in sparsifier.groups]
        self.last_epoch = last_epoch
        self.verbose = verbose
        self._get_sl_called_within_step = False
        _count_steps(sparsifier)
        self.sparsifier._step_count = 0
        self._step_count = 0
        self.step()

    def state_dict(self) -> dict[str, Any]:
        """Return all attributes but the sparsifier."""
        return {name: value for name, value in vars(self).items() if name != "sparsifier"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the attributes that `state_dict` returned."""
        self.__dict__.update(state_dict)

    def get_last_sl(self) -> list[float]:
        """Return the levels that `step` set last."""
        return self._last_sl

    def get_sl(self) -> list[float]:
        """Return the levels of this epoch."""
        raise NotImplementedError(f"{type(self).__name__} does not say its levels")

    def _warn_outside_step(self):
        if not self._get_sl_called_within_step:
            _warn_program("get_sl: call get_last_sl for the levels that the schedule set last")

    def print_sl(self, is_verbose: bool, group: int, sl: float, epoch: int | None = None) -> None:
        """Print the level of a weight."""
        if is_verbose:
            when = "" if epoch is None else f"Epoch {epoch:5d}: "
            print(f"{when}adjusting sparsity level of group {group} to {sl:.4e}.")

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__} (\nSparsifier {self.sparsifier}\n    base_sl: {self.base_sl}\n)"
        )

    def step(self, epoch: int | None = None) -> None:
        """Set the levels of the next epoch.

        Args:
            epoch: what is printed, where `verbose` is set.
        """
        if self._step_count == 1 and self.sparsifier._step_count < 1:
            _warn_program(
                "scheduler.step() was called before sparsifier.step(): the first level is not used",
            )
        self._step_count += 1
        self.last_epoch += 1
        self._get_sl_called_within_step = True
        try:
            values = self.get_sl()
        finally:
            self._get_sl_called_within_step = False
        for place, (group, level) in enumerate(zip(self.sparsifier.groups, values)):
            group["sparsity_level"] = level
            self.print_sl(self.verbose, place, level, epoch)
        self._last_sl = [group["sparsity_level"] for group in self.sparsifier.groups]
        self.sparsifier.enable_mask_update = True


def _check(kind, sparsifier):
    if not isinstance(sparsifier, BaseSparsifier):
        raise TypeError(
            f"{kind.__name__}: expected a BaseSparsifier, got {type(sparsifier).__name__}"
        )


def _count_steps(sparsifier):
    """Let a sparsifier count its steps, so that a schedule can tell whether it has stepped."""
    if getattr(sparsifier.step, "_counts", False):
        return
    step, owner = type(sparsifier).step, weakref.ref(sparsifier)

    def counted(*args, **kwargs):
        self = owner()
        self._step_count += 1
        return step(self, *args, **kwargs)

    counted._counts = True
    sparsifier.step = counted


class LambdaSL(BaseScheduler):
    """Levels that are the first ones times a function of the epoch.

    Args:
        sl_lambda: the function, or a list with one for each weight.

    Example:
        >>> from rushlight.ao.pruning import LambdaSL, WeightNormSparsifier
        >>> sparsifier = WeightNormSparsifier(0.8)
        >>> sparsifier.prepare(rushlight.nn.Sequential(rushlight.nn.Linear(4, 4)), None)
        >>> schedule = LambdaSL(sparsifier, lambda epoch: min(1.0, epoch / 4))
        >>> sparsifier.step()
        >>> schedule.step()
        >>> schedule.get_last_sl()
        [0.2]
    """

    sl_lambdas: Any

    def __init__(
        self,
        sparsifier: BaseSparsifier,
        sl_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        _check(type(self), sparsifier)
        self.sl_lambdas = _for_each("sl_lambda", sl_lambda, sparsifier)
        super().__init__(sparsifier, last_epoch, verbose)

    def get_sl(self) -> list[float]:
        """Return the levels of this epoch."""
        self._warn_outside_step()
        return [base * of(self.last_epoch) for base, of in zip(self.base_sl, self.sl_lambdas)]


def _for_each(name, given, sparsifier):
    """A value for each weight of a sparsifier."""
    count = len(sparsifier.groups)
    if not isinstance(given, (list, tuple)):
        return [given] * count
    if len(given) != count:
        raise ValueError(f"{name}: expected {count} values, one for each weight, got {len(given)}")
    return list(given)


class CubicSL(BaseScheduler):
    """Levels that grow by a cubic function (Zhu and Gupta, "To prune, or not to prune", 2017).

    Args, each a value or a list with one for each weight:
        init_sl: the first level.
        init_t: the epoch at which they begin to grow.
        delta_t: the number of epochs of a step.
        total_t: the number of steps.
        initially_zero: the level is 0 before init_t.
    """

    init_sl: Any
    init_t: Any
    delta_t: Any
    total_t: Any
    initially_zero: Any

    def __init__(
        self,
        sparsifier: BaseSparsifier,
        init_sl: float | list[float] = 0.0,
        init_t: int | list[int] = 0,
        delta_t: int | list[int] = 10,
        total_t: int | list[int] = 100,
        initially_zero: bool | list[bool] = False,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        _check(type(self), sparsifier)
        self.init_sl = _for_each("init_sl", init_sl, sparsifier)
        self.init_t = _for_each("init_t", init_t, sparsifier)
        self.delta_t = _for_each("delta_t", delta_t, sparsifier)
        self.total_t = _for_each("total_t", total_t, sparsifier)
        self.initially_zero = _for_each("initially_zero", initially_zero, sparsifier)
        super().__init__(sparsifier, last_epoch, verbose)

    @staticmethod
    def sparsity_compute_fn(
        s_0: float, s_f: float, t: int, t_0: int, dt: int, n: int, initially_zero: bool = False
    ) -> float:
        """Return the level at epoch t: from s_0 at t_0 to s_f after n steps of dt epochs."""
        if initially_zero and t < t_0:
            return 0
        level = s_f + (s_0 - s_f) * (1.0 - (t - t_0) / (dt * n)) ** 3
        return max(s_0, min(s_f, level))

    def get_sl(self) -> list[float]:
        """Return the levels of this epoch."""
        self._warn_outside_step()
        options = zip(
            self.init_sl, self.base_sl, self.init_t, self.delta_t, self.total_t, self.initially_zero
        )
        return [
            self.sparsity_compute_fn(first, last, self.last_epoch, begin, delta, total, zero)
            for first, last, begin, delta, total, zero in options
        ]


__all__ = ["BaseScheduler", "CubicSL", "LambdaSL"]

_add_modules(
    __name__,
    {
        "base_scheduler": "BaseScheduler",
        "cubic_scheduler": "CubicSL",
        "lambda_scheduler": "LambdaSL",
    },
)
