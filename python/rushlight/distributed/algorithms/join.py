"""Training on uneven inputs: who has no more takes part in what the others do, with nothing."""

from __future__ import annotations

import rushlight
from rushlight._ignored import warn_program as _warn_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from typing_extensions import Self


class JoinHook:
    """What a process does for those that still work when its inputs have ended."""

    def main_hook(self) -> None:
        """Called in each iteration of the others."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Called when all have ended."""


class _JoinConfig:
    """How the Join context of a Joinable is set."""

    def __init__(
        self,
        enable: bool = False,
        throw_on_early_termination: bool = False,
        is_first_joinable: bool = False,
    ) -> None:
        self.enable = enable
        self.throw_on_early_termination = throw_on_early_termination
        self.is_first_joinable = is_first_joinable


class Joinable:
    """An object that takes part in `Join`.

    Its class defines `join_hook`, `join_device` and `join_process_group`, and calls
    `Join.notify_join_context(self)` once before the collectives of each iteration.
    """

    def __init__(self) -> None:
        super().__init__()
        self._join_config = _JoinConfig()

    def join_hook(self, **kwargs: Any) -> NoReturn:
        """Return its JoinHook; gets the keyword arguments of Join."""
        raise NotImplementedError(f"{type(self).__name__}.join_hook, asked with {kwargs}")

    @property
    def join_device(self) -> NoReturn:
        """The device of the tensors that it exchanges."""
        raise NotImplementedError(f"{type(self).__name__}.join_device")

    @property
    def join_process_group(self) -> NoReturn:
        """The processes."""
        raise NotImplementedError(f"{type(self).__name__}.join_process_group")


class Join:
    """A context in which processes may have different numbers of inputs.

    Args:
        joinables: the objects whose collectives are shadowed, in the order in which an iteration
            calls them.
        enable: False: all have equally many inputs, and nothing is done.
        throw_on_early_termination: raise in all processes when one has no more.
        kwargs: given to each `join_hook`.

    Raises:
        RuntimeError: with throw_on_early_termination, when a process has no more inputs.
    """

    def __init__(
        self,
        joinables: Any,
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        self._joinables = list(joinables)
        self._hooks = [joinable.join_hook(**kwargs) for joinable in self._joinables]
        self._enable, self._throw = enable, throw_on_early_termination
        for number, joinable in enumerate(self._joinables):
            joinable._join_config = _JoinConfig(enable, throw_on_early_termination, number == 0)
        groups = {id(joinable.join_process_group) for joinable in self._joinables}
        if len(groups) != 1:
            raise ValueError("Using join context manager with multiple process groups")
        self._group = self._joinables[0].join_process_group
        self._rank = rushlight.distributed.get_rank(self._group)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        try:
            if self._enable and kind is None:
                self._shadow()
        finally:
            for joinable in self._joinables:
                joinable._join_config = _JoinConfig()

    def _shadow(self):
        is_last, iterations = True, 0
        while True:
            iterations += 1
            if iterations == 1000:
                _warn_program(
                    f"Detected uneven input skew of greater than 1000. This means that rank "
                    f"{self._rank} has at least 1000 fewer inputs than other currently-active "
                    "ranks. This level of skew could lead to performance degradation during "
                    "training.",
                )
            working = rushlight.zeros(1)
            rushlight.distributed.all_reduce(working, group=self._group)
            if working.item() == 0:
                break
            if self._throw:
                rushlight.distributed.all_reduce(rushlight.ones(1), group=self._group)
                raise RuntimeError(f"Rank {self._rank} exhausted all inputs.")
            is_last = False
            for hook in self._hooks:
                hook.main_hook()
        for hook in self._hooks:
            hook.post_hook(is_last)

    @staticmethod
    def notify_join_context(joinable: Any) -> Any:
        """Tell the other processes that this one still works.

        Returns:
            A Work, of the first joinable of a context; None of the others or without a context.
        """
        config = joinable._join_config
        if not config.enable or not config.is_first_joinable:
            return None
        group = joinable.join_process_group
        work = rushlight.distributed.all_reduce(
            rushlight.ones(1, device=joinable.join_device), group=group, async_op=True
        )
        if config.throw_on_early_termination:
            ended = rushlight.zeros(1, device=joinable.join_device)
            rushlight.distributed.all_reduce(ended, group=group)
            if ended.item():
                raise RuntimeError(
                    "Detected at least one rank that exhausted inputs. Throwing across all ranks."
                )
        return work


__all__ = ["Join", "JoinHook", "Joinable"]
