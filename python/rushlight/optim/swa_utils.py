"""Averages of a model's weights over the course of training."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.optim._lr_base import LRScheduler, _as_list, _copy
from rushlight.optim.optimizer import Optimizer
from rushlight.types import Device
from rushlight.utils._foreach_utils import _group_tensors_by_device_and_dtype  # noqa: F401

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight.nn.modules.module import Module

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]


def _check_decay(decay):
    if not 0.0 <= decay <= 1.0:
        raise ValueError(
            f"Invalid decay value {decay} provided. Please provide a value in [0,1] range."
        )


def get_ema_avg_fn(decay: float = 0.999) -> Callable[..., Any]:
    """An `avg_fn` of AveragedModel: decay * average + (1 - decay) * current."""
    _check_decay(decay)

    def ema_update(ema_param, current_param, num_averaged):
        with rushlight.no_grad():
            return (decay * ema_param).add_(current_param, alpha=1 - decay)

    return ema_update


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[..., Any]:
    """A `multi_avg_fn` of AveragedModel: as `get_ema_avg_fn`, on lists in place."""
    _check_decay(decay)

    def ema_update(ema_params, current_params, num_averaged):
        with rushlight.no_grad():
            for ema, current in zip(ema_params, current_params):
                if ema.is_floating_point() or ema.is_complex():
                    ema.lerp_(current, 1 - decay)
                else:
                    ema.copy_(ema * decay + current * (1 - decay))

    return ema_update


def get_swa_avg_fn() -> Callable[..., Any]:
    """An `avg_fn` of AveragedModel: the plain average."""

    def swa_update(averaged_param, current_param, num_averaged):
        with rushlight.no_grad():
            return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def get_swa_multi_avg_fn() -> Callable[..., Any]:
    """A `multi_avg_fn` of AveragedModel: the plain average, on lists in place."""
    average = get_swa_avg_fn()

    def swa_update(averaged_params, current_params, num_averaged):
        share = 1 / (float(num_averaged) + 1)
        with rushlight.no_grad():
            for averaged, current in zip(averaged_params, current_params):
                if averaged.is_floating_point() or averaged.is_complex():
                    averaged.lerp_(current, share)
                else:
                    averaged.copy_(average(averaged, current, num_averaged))

    return swa_update


class AveragedModel(rushlight.nn.Module):
    """A copy of a model that holds an average of its weights.

    Args:
        model: copied as `module`.
        device: where the copy is.
        avg_fn: called with an average, a parameter and how many are in the average; gives the new
            average. None is the plain average.
        multi_avg_fn: the same on lists, in place.
        use_buffers: average buffers too; otherwise they are copied.

    Izmailov et al., "Averaging Weights Leads to Wider Optima and Better Generalization", 2018.
    """

    def __init__(
        self,
        model: Module,
        device: Device = None,
        avg_fn: Callable[[Tensor, Tensor, Tensor | int], Tensor] | None = None,
        multi_avg_fn: Callable[..., Any] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module: Module = self.module.to(device)
        self.register_buffer("n_averaged", rushlight.tensor(0, dtype=rushlight.long, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        return self.module(*args, **kwargs)

    def _averaged(self, model):
        members = model.parameters()
        if self.use_buffers:
            members = itertools.chain(members, model.buffers())
        return [member.detach() for member in members]

    def update_parameters(self, model: Module) -> None:
        """Take the model's present weights into the average."""
        averages, currents = self._averaged(self.module), self._averaged(model)
        currents = [c.to(a.device) for a, c in zip(averages, currents)]
        if self.n_averaged == 0:
            for average, current in zip(averages, currents):
                average.copy_(current)
        elif self.avg_fn is not None:
            for average, current in zip(averages, currents):
                average.copy_(self.avg_fn(average, current, self.n_averaged.to(average.device)))
        else:
            (self.multi_avg_fn or get_swa_multi_avg_fn())(averages, currents, self.n_averaged)
        if not self.use_buffers:
            for own, current in zip(self.module.buffers(), model.buffers()):
                own.detach().copy_(current.detach())
        self.n_averaged += 1


def update_bn(loader: Iterable[Any], model: Module, device: Device = None) -> None:
    """Compute the running statistics of all batch norms anew, by one pass over the data.

    Args:
        loader: batches, or tuples and lists whose first element is one.
    """
    norms = [
        module
        for module in model.modules()
        if isinstance(module, rushlight.nn.modules.batchnorm._BatchNorm)
    ]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    was_training = model.training
    model.train()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the plain average over batches
    with rushlight.no_grad():
        for batch in loader:
            batch = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(batch if device is None else batch.to(device))
    for norm, momentum in zip(norms, momenta):
        norm.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Moves lr to `swa_lr` over `anneal_epochs`, and keeps it there.

    Args:
        swa_lr: one for all groups or one for each.
        anneal_strategy: "cos" or "linear".
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        for lr, group in zip(_as_list("swa_lr", optimizer, swa_lr), optimizer.param_groups):
            group["swa_lr"] = lr
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must by one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, step):
        """How far the way to swa_lr is gone after a step."""
        t = max(0, min(1, step / max(1, self.anneal_epochs)))
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def get_lr(self) -> Any:
        self._warn_outside_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(step - 1), self._share(step)
        lrs = []
        for group in self.optimizer.param_groups:
            lr, goal = _copy(group["lr"]), group["swa_lr"]
            start = goal if before == 1 else (lr - goal * before) / (1 - before)
            lrs.append(goal * now + start * (1 - now))
        return lrs
