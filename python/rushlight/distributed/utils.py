"""What libraries take from `torch.distributed.utils`."""

from __future__ import annotations

from rushlight.distributed import _collectives as collectives

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container

    from rushlight.distributed import ProcessGroup
    from rushlight.nn import Module


def _sync_module_states(
    module: Module,
    process_group: ProcessGroup | None,
    broadcast_bucket_size: int,
    src: int,
    params_and_buffers_to_ignore: Container[str],
    broadcast_buffers: bool = True,
) -> None:
    """Give parameters and buffers of a module the values that the process `src` has.

    Args:
        broadcast_bucket_size: unused: each tensor goes by itself, without a copy.
        params_and_buffers_to_ignore: names of those that keep theirs.
        broadcast_buffers: buffers too.
    """
    named = [*module.named_parameters(), *(module.named_buffers() if broadcast_buffers else ())]
    for name, tensor in named:
        if name not in params_and_buffers_to_ignore:
            collectives.broadcast(tensor.detach(), src, process_group)
