"""Datasets, samplers and the loader that turns them into batches."""

from __future__ import annotations

import importlib

from rushlight._set_module import set_module
from rushlight.utils.data.collate import default_collate, default_convert
from rushlight.utils.data.dataloader import DataLoader, _DatasetKind
from rushlight.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from rushlight.utils.data.distributed import DistributedSampler
from rushlight.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from rushlight.utils.data.stateful import StatefulDataLoader
from rushlight.utils.data.worker import get_worker_info

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.utils.data import _utils as _utils

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "StatefulDataLoader",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "_DatasetKind",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "random_split",
]

set_module(__name__, default_collate, default_convert, get_worker_info)

_STEPS = (
    "argument_validation", "guaranteed_datapipes_determinism", "non_deterministic",
    "runtime_validation", "runtime_validation_disabled", "DFIterDataPipe", "DataChunk",
    "IterDataPipe", "MapDataPipe", "functional_datapipe",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "_utils":  # which loads NumPy: only for those who ask
        return importlib.import_module("rushlight.utils.data._utils")
    if name in _STEPS:
        return getattr(importlib.import_module("rushlight.utils.data.datapipes"), name)
    if name == "datapipes":
        return importlib.import_module("rushlight.utils.data.datapipes")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
