"""Ways to reduce the gradients of DistributedDataParallel other than as they are."""

from rushlight.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

__all__ = ["default_hooks", "powerSGD_hook"]
