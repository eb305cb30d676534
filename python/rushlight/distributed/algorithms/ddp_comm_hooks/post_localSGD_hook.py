"""Means over all processes at first, then over those of a group: for PostLocalSGDOptimizer."""

from __future__ import annotations

from rushlight.distributed._group import new_subgroups, resolve
from rushlight.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook
from rushlight.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.distributed import ProcessGroup


class PostLocalSGDState:
    """What `post_localSGD_hook` remembers.

    Args:
        process_group: the processes of the first steps; all if None.
        subgroup: those of later steps; the ones of this machine if None.
        start_localSGD_iter: the step from which on `subgroup` is taken.
        post_local_gradient_allreduce: False: later gradients stay those of one process.
    """

    def __init__(
        self,
        process_group: ProcessGroup | None,
        subgroup: ProcessGroup | None,
        start_localSGD_iter: int,
        post_local_gradient_allreduce: bool = True,
    ) -> None:
        self.process_group = process_group
        self.subgroup = subgroup
        self.start_localSGD_iter = start_localSGD_iter
        self.post_local_gradient_allreduce = post_local_gradient_allreduce
        self.iter: int = 0

    def maybe_increase_iter(self, bucket: Any) -> None:
        """Count a step when its last bucket comes."""
        if bucket.is_last():
            self.iter += 1


def post_localSGD_hook(state: PostLocalSGDState, bucket: Any) -> Any:
    """The mean of the gradients over all processes, from `start_localSGD_iter` on over a group.

    Args:
        state: a PostLocalSGDState.
        bucket: a GradBucket.

    Returns:
        A Future of the reduced buffer.
    """
    is_local = state.iter >= state.start_localSGD_iter
    state.maybe_increase_iter(bucket)
    if not is_local:
        return allreduce_hook(resolve(state.process_group), bucket)
    if not state.post_local_gradient_allreduce:
        return noop_hook(state, bucket)
    if state.subgroup is None:
        state.subgroup, _ = new_subgroups()
    return allreduce_hook(state.subgroup, bucket)


__all__ = ["PostLocalSGDState", "post_localSGD_hook"]
