"""What is on trial: sequences in parts, functions of parts, sharding of further operations, and
plain tensors beside DTensors.
"""

from __future__ import annotations

import contextlib

from rushlight._set_module import set_module
from rushlight.distributed.tensor import _operations
from rushlight.distributed.tensor.experimental._context_parallel import context_parallel
from rushlight.distributed.tensor.experimental._func_map import local_map
from rushlight.distributed.tensor.experimental._register_sharding import register_sharding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def implicit_replication() -> Iterator[None]:
    """A context in which a plain tensor beside DTensors counts as the same in all processes.

    Example:
        >>> import rushlight
        >>> import rushlight.distributed as dist
        >>> from rushlight.distributed.tensor import Shard, distribute_tensor
        >>> dist.init_process_group("gloo", rank=0, world_size=1)
        >>> mesh = dist.init_device_mesh("cpu", (1,))
        >>> x = distribute_tensor(rushlight.ones(2), mesh, [Shard(0)])
        >>> with implicit_replication():
        ...     (x + rushlight.ones(2)).full_tensor()
        tensor([2., 2.])
        >>> dist.destroy_process_group()
    """
    with _operations.plain_is_replicated():
        yield


__all__ = ["context_parallel", "implicit_replication", "local_map", "register_sharding"]

set_module(__name__, context_parallel, implicit_replication, local_map, register_sharding)
