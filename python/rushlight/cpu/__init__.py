"""The CPU as a device, with the interface that devices share."""

from __future__ import annotations

import contextlib

from rushlight.cpu import amp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from rushlight.types import Device


def is_available() -> bool:
    """Can tensors live here? Always."""
    return True


def device_count() -> int:
    """How many such devices there are: one."""
    return 1


def current_device() -> str:
    """The name of the device."""
    return "cpu"


def set_device(device: Device) -> None:
    """Does nothing: there is one."""


def synchronize(device: Device = None) -> None:
    """Does nothing: an operation has run when its call returns."""


def current_stream(device: Device = None) -> Stream:
    """The stream of the device: operations run in the order of their calls."""
    return Stream()


class Stream:
    """Stands where code written for several kinds of devices wants a stream."""

    def __init__(self, priority: int = -1) -> None:
        self.priority = priority

    def wait_stream(self, stream: Any) -> None:
        """Does nothing: operations run in order."""

    def record_event(self) -> None:
        """Does nothing: operations run in order."""

    def wait_event(self, event: Any) -> None:
        """Does nothing: it has happened."""


class Event:
    """Stands where code written for several kinds of devices wants an event: each has happened."""

    def query(self) -> bool:
        """Has it happened? Always: operations have run when their calls return."""
        return True

    def record(self, stream: Any = None) -> None:
        """Does nothing: operations run in order."""

    def synchronize(self) -> None:
        """Does nothing: it has happened."""

    def wait(self, stream: Any = None) -> None:
        """Does nothing: it has happened."""


class StreamContext:
    """A context that changes nothing: there is one stream."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass


def is_initialized() -> bool:
    """Is the device ready? Always."""
    return True


def get_capabilities() -> dict[str, Any]:
    """What the processor is and has: its architecture, number of cores, and, where the system
    tells, each of its extensions by the name that Linux has for it.

    Example:
        >>> rushlight.cpu.get_capabilities()["num_logical_cores"] >= 1
        True
    """
    import os
    import platform

    found: dict[str, Any] = {
        "architecture": platform.machine(),
        "num_logical_cores": os.cpu_count() or 1,
    }
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            lines = dict(line.split(":", 1) for line in file.read().split("\n\n")[0].splitlines())
    except (OSError, ValueError):
        return found  # not Linux
    fields = {name.strip(): value.strip() for name, value in lines.items()}
    found["cpu_name"] = fields.get("model name", "")
    found.update(dict.fromkeys(fields.get("flags", fields.get("Features", "")).split(), True))
    return found


def _has(*names):
    known = get_capabilities()
    return all(known.get(name, False) for name in names)


def _is_avx2_supported():
    """Has the processor AVX2?"""
    return _has("avx2")


def _is_avx512_supported():
    """Has the processor AVX-512, with its parts for bytes, words and vectors of 128 bits?"""
    return _has("avx512f", "avx512vl", "avx512bw", "avx512dq")


def _is_avx512_bf16_supported():
    """Has the processor products of bfloat16?"""
    return _has("avx512_bf16")


def _is_vnni_supported():
    """Has the processor sums of products of bytes?"""
    return _has("avx512_vnni")


def _is_amx_tile_supported():
    """Has the processor matrix units?"""
    return _has("amx_tile")


def _is_amx_fp16_supported():
    """Has the processor matrix units for float16?"""
    return _has("amx_fp16")


def _init_amx():
    """May the matrix units be used? They are asked for when they are needed."""
    return _is_amx_tile_supported()


@contextlib.contextmanager
def stream(stream: Stream) -> Iterator[Any]:
    """A context that changes nothing."""
    yield


__all__ = [
    "Event", "Stream", "StreamContext", "amp", "current_device", "current_stream", "device_count",
    "get_capabilities", "is_available", "is_initialized",
    "set_device", "stream", "synchronize",
]  # fmt: skip
