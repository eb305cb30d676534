"""Scaling of losses, so that small gradients survive 16-bit floats."""

from __future__ import annotations

import enum

import rushlight
from rushlight._ignored import warn_program as _warn_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from rushlight import Tensor
    from rushlight.optim.optimizer import Optimizer
    from rushlight.types import Device


def _is_finite(t):
    """Are all elements finite? They are if their sum is, which is a third of the time."""
    return bool(t.sum().isfinite()) or bool(t.isfinite().all())


class OptState(enum.Enum):
    """How far an optimizer's gradients are: scaled, unscaled, or used."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


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
            _warn_program("GradScaler is enabled, but CUDA is not available. Disabling.")
            enabled = False
        self._enabled = enabled
        self._scale, self._growth_factor, self._backoff_factor = (
            float(init_scale),
            growth_factor,
            backoff_factor,
        )
        self._growth_interval, self._good_steps = growth_interval, 0
        self._in_use = False  # once something was scaled
        self._overflowed = {}  # optimizer id -> did its gradients overflow, once checked
        self._states = {}  # optimizer id -> OptState, READY where there is none

    def scale(self, outputs: Tensor | Iterable[Tensor]) -> Tensor | Iterable[Tensor]:
        """The tensor, or all in an iterable, times the scale."""
        if not self._enabled:
            return outputs
        self._in_use = True
        if isinstance(outputs, rushlight.Tensor):
            return outputs * self._scale
        if isinstance(outputs, (str, bytes)) or not hasattr(outputs, "__iter__"):
            raise ValueError(
                f"outputs must be a Tensor or an iterable of Tensors, got {type(outputs).__name__}"
            )
        scaled = map(self.scale, outputs)
        return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled

    def _check_in_use(self, method):
        if not self._in_use:
            raise AssertionError(
                f"Attempted {method} but nothing was scaled: the loss must come from "
                "scaler.scale(loss) earlier in the iteration."
            )

    def _state(self, optimizer):
        return self._states.get(id(optimizer), OptState.READY)

    def _gradients(self, optimizer):
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    yield parameter.grad

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the optimizer's gradients by the scale; once between steps."""
        if not self._enabled:
            return
        self._check_in_use("unscale_")
        if self._state(optimizer) is OptState.UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if self._state(optimizer) is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        self._check_gradients(optimizer, 1 / self._scale)
        self._states[id(optimizer)] = OptState.UNSCALED

    def _check_gradients(self, optimizer, factor=None):
        """Notes whether a gradient is not finite, after all are multiplied by the factor."""
        gradients = list(self._gradients(optimizer))
        if factor and any(g.dtype is rushlight.float16 for g in gradients):
            raise ValueError("Attempting to unscale FP16 gradients.")
        overflowed = False
        with rushlight.no_grad():
            for gradient in gradients:
                if factor:
                    gradient.mul_(factor)
                overflowed = overflowed or not _is_finite(gradient)
        if gradients:
            self._overflowed[id(optimizer)] = overflowed

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
        self._check_in_use("step")
        if self._state(optimizer) is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            result = self._step_that_unscales(optimizer, args, kwargs)
        else:
            if self._state(optimizer) is OptState.READY:
                self.unscale_(optimizer)
            self._check_recorded(optimizer)
            skipped = self._overflowed[id(optimizer)]
            result = None if skipped else optimizer.step(*args, **kwargs)
        self._states[id(optimizer)] = OptState.STEPPED
        return result

    def _check_recorded(self, optimizer):
        if id(optimizer) not in self._overflowed:
            raise AssertionError("No inf checks were recorded for this optimizer.")

    def _step_that_unscales(self, optimizer, args, kwargs):
        import inspect

        unscaled = self._state(optimizer) is OptState.UNSCALED
        if not unscaled:
            self._check_gradients(optimizer)
        self._check_recorded(optimizer)
        if "grad_scaler" in inspect.signature(optimizer.step).parameters:
            _warn_program(
                "GradScaler gives itself to step(grad_scaler=...), which is deprecated: read "
                "self.grad_scale and self.found_inf in step().",
                FutureWarning,
            )
            return optimizer.step(*args, **kwargs, grad_scaler=self)
        device = next(self._gradients(optimizer)).device
        optimizer.grad_scale = None if unscaled else rushlight.tensor(self._scale, device=device)
        optimizer.found_inf = rushlight.tensor(
            float(self._overflowed[id(optimizer)]), device=device
        )
        try:
            return optimizer.step(*args, **kwargs)
        finally:
            del optimizer.grad_scale, optimizer.found_inf

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Adjust the scale after the steps of an iteration, or set it."""
        if not self._enabled:
            return
        self._check_in_use("update")
        if new_scale is None and not self._overflowed:
            raise AssertionError("No inf checks were recorded prior to update.")
        if new_scale is not None:
            if isinstance(new_scale, rushlight.Tensor) and (
                new_scale.numel() != 1 or new_scale.requires_grad
            ):
                raise AssertionError(
                    "new_scale should be a float or a 1-element tensor with requires_grad=False."
                )
            self._scale = float(new_scale)
        elif any(self._overflowed.values()):
            self._scale *= self._backoff_factor
            self._good_steps = 0
        else:
            self._good_steps += 1
            if self._good_steps == self._growth_interval:
                self._scale *= self._growth_factor
                self._good_steps = 0
        self._overflowed.clear()
        self._states.clear()

    def is_enabled(self) -> bool:
        """Does the scaler scale?"""
        return self._enabled

    def get_scale(self) -> float:
        """The scale; 1 if the scaler is disabled."""
        return self._scale if self._enabled else 1.0

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
            "scale": self._scale, "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor, "growth_interval": self._growth_interval,
            "_growth_tracker": self._good_steps,
        }  # fmt: skip

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state that state_dict returned."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty: a GradScaler that was disabled has none to save"
            )
        self._scale, self._growth_factor = state_dict["scale"], state_dict["growth_factor"]
        self._backoff_factor, self._growth_interval = (
            state_dict["backoff_factor"],
            state_dict["growth_interval"],
        )
        self._good_steps = state_dict["_growth_tracker"]
