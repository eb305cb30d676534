"""Which kernel computes attention: there is one here, so the choice is accepted and not needed."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

from rushlight import _absent
from rushlight._enums import NativeEnum as _NativeEnum
from rushlight._ignored import warn_program as _warn_program

__all__ = [
    "SDPBackend", "WARN_FOR_UNFUSED_KERNELS", "activate_flash_attention_impl",
    "current_flash_attention_impl", "list_flash_attention_impls", "register_flash_attention_impl",
    "restore_flash_attention_impl", "sdpa_kernel",
]  # fmt: skip

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(_NativeEnum):
    """The kernels that programs may ask for."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextlib.contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[Any]:
    """Accepts one SDPBackend or a list of them."""
    chosen = [backends] if isinstance(backends, SDPBackend) else list(backends)
    for backend in chosen:
        if not isinstance(backend, SDPBackend):
            raise TypeError(f"sdpa_kernel: expected an SDPBackend but got {backend!r}")
    yield


def list_flash_attention_impls() -> list[str]:
    """The kernels of attention that programs have registered: none can be."""
    return []


def current_flash_attention_impl() -> str | None:
    """The registered kernel of attention in use: None."""
    return None


def activate_flash_attention_impl(impl: str) -> None:
    """Use a registered kernel of attention.

    Raises:
        ValueError: none is registered under this name.
    """
    raise ValueError(f"activate_flash_attention_impl: no kernel is registered as {impl!r}")


def restore_flash_attention_impl(_raise_warn: bool = True) -> None:
    """Use the library's own kernel of attention again, which is in use."""
    if _raise_warn:
        _warn_program("the library's own kernel of attention is in use")


globals().update(
    _absent.refused(
        {
            "register_flash_attention_impl": "attention has one kernel for each device, which "
            "programs cannot replace"
        }
    )
)
