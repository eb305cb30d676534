"""The classes of operations, by the names that libraries know: see `rushlight.library`."""

from rushlight import ops
from rushlight.export._higher_order import HigherOrder as HigherOrderOperator
from rushlight.library._operator import Namespace as _OpNamespace, OpOverload, OpOverloadPacket

__all__ = ["HigherOrderOperator", "OpOverload", "OpOverloadPacket", "_OpNamespace", "ops"]
