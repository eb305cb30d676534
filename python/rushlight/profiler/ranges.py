"""Ranges for other tools: NVTX, and the files of nvprof."""

from __future__ import annotations

import ctypes
import importlib.util
import pathlib

from rushlight import _C
from rushlight._set_module import set_module
from rushlight.profiler.events import EventList, FunctionEvent

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from typing import Any

    from typing_extensions import Self

_NVTX = ("libnvToolsExt.so.1", "libnvToolsExt.so")


def _open_nvtx():
    candidates = list(_NVTX)
    found = importlib.util.find_spec("nvidia")
    for folder in (found.submodule_search_locations or ()) if found else ():
        candidates += map(str, pathlib.Path(folder).glob("nvtx/lib/libnvToolsExt.so*"))
    for name in candidates:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise RuntimeError(
        "emit_nvtx: NVIDIA's library NVTX is not here: expected one of " + ", ".join(_NVTX)
    )


class emit_nvtx:
    """Marks each op, node and part of the program as an NVTX range, for NVIDIA's tools to show.

    Args:
        enabled: False does nothing.
        record_shapes: NVTX ranges have no shapes: must be False.

    Raises:
        RuntimeError: the library is not there, or a profile is under way.
    """

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        if enabled and record_shapes:
            raise NotImplementedError("emit_nvtx: record_shapes must be False: ranges hold none")
        self.enabled = enabled
        self.entered: bool = False

    def __enter__(self) -> Self:
        if self.enabled and self.entered:
            raise RuntimeError("NVTX annotation context manager is not reentrant")
        self.entered = True
        if self.enabled:
            self._library = _open_nvtx()
            push, pop = (
                ctypes.cast(getattr(self._library, name), ctypes.c_void_p).value
                for name in ("nvtxRangePushA", "nvtxRangePop")
            )
            if not _C._profiler_ranges(push, pop):
                raise RuntimeError("emit_nvtx: a profile is under way")
        return self

    def __exit__(self, *exception: Any) -> None:
        if self.enabled:
            _C._profiler_ranges(0, 0)
        self.entered = False


class emit_itt:
    """Marks for Intel's tools: with enabled=False it does nothing, otherwise it is refused.

    Args:
        enabled: must be False.
        record_shapes: goes with `enabled`.

    Raises:
        RuntimeError: enabled is True: there is no library of Intel's collector in this build.
    """

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        if enabled:
            shapes = " with shapes" if record_shapes else ""
            raise RuntimeError(
                f"emit_itt: this build cannot emit ITT ranges{shapes}; emit_nvtx, or"
                " rushlight.profiler, records the same events"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: Any) -> None:
        return None


def load_nvprof(path: str | os.PathLike[str]) -> Any:
    """The events of a file that nvprof has written, an SQLite database.

    Args:
        path: of the file.

    Returns:
        An EventList of the marked ranges, each with the kernels that it launched.
    """
    return EventList(parse_nvprof_trace(path))


# Identifiers of the CUDA run time's function cudaLaunchKernel in such files.
_LAUNCHES = (13, 211)


def parse_nvprof_trace(path: str | os.PathLike[str]) -> Any:
    """The events of a file that nvprof has written, as a list."""
    import sqlite3

    if not pathlib.Path(path).exists():
        raise FileNotFoundError(f"load_nvprof: there is no file {str(path)!r}")
    connection = sqlite3.connect(path)
    try:
        return _read(connection)
    finally:
        connection.close()


def _demangled(name):
    """A name of C++ as its source has it, which compilers write as one word."""
    if not name.startswith("_Z"):
        return name
    demangle = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    demangle.restype = ctypes.c_void_p
    status = ctypes.c_int()
    text = demangle(name.encode(), None, None, ctypes.byref(status))
    if status.value != 0:
        return name
    source = ctypes.string_at(text).decode()
    free = ctypes.CDLL(None).free
    free.argtypes, free.restype = [ctypes.c_void_p], None
    free(text)
    return source


def _read(connection):
    strings = {
        number: _demangled(text)
        for number, text in connection.execute("SELECT _id_, value FROM StringTable")
    }
    ranges = connection.execute(
        "SELECT a.id, a.name, a.timestamp, b.timestamp FROM CUPTI_ACTIVITY_KIND_MARKER a"
        " JOIN CUPTI_ACTIVITY_KIND_MARKER b ON a.id = b.id"
        " WHERE a.name <> 0 AND b.name = 0 ORDER BY a.timestamp, b.timestamp DESC"
    )
    events, seen = [], set()
    for number, name, start, end in ranges:
        if number in seen:
            raise RuntimeError(f"load_nvprof: the file has more than one range of number {number}")
        seen.add(number)
        events.append(FunctionEvent(number, strings[name], 0, start / 1000, end / 1000, node_id=0))
    open_events = []
    for event in events:
        while open_events and open_events[-1].time_range.end <= event.time_range.start:
            open_events.pop()
        if open_events:
            event.set_cpu_parent(open_events[-1])
            open_events[-1].append_cpu_child(event)
        open_events.append(event)
    launches = connection.execute(
        "SELECT r.start, k.name, k.start, k.end, k.deviceId FROM CUPTI_ACTIVITY_KIND_RUNTIME r"
        " JOIN CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL k ON r.correlationId = k.correlationId"
        f" WHERE r.cbid IN {_LAUNCHES} ORDER BY k.start"
    )
    for at, name, start, end, device in launches:
        inside = [e for e in events if e.time_range.start <= at / 1000 <= e.time_range.end]
        if inside:
            inside[-1].append_kernel(strings[name], device, (end - start) / 1000)
    return events


set_module(
    "rushlight.autograd.profiler", emit_itt, emit_nvtx, load_nvprof, parse_nvprof_trace
)  # fmt: skip
