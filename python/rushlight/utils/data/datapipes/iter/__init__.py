"""Steps whose elements come one after the other."""

from rushlight.utils.data.datapipes.datapipe import IterDataPipe
from rushlight.utils.data.datapipes.iter.callable import (
    CollatorIterDataPipe as Collator,
    MapperIterDataPipe as Mapper,
)
from rushlight.utils.data.datapipes.iter.combinatorics import (
    SamplerIterDataPipe as Sampler,
    ShufflerIterDataPipe as Shuffler,
)
from rushlight.utils.data.datapipes.iter.combining import (
    ConcaterIterDataPipe as Concater,
    DemultiplexerIterDataPipe as Demultiplexer,
    ForkerIterDataPipe as Forker,
    MultiplexerIterDataPipe as Multiplexer,
    ZipperIterDataPipe as Zipper,
)
from rushlight.utils.data.datapipes.iter.filelister import FileListerIterDataPipe as FileLister
from rushlight.utils.data.datapipes.iter.fileopener import FileOpenerIterDataPipe as FileOpener
from rushlight.utils.data.datapipes.iter.grouping import (
    BatcherIterDataPipe as Batcher,
    GrouperIterDataPipe as Grouper,
    UnBatcherIterDataPipe as UnBatcher,
)
from rushlight.utils.data.datapipes.iter.selecting import FilterIterDataPipe as Filter
from rushlight.utils.data.datapipes.iter.sharding import (
    ShardingFilterIterDataPipe as ShardingFilter,
)
from rushlight.utils.data.datapipes.iter.streamreader import (
    StreamReaderIterDataPipe as StreamReader,
)
from rushlight.utils.data.datapipes.iter.utils import IterableWrapperIterDataPipe as IterableWrapper

__all__ = [
    "Batcher", "Collator", "Concater", "Demultiplexer", "FileLister", "FileOpener", "Filter",
    "Forker", "Grouper", "IterDataPipe", "IterableWrapper", "Mapper", "Multiplexer", "Sampler",
    "ShardingFilter", "Shuffler", "StreamReader", "UnBatcher", "Zipper",
]  # fmt: skip
