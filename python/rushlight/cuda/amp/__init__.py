"""Mixed precision on GPUs, by its older names."""

from rushlight.cuda.amp import common
from rushlight.cuda.amp.autocast_mode import autocast, custom_bwd, custom_fwd
from rushlight.cuda.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "common", "custom_bwd", "custom_fwd"]
