"""Descriptions of accelerators and of what they compute, which nothing uses here."""

from rushlight import _absent

_REASON = (
    "there are no descriptions of accelerators to distribute a graph to: cut it by "
    "torch.fx.passes.split_module"
)
_NAMES = (
    "Device",
    "NodeLatency",
    "Partition",
    "PartitionLatency",
    "PartitionMode",
    "PartitionerConfig",
    "get_comm_latency_between",
    "get_extra_size_of",
    "get_latency_of_one_partition",
    "get_latency_of_partitioned_graph",
    "get_partition_to_latency_mapping",
)
_ABSENT = _absent.refused(dict.fromkeys(_NAMES, _REASON))
globals().update(_ABSENT)

__all__ = list(_ABSENT)
