"""Mixed precision on GPUs, by its older names."""

from rushlight.amp.autocast_mode import custom_bwd, custom_fwd
from rushlight.cuda.amp.autocast_mode import autocast
from rushlight.cuda.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]
