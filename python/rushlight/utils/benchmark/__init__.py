"""Measuring how long statements take: `Timer` runs them, `Compare` prints tables of the results,
`Fuzzer` makes tensors of random sizes and strides.
"""

from rushlight._set_module import set_module
from rushlight.utils.benchmark._compare import Compare
from rushlight.utils.benchmark._fuzzer import (
    FuzzedParameter,
    FuzzedTensor,
    Fuzzer,
    ParameterAlias,
    dtype_size,
)
from rushlight.utils.benchmark._measurement import (
    Measurement,
    TaskSpec,
    ordered_unique,
    select_unit,
    set_torch_threads,
    trim_sigfig,
    unit_to_english,
)
from rushlight.utils.benchmark._timer import Language, Timer, timer

__all__ = [
    "Compare", "FuzzedParameter", "FuzzedTensor", "Fuzzer", "Language", "Measurement",
    "ParameterAlias", "TaskSpec", "Timer", "ordered_unique", "select_unit", "set_torch_threads",
    "timer", "trim_sigfig", "unit_to_english",
]  # fmt: skip

_UTILS = "rushlight.utils.benchmark.utils"
set_module(
    f"{_UTILS}.common", Measurement, TaskSpec, ordered_unique, select_unit, set_torch_threads,
    trim_sigfig, unit_to_english,
)  # fmt: skip
set_module(f"{_UTILS}.compare", Compare)
set_module(f"{_UTILS}.fuzzer", FuzzedParameter, FuzzedTensor, Fuzzer, ParameterAlias, dtype_size)
set_module(f"{_UTILS}.timer", Language, Timer)
