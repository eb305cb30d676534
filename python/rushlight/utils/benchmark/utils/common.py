"""What a measurement is."""

from rushlight._set_module import set_module as _set_module
from rushlight.utils.benchmark._measurement import (
    Measurement,
    TaskSpec,
    ordered_unique,
    select_unit,
    set_torch_threads,
    trim_sigfig,
    unit_to_english,
)

__all__ = [
    "Measurement", "TaskSpec", "ordered_unique", "select_unit", "set_torch_threads", "trim_sigfig",
    "unit_to_english",
]  # fmt: skip

_set_module(
    __name__,
    Measurement,
    TaskSpec,
    ordered_unique,
    select_unit,
    set_torch_threads,
    trim_sigfig,
    unit_to_english,
)
