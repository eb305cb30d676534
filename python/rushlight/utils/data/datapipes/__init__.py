"""Datasets that are built of steps: each takes others and gives their elements on, changed.

A step is a class, and once `functional_datapipe` has named it, a method of all of them.
"""

from rushlight.utils.data.datapipes import iter, map
from rushlight.utils.data.datapipes._validation import (
    argument_validation,
    guaranteed_datapipes_determinism,
    non_deterministic,
    runtime_validation,
    runtime_validation_disabled,
)
from rushlight.utils.data.datapipes.datapipe import (
    DataChunk,
    DFIterDataPipe,
    IterDataPipe,
    MapDataPipe,
    functional_datapipe,
)

__all__ = [
    "argument_validation", "guaranteed_datapipes_determinism", "non_deterministic",
    "runtime_validation", "runtime_validation_disabled",
    "DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe", "functional_datapipe", "iter",
    "map",
]  # fmt: skip
