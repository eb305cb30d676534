"""A sequence that lies in parts in several processes, and attention to all of it."""

from rushlight.distributed.tensor.experimental._context_parallel._load_balancer import (
    _HeadTailLoadBalancer,
    _LoadBalancer,
)
from rushlight.distributed.tensor.experimental._context_parallel._options import (
    _cp_options,
    _RotateMethod,
    set_rotate_method,
)
from rushlight.distributed.tensor.experimental._context_parallel._sequence import (
    _context_parallel_shard,
    context_parallel,
    context_parallel_unshard,
)

__all__ = [
    "_HeadTailLoadBalancer", "_LoadBalancer", "_RotateMethod", "_context_parallel_shard",
    "_cp_options", "context_parallel", "context_parallel_unshard", "set_rotate_method",
]  # fmt: skip
