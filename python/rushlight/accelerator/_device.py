"""Which device a function of `accelerator` means."""

from __future__ import annotations

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.types import Device


def cuda_for(name: str) -> Any:
    """`rushlight.cuda`, for accelerator.NAME, which needs a device."""
    if not rushlight.cuda.is_available():
        raise RuntimeError(f"accelerator.{name}: there is no accelerator on this machine")
    return rushlight.cuda


def number_of(device: Device, name: str) -> int:
    """The number of a device of the accelerator; by default that of the current one."""
    given = device if isinstance(device, int) or device is None else rushlight.device(device)
    if isinstance(given, rushlight.device):
        if given.type != "cuda":
            raise ValueError(f"accelerator.{name}: {given} is no device of the accelerator, cuda")
        given = given.index
    return rushlight.cuda.current_device() if given is None else given
