"""Schedules made of schedules, and the one that follows a metric."""

import math
import warnings
from bisect import bisect_right

from rushlight.optim._lr_base import LRScheduler, _as_list, _update_param_group_val
from rushlight.optim.optimizer import Optimizer


class SequentialLR(LRScheduler):
    """Runs one schedule after the other, changing at the epochs of `milestones`."""

    def __init__(self, optimizer, schedulers, milestones, last_epoch=-1):
        name = type(self).__name__
        if len(schedulers) < 1:
            raise ValueError(f"{name} expects at least one scheduler but got none.")
        for i, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(
                    f"{name} at index {i} should have `optimizer` as its attribute."
                )
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
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                f"{name} expects one milestone fewer than schedulers: got {len(schedulers)} "
                f"schedulers and {len(milestones)} milestones"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # Each schedule has made its first step already: undo them, and make the first one's.
        for group in optimizer.param_groups:
            _update_param_group_val(group, "lr", group["initial_lr"])
        self._undo(self)
        schedulers[0]._initial_step()
        self._last_lr = schedulers[0].get_last_lr()

    def _undo(self, scheduler):
        if hasattr(scheduler, "_schedulers"):
            for inner in scheduler._schedulers:
                self._undo(inner)
        elif hasattr(scheduler, "last_epoch"):
            scheduler.last_epoch -= 1

    def step(self):
        """Go on by one step."""
        self.last_epoch += 1
        i = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[i]
        if i > 0 and self._milestones[i - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()

    def state_dict(self):
        """Everything but the optimizer, the schedules by their own state_dict."""
        return _state_of_several(self)

    def load_state_dict(self, state_dict):
        """Take what `state_dict` gave."""
        _load_several(self, state_dict)


def _state_of_several(scheduler):
    skipped = ("optimizer", "_schedulers")
    state = {key: value for key, value in scheduler.__dict__.items() if key not in skipped}
    state["_schedulers"] = [inner.state_dict() for inner in scheduler._schedulers]
    return state


def _load_several(scheduler, state_dict):
    state_dict = dict(state_dict)
    inner_states = state_dict.pop("_schedulers")
    scheduler.__dict__.update(state_dict)
    for inner, state in zip(scheduler._schedulers, inner_states):
        inner.load_state_dict(state)


class ChainedScheduler(LRScheduler):
    """Steps several schedules, each working on what the one before set."""

    def __init__(self, schedulers, optimizer=None):
        name = type(self).__name__
        if len(schedulers) < 1:
            raise ValueError(f"{name} expects at least one scheduler but got none.")
        optimizer = optimizer or schedulers[0].optimizer
        for i, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(
                    f"{name} at index {i} should have `optimizer` as its attribute."
                )
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
        self._schedulers = schedulers
        self.optimizer = optimizer
        self._last_lr = self._current_lrs()

    def step(self):
        """Step all of them."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._current_lrs()

    def state_dict(self):
        """Everything but the optimizer, the schedules by their own state_dict."""
        return _state_of_several(self)

    def load_state_dict(self, state_dict):
        """Take what `state_dict` gave."""
        _load_several(self, state_dict)


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
        optimizer,
        mode="min",
        factor=0.1,
        patience=10,
        threshold=1e-4,
        threshold_mode="rel",
        cooldown=0,
        min_lr=0,
        eps=1e-8,
    ):
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
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
            self.default_min_lr = min_lr
            self.min_lrs = [min_lr] * len(optimizer.param_groups)
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = self._current_lrs()
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self._reset()

    def _reset(self):
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def step(self, metrics, epoch=None):
        """Take note of an epoch's metric, and reduce lr if it is time."""
        current = float(metrics)
        if epoch is None:
            epoch = self.last_epoch + 1
        else:
            warnings.warn("step(epoch) is deprecated, call step()", UserWarning, stacklevel=2)
        self.last_epoch = epoch
        if self._is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr(epoch)
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
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
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, least in zip(groups, self.min_lrs):
            old = float(group["lr"])
            new = max(old * self.factor, least)
            if old - new > self.eps:
                _update_param_group_val(group, "lr", new)

    @property
    def in_cooldown(self):
        return self.cooldown_counter > 0

    def _is_better(self, a, best):
        if self.threshold_mode == "abs":
            return a < best - self.threshold if self.mode == "min" else a > best + self.threshold
        if self.mode == "min":
            return a < best * (1.0 - self.threshold)
        return a > best * (1.0 + self.threshold)
