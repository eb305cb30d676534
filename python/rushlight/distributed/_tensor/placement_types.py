"""`distributed.tensor.placement_types` by its older path."""

from rushlight import _absent
from rushlight.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

_WHY = "a DTensor is made by distribute_tensor or DTensor.from_local"
DTensorSpec, TensorMeta = _absent.refused({"DTensorSpec": _WHY, "TensorMeta": _WHY}).values()

__all__ = ["DTensorSpec", "Partial", "Placement", "Replicate", "Shard", "TensorMeta"]
