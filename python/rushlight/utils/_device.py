"""The import path `utils._device`: the default device as a context."""

from __future__ import annotations

import rushlight
from rushlight.utils._contextlib import context_decorator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from typing_extensions import Self

    from rushlight.types import Device


class DeviceContext:
    """Makes a device that of new tensors, as `with torch.device(...)` does."""

    def __init__(self, device: Device) -> None:
        self.device = rushlight.device(device)

    def __enter__(self) -> Self:
        self.device.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self.device.__exit__(*exception)


def device_decorator(device: Device, func: Callable[..., Any]) -> Callable[..., Any]:
    """`func` with a default device while it runs."""
    return context_decorator(lambda: DeviceContext(device), func)


def set_device(device: Device) -> Callable[..., Any]:
    """A decorator that gives a function a default device while it runs."""
    return lambda func: device_decorator(device, func)


def __getattr__(name: str) -> Any:
    if name == "CURRENT_DEVICE":
        return rushlight.get_default_device()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
