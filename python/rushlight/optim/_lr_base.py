"""LRScheduler, the base class of all schedules."""

from __future__ import annotations

import weakref
from functools import wraps
from typing import Any

from rushlight import Tensor
from rushlight._ignored import warn_program
from rushlight.optim.optimizer import Optimizer


def _copy(value):
    return value.clone() if isinstance(value, Tensor) else value


def _update_param_group_val(group, key, value):
    """Set an option of a group; a tensor keeps being the same tensor."""
    if isinstance(group[key], Tensor):
        group[key].fill_(value.item() if isinstance(value, Tensor) else value)
    else:
        group[key] = value


def _as_list(name, optimizer, value):
    """One value for each group; tensors are copied, which the program may change afterwards."""
    if not isinstance(value, (list, tuple)):
        return [_copy(value) for _ in optimizer.param_groups]
    if len(value) != len(optimizer.param_groups):
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups: expected "
            f"{len(optimizer.param_groups)} but got {len(value)}"
        )
    return [_copy(one) for one in value]


def _check_optimizer(optimizer):
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


class LRScheduler:
    """The base class of schedules: `get_lr` gives the groups' learning rates at `last_epoch`.

    Args:
        optimizer: the optimizer whose groups' "lr" is set.
        last_epoch: the last step already made; -1 to begin. Otherwise the groups must hold
            "initial_lr".
    """

    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        _check_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", _copy(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming"
                )
        self.base_lrs: list[Any] = [_copy(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch: int = last_epoch
        _note_calls_of_step(optimizer)
        self._initial_step()

    def _initial_step(self):
        """The step that brings `last_epoch` to 0 and sets the first learning rates."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take what `state_dict` gave."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[float | Tensor]:
        """The learning rates that the last step set."""
        return self._last_lr

    def get_lr(self) -> list[float | Tensor]:
        """The groups' learning rates at `last_epoch`, as a rule from those of the step before."""
        raise NotImplementedError(f"{type(self).__name__}: get_lr is not implemented")

    def step(self, epoch: int | None = None) -> None:
        """Go on by one step, or to `epoch` (deprecated)."""
        if self._step_count == 1 and not getattr(self.optimizer.step, "_is_noted", False):
            warn_program(
                "Seems like `optimizer.step()` has been overridden after the schedule was made: "
                "make the schedule last",
            )
        elif self._step_count == 1 and not getattr(self.optimizer, "_opt_called", False):
            warn_program(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`: the first "
                "learning rate is never used",
            )
        self._step_count += 1
        if epoch is not None:
            warn_program(
                "The epoch parameter in `scheduler.step()` was not necessary and is deprecated: "
                "schedules count their steps",
            )
        self._update_lr(epoch)

    def _update_lr(self, epoch=None):
        if epoch is None:
            self.last_epoch += 1
            values = self._compute_lr()
        else:
            self.last_epoch = epoch
            closed = getattr(self, "_get_closed_form_lr", None)
            values = self._compute_lr() if closed is None else closed()
        for group, lr in zip(self.optimizer.param_groups, values):
            _update_param_group_val(group, "lr", lr)
        self._last_lr = self._current_lrs()

    def _compute_lr(self):
        self._get_lr_called_within_step = True
        try:
            return self.get_lr()
        finally:
            self._get_lr_called_within_step = False

    def _current_lrs(self):
        return [_copy(group["lr"]) for group in self.optimizer.param_groups]

    def _warn_outside_step(self):
        if not self._get_lr_called_within_step:
            warn_program(
                "To get the last learning rate, call get_last_lr(); get_lr() is for step() to call",
            )


class _LRScheduler(LRScheduler):
    """The older name of LRScheduler."""


def _note_calls_of_step(optimizer):
    """Make optimizer.step leave a note that it was called, to warn of the wrong order."""
    if getattr(optimizer.step, "_is_noted", False):
        return
    step = optimizer.step
    function = step.__func__ if hasattr(step, "__func__") else None
    if function is None:
        return
    ref = weakref.ref(optimizer)

    @wraps(function)
    def noted(*args, **kwargs):
        self = ref()
        self._opt_called = True
        return function.__get__(self, type(self))(*args, **kwargs)

    noted._is_noted = True
    optimizer.step = noted
