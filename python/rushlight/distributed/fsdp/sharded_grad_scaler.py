"""Scaling of losses where parameters are sharded."""

from rushlight.amp import GradScaler


class ShardedGradScaler(GradScaler):
    """Refused: parameters cannot be sharded; `amp.GradScaler` is for those that are not."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError("ShardedGradScaler: parameters cannot be sharded: use GradScaler")


__all__ = ["ShardedGradScaler"]
