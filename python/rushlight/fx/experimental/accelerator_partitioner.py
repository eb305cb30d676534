"""Distributing a graph to accelerators by their memory, which is not done here."""

from rushlight import _absent

_REASON = (
    "there are no descriptions of accelerators to distribute a graph to: cut it by "
    "torch.fx.passes.split_module"
)
_NAMES = (
    "DAG",
    "DAGNode",
    "PartitionResult",
    "Partitioner",
)
_ABSENT = _absent.refused(dict.fromkeys(_NAMES, _REASON))
globals().update(_ABSENT)

__all__ = list(_ABSENT)
