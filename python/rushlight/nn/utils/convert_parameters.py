"""Parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

import rushlight
from rushlight import Tensor

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def _check_devices(parameters):
    devices = {param.device for param in parameters}
    if len(devices) > 1:
        raise TypeError(f"parameters are on several devices: {sorted(map(str, devices))}")


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters, flattened, one after the other."""
    parameters = list(parameters)
    _check_devices(parameters)
    return rushlight.cat([param.reshape(-1) for param in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Make the parameters views of consecutive parts of `vec`."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"vec: expected a Tensor but got {type(vec).__name__}")
    parameters = list(parameters)
    _check_devices(parameters)
    offset = 0
    for param in parameters:
        size = param.numel()
        param.data = vec[offset : offset + size].view_as(param).data
        offset += size
