"""Random sizes, strides and numbers to measure operations with."""

from rushlight.utils.benchmark._fuzzer import (
    FuzzedParameter,
    FuzzedTensor,
    Fuzzer,
    ParameterAlias,
    dtype_size,
)

__all__ = ["FuzzedParameter", "FuzzedTensor", "Fuzzer", "ParameterAlias", "dtype_size"]
