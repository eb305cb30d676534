"""Random sizes, strides and numbers to measure operations with."""

from rushlight._set_module import set_module as _set_module
from rushlight.utils.benchmark._fuzzer import (
    FuzzedParameter,
    FuzzedTensor,
    Fuzzer,
    ParameterAlias,
    dtype_size,
)

__all__ = ["FuzzedParameter", "FuzzedTensor", "Fuzzer", "ParameterAlias", "dtype_size"]

_set_module(__name__, FuzzedParameter, FuzzedTensor, Fuzzer, ParameterAlias, dtype_size)
