"""Scaling of losses, so that small gradients survive 16-bit floats."""

from __future__ import annotations

import enum
import warnings

import rushlight

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
            warnings.warn(
                "GradScaler is enabled, but CUDA is not available. Disabling.", stacklevel=2
            )
            enabled = False
        self._enabled = enabled
        self._scale, self._growth_factor, self._backoff_factor = (
            float(init_scale),
            growth_factor,
            backoff_factor,
        )
        self._growth_interval, self._good_steps = growth_interval, 0
        self._overflowed = {}  # optimizer id -> did its gradients overflow, once unscaled

    def scale(self, outputs: Tensor | Iterable[Tensor]) -> Tensor | Iterable[Tensor]:
        """The tensor, or all in a list or tuple, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, rushlight.Tensor):
            return outputs * self._scale
        return type(outputs)(self.scale(o) for o in outputs)

    def _gradients(self, optimizer):
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    yield parameter.grad

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the optimizer's gradients by the scale; once between steps."""
        if not self._enabled:
            return
        if id(optimizer) in self._overflowed:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        overflowed = False
        with rushlight.no_grad():
            for gradient in self._gradients(optimizer):
                gradient.mul_(1 / self._scale)
                overflowed = overflowed or not _is_finite(gradient)
        self._overflowed[id(optimizer)] = overflowed

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> float | None:
        """optimizer.step(), unless a gradient is not finite."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if id(optimizer) not in self._overflowed:
            self.unscale_(optimizer)
        return None if self._overflowed[id(optimizer)] else optimizer.step(*args, **kwargs)

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Adjust the scale after the steps of an iteration, or set it."""
        if not self._enabled:
            return
        if new_scale is not None:
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
