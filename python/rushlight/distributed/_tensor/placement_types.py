"""`distributed.tensor.placement_types` by its older path."""

from rushlight.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

__all__ = ["Partial", "Placement", "Replicate", "Shard"]
