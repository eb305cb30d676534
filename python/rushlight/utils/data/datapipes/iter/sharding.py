"""Parts of a stream for each of several workers."""

from rushlight._set_module import set_module
from rushlight.utils.data.datapipes.iter.grouping import ShardingFilterIterDataPipe

__all__ = ["ShardingFilterIterDataPipe"]

set_module(__name__, ShardingFilterIterDataPipe)
