"""`distributed.tensor.placement_types` by its older path."""

from rushlight.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from rushlight.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

__all__ = ["DTensorSpec", "TensorMeta", "Partial", "Placement", "Replicate", "Shard"]
