"""The older name of amp.GradScaler("cuda")."""

from __future__ import annotations

from rushlight._ignored import older_name as _older_name
from rushlight.amp.grad_scaler import GradScaler as _GradScaler, OptState


class GradScaler(_GradScaler):
    """amp.GradScaler("cuda"), which is disabled where there is no GPU."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        _older_name("cuda.amp.GradScaler", 'amp.GradScaler("cuda")')
        super().__init__(
            "cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )


__all__ = ["GradScaler", "OptState"]
