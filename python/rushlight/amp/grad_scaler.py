"""Scaling of losses, so that small gradients survive 16-bit floats."""

from __future__ import annotations

import enum
from collections import defaultdict

import rushlight
from rushlight._ignored import warn_program as _warn_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, TypeVar

    from rushlight import Tensor
    from rushlight.optim.optimizer import Optimizer
    from rushlight.types import Device

    _T = TypeVar("_T", bound="Tensor | Iterable[Tensor]")


def _is_finite(t):
    """Are all elements finite? They are if their sum is, which is a third of the time."""
    t = t.coalesce()._values() if t.is_sparse else t
    return bool(t.sum().isfinite()) or bool(t.isfinite().all())


class OptState(enum.Enum):
    """How far an optimizer's gradients are: scaled, unscaled, or used."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _refresh_per_optimizer_state() -> dict[str, Any]:
    return {"stage": OptState.READY, "found_inf_per_device": {}}


class _MultiDeviceReplicator:
    """A tensor of one element, with a copy on each device that asks for one."""

    def __init__(self, master_tensor: Tensor) -> None:
        self.master = master_tensor
        self._per_device_tensors: dict[Any, Tensor] = {}

    def get(self, device: Any) -> Tensor:
        if device not in self._per_device_tensors:
            self._per_device_tensors[device] = self.master.to(device, copy=True)
        return self._per_device_tensors[device]


class GradScaler:
    """Scales the loss before backward, the gradients back before the step, and skips steps whose
    gradients overflowed.

    Args:
        device: accepted; gradients are unscaled where they are.
        init_scale: the first scale.
        growth_factor, backoff_factor: what the scale is multiplied by after growth_interval good
            steps, or a bad one.
        growth_interval: the number of good steps after which the scale grows.
        enabled: without it every method passes through.
    """

    def __init__(
        self,
        device: Device = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if enabled and growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if enabled and backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._device = device
        if enabled and str(device).startswith("cuda") and not rushlight.cuda.is_available():
            _warn_program(
                "torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling."
            )
            enabled = False
        self._enabled = enabled
        self._init_scale, self._init_growth_tracker = float(init_scale), 0
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval = growth_interval
        self._scale: Tensor | None = None  # with the next, once something was scaled
        self._growth_tracker: Tensor | None = None  # good steps since the scale changed
        self._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)  # by id

    def _lazy_init_scale_growth_tracker(self, dev: Any) -> None:
        self._scale = rushlight.full((), self._init_scale, dtype=rushlight.float32, device=dev)
        self._growth_tracker = rushlight.full(
            (), self._init_growth_tracker, dtype=rushlight.int32, device=dev
        )

    def scale(self, outputs: _T) -> _T:
        """The tensor, or all in an iterable, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, rushlight.Tensor):
            if self._scale is None:
                self._lazy_init_scale_growth_tracker(outputs.device)
            return outputs * self._scale.to(outputs.device)
        if isinstance(outputs, (str, bytes)) or not hasattr(outputs, "__iter__"):
            raise ValueError(
                f"outputs must be a Tensor or an iterable of Tensors, got {type(outputs).__name__}"
            )
        scaled = map(self.scale, outputs)
        return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled

    def _check_scale_growth_tracker(self, funcname: str) -> tuple[Tensor, Tensor]:
        if self._scale is None or self._growth_tracker is None:
            raise AssertionError(
                f"Attempted {funcname} but nothing was scaled: the loss must come from "
                "scaler.scale(loss) earlier in the iteration."
            )
        return self._scale, self._growth_tracker

    def _gradients(self, optimizer):
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    yield parameter.grad

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the optimizer's gradients by the scale; once between steps."""
        if not self._enabled:
            return
        scale, _ = self._check_scale_growth_tracker("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        inverse = scale.double().reciprocal().float()
        found = rushlight.zeros((), device=scale.device)
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, inverse, found, False)
        state["stage"] = OptState.UNSCALED

    def _unscale_grads_(
        self, optimizer: Optimizer, inv_scale: Tensor, found_inf: Tensor, allow_fp16: bool
    ) -> dict[Any, Tensor]:
        """Multiply the gradients by inv_scale.

        Programs override this one, too, as `_maybe_opt_step`.

        Returns:
            For each device found_inf, or 1 where a gradient there is not finite.
        """
        gradients = list(self._gradients(optimizer))
        if not allow_fp16 and any(g.dtype is rushlight.float16 for g in gradients):
            raise ValueError("Attempting to unscale FP16 gradients.")
        factor, found, overflowed = float(inv_scale), _MultiDeviceReplicator(found_inf), set()
        with rushlight.no_grad():
            for gradient in gradients:
                if factor != 1:
                    gradient.mul_(factor)
                flag = found.get(gradient.device)
                if gradient.device not in overflowed and not _is_finite(gradient):
                    overflowed.add(gradient.device)
                    flag.fill_(1.0)
        return found._per_device_tensors

    def _check_inf_per_device(self, optimizer: Optimizer) -> dict[Any, Tensor]:
        scale, _ = self._check_scale_growth_tracker("_check_inf_per_device")
        one, zero = (rushlight.full((), value, device=scale.device) for value in (1.0, 0.0))
        found = self._unscale_grads_(optimizer, one, zero, True)
        self._per_optimizer_states[id(optimizer)]["found_inf_per_device"] = found
        return found

    def _found_inf_per_device(self, optimizer: Optimizer) -> dict[Any, Tensor]:
        return self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> float | None:
        """optimizer.step(), unless a gradient is not finite.

        An optimizer with the attribute `_step_supports_amp_scaling` unscales by itself: its step
        finds the scale in `self.grad_scale` (None if unscale_ was called) and 1 or 0 in
        `self.found_inf`, or takes the scaler as `grad_scaler`.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_scale_growth_tracker("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            result = self._step_that_unscales(optimizer, state, args, kwargs)
        else:
            if state["stage"] is OptState.READY:
                self.unscale_(optimizer)
            self._check_recorded(state)
            result = self._maybe_opt_step(optimizer, state, *args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    def _maybe_opt_step(
        self, optimizer: Optimizer, optimizer_state: dict[str, Any], *args: Any, **kwargs: Any
    ) -> float | None:
        if any(found.item() for found in optimizer_state["found_inf_per_device"].values()):
            return None
        return optimizer.step(*args, **kwargs)

    def _check_recorded(self, state):
        if not state["found_inf_per_device"]:
            raise AssertionError("No inf checks were recorded for this optimizer.")

    def _step_that_unscales(self, optimizer, state, args, kwargs):
        import inspect

        unscaled = state["stage"] is OptState.UNSCALED
        if not unscaled:
            self._check_inf_per_device(optimizer)
        self._check_recorded(state)
        if "grad_scaler" in inspect.signature(optimizer.step).parameters:
            _warn_program(
                "GradScaler gives itself to step(grad_scaler=...), which is deprecated: read "
                "self.grad_scale and self.found_inf in step().",
                FutureWarning,
            )
            return optimizer.step(*args, **kwargs, grad_scaler=self)
        flags = state["found_inf_per_device"]
        device = next(iter(flags))
        optimizer.grad_scale = None if unscaled else self._scale.to(device)
        optimizer.found_inf = sum(flag.to(device) for flag in flags.values())
        try:
            return optimizer.step(*args, **kwargs)
        finally:
            del optimizer.grad_scale, optimizer.found_inf

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Adjust the scale after the steps of an iteration, or set it."""
        if not self._enabled:
            return
        scale, tracker = self._check_scale_growth_tracker("update")
        if new_scale is not None:
            if isinstance(new_scale, rushlight.Tensor) and (
                new_scale.numel() != 1 or new_scale.requires_grad
            ):
                raise AssertionError(
                    "new_scale should be a float or a 1-element tensor with requires_grad=False."
                )
            scale.fill_(float(new_scale))
        else:
            flags = [
                flag.to(scale.device)
                for state in self._per_optimizer_states.values()
                for flag in state["found_inf_per_device"].values()
            ]
            if not flags:
                raise AssertionError("No inf checks were recorded prior to update.")
            factors = (self._growth_factor, self._backoff_factor, self._growth_interval)
            rushlight._amp_update_scale_(scale, tracker, sum(flags), *factors)
        self._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)

    def is_enabled(self) -> bool:
        """Does the scaler scale?"""
        return self._enabled

    def get_scale(self) -> float:
        """The scale; 1 if the scaler is disabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def _get_scale_async(self) -> Tensor | None:
        return self._scale

    def _get_growth_tracker(self) -> int:
        tracker = self._growth_tracker
        return self._init_growth_tracker if tracker is None else tracker.item()

    def get_growth_factor(self) -> float:
        """What the scale grows by."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set what the scale grows by."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """What the scale shrinks by."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set what the scale shrinks by."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """After how many good steps the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set after how many good steps the scale grows."""
        self._growth_interval = new_interval

    def state_dict(self) -> dict[str, Any]:
        """The state, to be saved; empty if the scaler is disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(), "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor, "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }  # fmt: skip

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state that state_dict returned."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty: a GradScaler that was disabled has none to save"
            )
        self._init_scale, self._init_growth_tracker = (
            state_dict["scale"],
            state_dict["_growth_tracker"],
        )
        self._growth_factor, self._backoff_factor = (
            state_dict["growth_factor"],
            state_dict["backoff_factor"],
        )
        self._growth_interval = state_dict["growth_interval"]
        if self._scale is not None:
            self._lazy_init_scale_growth_tracker(self._scale.device)
