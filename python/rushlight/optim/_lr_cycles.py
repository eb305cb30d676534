"""Schedules of cycles that move the momentum too."""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import Any

from rushlight import Tensor
from rushlight.optim._lr_base import (
    LRScheduler,
    _as_list,
    _check_optimizer,
    _update_param_group_val,
)
from rushlight.optim.optimizer import Optimizer


class _MomentumMixin:
    """For schedules that move the momentum against the learning rate."""

    def _begin_momentum(self, base_momentum, max_momentum, last_epoch):
        """The groups' bounds of the momentum, which starts at the upper one."""
        defaults = self.optimizer.defaults
        if "momentum" not in defaults and "betas" not in defaults:
            raise ValueError(
                "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
            )
        self.use_beta1: bool = "betas" in defaults
        lows = _as_list("base_momentum", self.optimizer, base_momentum)
        highs = _as_list("max_momentum", self.optimizer, max_momentum)
        if last_epoch == -1:
            for low, high, group in zip(lows, highs, self.optimizer.param_groups):
                self._set_momentum(group, high)
                group["max_momentum"] = high
                group["base_momentum"] = low
        return lows, highs

    def _get_momentum(self, group):
        return group["betas"][0] if self.use_beta1 else group["momentum"]

    def _set_momentum(self, group, value):
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value


class CyclicLR(_MomentumMixin, LRScheduler):
    """lr goes up and down between `base_lr` and `max_lr`, batch by batch.

    Args:
        step_size_up, step_size_down: batches of each half of a cycle.
        mode: "triangular", "triangular2" (height halved each cycle) or "exp_range"
            (height times gamma^iteration).
        scale_fn: own scaling, called with the cycle or the iteration by `scale_mode`.
        cycle_momentum: move the momentum between `max_momentum` and `base_momentum` inversely.

    Smith, "Cyclical Learning Rates for Training Neural Networks", 2017.
    """

    base_momentums: list[Any]
    max_momentums: list[Any]

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        _check_optimizer(optimizer)
        self.optimizer = optimizer
        base_lrs = _as_list("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for lr, group in zip(base_lrs, optimizer.param_groups):
                _update_param_group_val(group, "lr", lr)
        self.max_lrs: list[Any] = _as_list("max_lr", optimizer, max_lr)
        step_size_up = float(step_size_up)
        step_size_down = step_size_up if step_size_down is None else float(step_size_down)
        self.total_size: Any = step_size_up + step_size_down
        self.step_ratio: Any = step_size_up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        if scale_fn is None:
            self.scale_mode: str = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            momentums = self._begin_momentum(base_momentum, max_momentum, last_epoch)
            self.base_momentums, self.max_momentums = momentums
        super().__init__(optimizer, last_epoch)
        self.base_lrs: Any = base_lrs

    def scale_fn(self, x: float) -> float:
        """The height of the cycle, as a share."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular2":
            return 1 / (2.0 ** (x - 1))
        return self.gamma**x if self.mode == "exp_range" else 1.0

    def get_lr(self) -> list[float | Tensor]:
        self._warn_outside_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            momenta = zip(self.base_momentums, self.max_momentums, self.optimizer.param_groups)
            for low, high, group in momenta:
                self._set_momentum(group, high - (high - low) * height * scale)
        return [
            low + (high - low) * height * scale for low, high in zip(self.base_lrs, self.max_lrs)
        ]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; an own scale_fn is saved only if it is an object."""
        state = super().state_dict()
        custom = state["_scale_fn_custom"]
        if custom is not None:
            is_object = not isinstance(custom, types.FunctionType)
            state["_scale_fn_custom"] = custom.__dict__.copy() if is_object else None
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take what `state_dict` gave."""
        state_dict = dict(state_dict)
        custom = state_dict.pop("_scale_fn_custom", None)
        super().load_state_dict(state_dict)
        if custom is not None:
            self._scale_fn_custom.__dict__.update(custom)


class OneCycleLR(_MomentumMixin, LRScheduler):
    """lr rises from max_lr / div_factor to max_lr and then falls far below its start.

    Args:
        max_lr: the top, one for all groups or one for each.
        total_steps: length; or `epochs` times `steps_per_epoch`.
        pct_start: share of the steps in which lr rises.
        anneal_strategy: "cos" or "linear".
        cycle_momentum: move the momentum between `max_momentum` and `base_momentum` inversely.
        final_div_factor: the last lr is the first one divided by it.
        three_phase: first fall as it rose, then to the end.

    Smith and Topin, "Super-Convergence", 2018.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        _check_optimizer(optimizer)
        self.optimizer = optimizer
        self.total_steps: Any = _one_cycle_length(total_steps, epochs, steps_per_epoch)
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._anneal_func_type = anneal_strategy
        self._schedule_phases = _one_cycle_phases(self.total_steps, pct_start, three_phase)
        max_lrs = _as_list("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for group, top in zip(optimizer.param_groups, max_lrs):
                group["initial_lr"] = top / div_factor
                group["max_lr"] = top
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._begin_momentum(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def _anneal_func(self, start, end, share):
        kind = self.__dict__.get("_anneal_func_type")
        if kind is None:  # a file of an older version holds the function
            return self.anneal_func(start, end, share)
        return (self._annealing_cos if kind == "cos" else self._annealing_linear)(start, end, share)

    @staticmethod
    def _annealing_cos(start, end, pct):
        return end + (start - end) / 2.0 * (1 + math.cos(math.pi * pct))

    @staticmethod
    def _annealing_linear(start, end, pct):
        return (end - start) * pct + start

    def get_lr(self) -> list[float | Tensor]:
        self._warn_outside_step()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The specified number of total steps is "
                f"{self.total_steps}"
            )
        start = 0.0
        for i, phase in enumerate(self._schedule_phases):
            end = phase["end_step"]
            if step <= end or i == len(self._schedule_phases) - 1:
                share = (step - start) / (end - start)
                break
            start = end
        lrs = []
        for group in self.optimizer.param_groups:
            lrs.append(self._anneal_func(group[phase["start_lr"]], group[phase["end_lr"]], share))
            if self.cycle_momentum:
                ends = group[phase["start_momentum"]], group[phase["end_momentum"]]
                self._set_momentum(group, self._anneal_func(*ends, share))
        return lrs


def _one_cycle_length(total_steps, epochs, steps_per_epoch):
    if total_steps is not None:
        if total_steps <= 0 or not isinstance(total_steps, int):
            raise ValueError(f"Expected positive integer total_steps, but got {total_steps}")
        return total_steps
    if epochs is None or steps_per_epoch is None:
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    for name, value in (("epochs", epochs), ("steps_per_epoch", steps_per_epoch)):
        if not isinstance(value, int) or value <= 0:
            raise ValueError(f"Expected positive integer {name}, but got {value}")
    return epochs * steps_per_epoch


def _one_cycle_phases(total_steps, pct_start, three_phase):
    """Where each phase ends, and between which of the groups' options it moves."""

    names = ("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum")

    def phase(*values):
        return dict(zip(names, values))

    up = float(pct_start * total_steps) - 1
    rise = phase(up, "initial_lr", "max_lr", "max_momentum", "base_momentum")
    if not three_phase:
        fall = phase(total_steps - 1, "max_lr", "min_lr", "base_momentum", "max_momentum")
        return [rise, fall]
    down = float(2 * pct_start * total_steps) - 2
    return [
        rise,
        phase(down, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
        phase(total_steps - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
    ]
