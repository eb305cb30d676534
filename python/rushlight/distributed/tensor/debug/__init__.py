"""What DTensors send, and how they lie."""

from rushlight._set_module import set_module
from rushlight.distributed.tensor.debug._comm_mode import CommDebugMode
from rushlight.distributed.tensor.debug._visualize_sharding import visualize_sharding

__all__ = ["CommDebugMode", "visualize_sharding"]

set_module(__name__, CommDebugMode, visualize_sharding)
