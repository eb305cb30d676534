"""DataParallel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight import Tensor
from rushlight.nn.modules.module import Module
from rushlight.types import _device

__all__ = ["DataParallel", "data_parallel"]


class DataParallel(Module):
    """Holds a model as `module` and calls it: one process here works on one device.

    The parameters' names begin with "module.", as programs that save such models expect.
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[int | _device] | None = None,
        output_device: int | _device | None = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list[Any] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Tensor:
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[int | _device] | None = None,
    output_device: int | _device | None = None,
    dim: int = 0,
    module_kwargs: Any = None,
) -> Tensor:
    """Call the module: one process here works on one device."""
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    return module(*inputs, **(module_kwargs or {}))
