"""Schedules made of schedules, and the one that follows a metric."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from rushlight._ignored import warn_program
from rushlight.optim._lr_base import (
    LRScheduler,
    _as_list,
    _check_optimizer,
    _update_param_group_val,
)
from rushlight.optim.optimizer import Optimizer


class _SchedulerOfSeveral(LRScheduler):
    """A schedule that runs others, which its state holds by their own state_dict."""

    def _check_schedulers(self, schedulers, optimizer=None):
        """The one optimizer of all of them."""
        name = type(self).__name__
        if len(schedulers) < 1:
            raise ValueError(f"{name} expects at least one scheduler but got none.")
        optimizer = optimizer or schedulers[0].optimizer
        for i, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(f"{name} at index {i} should have `optimizer` as its attribute.")
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{name} does not support `ReduceLROnPlateau` scheduler: its step needs a "
                    "metric, which nobody would pass"
                )
            if optimizer != scheduler.optimizer:
                raise ValueError(
                    f"{name} expects all schedulers to belong to the same optimizer, but the one "
                    f"at index {i} does not"
                )
        return optimizer

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer, the schedules by their own state_dict."""
        skipped = ("optimizer", "_schedulers")
        state = {key: value for key, value in self.__dict__.items() if key not in skipped}
        state["_schedulers"] = [inner.state_dict() for inner in self._schedulers]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take what `state_dict` gave."""
        state_dict = dict(state_dict)
        inner_states = state_dict.pop("_schedulers")
        self.__dict__.update(state_dict)
        for inner, state in zip(self._schedulers, inner_states):
            inner.load_state_dict(state)


class SequentialLR(_SchedulerOfSeveral):
    """Runs one schedule after the other, changing at the epochs of `milestones`."""

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: list[LRScheduler],
        milestones: list[int],
        last_epoch: int = -1,
    ) -> None:
        self._check_schedulers(schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                f"{type(self).__name__} expects one milestone fewer than schedulers: got "
                f"{len(schedulers)} schedulers and {len(milestones)} milestones"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch: int = last_epoch + 1
        self.optimizer = optimizer
        # Each schedule has made its first step already: undo them, and make the first one's.
        for group in optimizer.param_groups:
            _update_param_group_val(group, "lr", group["initial_lr"])
        self.recursive_undo()
        schedulers[0]._initial_step()
        self._last_lr = schedulers[0].get_last_lr()

    def recursive_undo(self, sched: LRScheduler | None = None) -> None:
        """Take back the step that a schedule, by default each of these, made when it was made."""
        scheduler = self if sched is None else sched
        if hasattr(scheduler, "_schedulers"):
            for inner in scheduler._schedulers:
                self.recursive_undo(inner)
        elif hasattr(scheduler, "last_epoch"):
            scheduler.last_epoch -= 1

    def step(self) -> None:
        """Go on by one step."""
        self.last_epoch += 1
        i = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[i]
        if i > 0 and self._milestones[i - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_SchedulerOfSeveral):
    """Steps several schedules, each working on what the one before set."""

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        optimizer = self._check_schedulers(schedulers, optimizer)
        self._schedulers = schedulers
        self.optimizer: Any = optimizer
        self._last_lr = self._current_lrs()

    def step(self) -> None:
        """Step all of them."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._current_lrs()


class ReduceLROnPlateau(LRScheduler):
    """Multiplies lr by `factor` once a metric has not improved for more than `patience` epochs.

    Args:
        mode: "min" if lower is better, else "max".
        threshold, threshold_mode: what counts as better: by a share ("rel") or by an amount
            ("abs").
        cooldown: epochs to wait after a reduction.
        min_lr: lower bound, one for all groups or one for each.
        eps: reductions below this are not made.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: list[float] | float = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        _check_optimizer(optimizer)
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        self.factor = factor
        self.optimizer = optimizer
        if isinstance(min_lr, (list, tuple)):
            self.default_min_lr = None
            self.min_lrs = _as_list("min_lr", optimizer, min_lr)
        else:
            self.default_min_lr: Any = min_lr
            self.min_lrs = [min_lr] * len(optimizer.param_groups)
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = self._current_lrs()
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.mode_worse: float = math.inf if mode == "min" else -math.inf
        self._reset()

    def _reset(self):
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def step(self, metrics: Any, epoch: Any = None) -> None:
        """Take note of an epoch's metric, and reduce lr if it is time."""
        current = float(metrics)
        if epoch is None:
            epoch = self.last_epoch + 1
        else:
            warn_program("step(epoch) is deprecated, call step()")
        self.last_epoch: Any = epoch
        if self._is_better(current, self.best):
            self.best: float = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr(epoch)
            self.cooldown_counter: int = self.cooldown
            self.num_bad_epochs: int = 0
        self._last_lr = self._current_lrs()

    def _reduce_lr(self, epoch):
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    "The number of param groups in the `optimizer` differs from when "
                    f"`ReduceLROnPlateau` was initialized ({len(groups)} and {len(self.min_lrs)}) "
                    "and min_lr was a list"
                )
            self.min_lrs: list[Any] | list[float] = [self.default_min_lr] * len(groups)
        for group, least in zip(groups, self.min_lrs):
            old = float(group["lr"])
            new = max(old * self.factor, least)
            if old - new > self.eps:
                _update_param_group_val(group, "lr", new)

    @property
    def in_cooldown(self) -> Any:
        return self.cooldown_counter > 0

    def _is_better(self, a, best):
        if self.threshold_mode == "abs":
            return a < best - self.threshold if self.mode == "min" else a > best + self.threshold
        if self.mode == "min":
            return a < best * (1.0 - self.threshold)
        return a > best * (1.0 + self.threshold)
