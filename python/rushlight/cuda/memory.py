"""The memory of GPUs: what the caching allocator holds and hands out."""

from __future__ import annotations

import pickle
import sys
from collections import OrderedDict

from rushlight import _C
from rushlight._set_module import set_module
from rushlight.cuda._device import device_count, index_of, is_available, is_initialized

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.types import Device

_cuda = _C._cuda

__all__ = [
    "empty_cache", "get_per_process_memory_fraction", "ipc_collect", "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved", "mem_get_info", "memory_allocated", "memory_cached", "memory_reserved",
    "memory_snapshot", "memory_stats", "memory_summary", "reset_accumulated_memory_stats",
    "reset_max_memory_allocated", "reset_max_memory_cached", "reset_peak_memory_stats",
    "set_per_process_memory_fraction", "memory_stats_as_nested_dict",
]  # fmt: skip


def ipc_collect() -> None:
    """Let go of memory that other processes had from this one and no longer use."""
    sent = sys.modules.get("rushlight.multiprocessing.gpu_memory")
    if sent is not None:
        sent.sent.collect()


set_module("rushlight.cuda", ipc_collect)


def empty_cache() -> None:
    """Give memory that no tensor holds back to the driver, for other programs to use."""
    ipc_collect()
    if is_initialized():
        for index in range(device_count()):
            _cuda.empty_cache(index)
        _cuda.empty_pinned_cache()


def memory_stats(device: Device = None) -> Any:
    """Return counts and bytes by name, such as "allocated_bytes.all.current"; empty before CUDA
    was used.
    """
    if not is_initialized():
        return OrderedDict()
    found = _cuda.memory_stats(index_of(device, "memory_stats"))
    return OrderedDict(sorted(found.items()))


def memory_stats_as_nested_dict(device: Device = None) -> Any:
    """Return memory_stats() as dicts in dicts, one for each part of a name."""
    nested = {}
    for name, value in memory_stats(device).items():
        *parts, last = name.split(".")
        at = nested
        for part in parts:
            at = at.setdefault(part, {})
        at[last] = value
    return nested


def memory_allocated(device: Device = None) -> Any:
    """Return the bytes that tensors hold."""
    return memory_stats(device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device: Device = None) -> Any:
    """Return the most bytes that tensors held since the last reset_peak_memory_stats()."""
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device: Device = None) -> Any:
    """Return the bytes that the allocator has from the driver."""
    return memory_stats(device).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device: Device = None) -> Any:
    """Return the most bytes that the allocator had since the last reset_peak_memory_stats()."""
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


def memory_cached(device: Device = None) -> Any:
    """The older name of memory_reserved()."""
    return memory_reserved(device)


def max_memory_cached(device: Device = None) -> Any:
    """The older name of max_memory_reserved()."""
    return max_memory_reserved(device)


def reset_peak_memory_stats(device: Device = None) -> None:
    """Let the peaks of memory_stats() begin at what there is now."""
    if is_available():
        _cuda.reset_peak(index_of(device, "reset_peak_memory_stats"))


def reset_max_memory_allocated(device: Device = None) -> None:
    """The older name of reset_peak_memory_stats()."""
    reset_peak_memory_stats(device)


def reset_max_memory_cached(device: Device = None) -> None:
    """The older name of reset_peak_memory_stats()."""
    reset_peak_memory_stats(device)


def reset_accumulated_memory_stats(device: Device = None) -> None:
    """Let the totals of memory_stats() begin at 0."""
    if is_available():
        _cuda.reset_accumulated(index_of(device, "reset_accumulated_memory_stats"))


def mem_get_info(device: Device = None) -> Any:
    """Return the bytes of a GPU that are free, and all it has."""
    return _cuda.mem_get_info(index_of(device, "mem_get_info"))


def set_per_process_memory_fraction(fraction: Any, device: Device = None) -> None:
    """Let the allocator have at most this share of a GPU's memory."""
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    _cuda.set_fraction(index_of(device, "set_per_process_memory_fraction"), fraction)


def get_per_process_memory_fraction(device: Device = None) -> Any:
    """Return the share that set_per_process_memory_fraction() allows."""
    return _cuda.get_fraction(index_of(device, "get_per_process_memory_fraction"))


def memory_snapshot(device: Device = None) -> Any:
    """Return the allocator's segments and their blocks, as a list of dicts."""
    indices = range(device_count()) if device is None else [index_of(device, "memory_snapshot")]
    return [segment for index in indices for segment in _cuda.snapshot(index)]


_NO_LIMIT = 2**63 - 1


def _record_memory_history(
    enabled: str | None = "all",
    context: str | None = "all",
    stacks: str = "all",
    max_entries: int = _NO_LIMIT,
    device: Device = None,
    clear_history: bool = False,
) -> None:
    """Keep what becomes of GPU memory, and where the program asked for it, for `_snapshot`.

    Args:
        enabled: None ends it; "state" keeps the frames of memory that is in use, "all" events too.
        context: None takes no frames; "state" and "alloc" those of allocations, "all" those of
            frees too.
        stacks: "python" or "all": frames are those of Python.
        max_entries: events kept of each GPU, the last ones.
        device: has no effect: all GPUs are recorded, as in torch.
        clear_history: forget what was kept.
    """
    for name, value, known in (
        ("enabled", enabled, (None, "state", "all")),
        ("context", context, (None, "state", "alloc", "all")),
        ("stacks", stacks, ("python", "all")),
    ):
        if value not in known:
            raise ValueError(
                f"_record_memory_history: {name} must be one of {known}, not {value!r}"
            )
    frames = enabled is not None and context is not None
    _cuda.set_history(enabled == "all", frames, frames and context == "all", max_entries)
    if clear_history and is_initialized():
        for index in range(device_count()):
            _cuda.memory_trace(index, True)


def _snapshot(device: Device = None) -> dict[str, Any]:
    """Return what torch's viewer of memory opens: segments, and events by GPU if they are kept."""
    count = device_count()
    traces = [
        _cuda.memory_trace(index, False) if is_initialized() else [] for index in range(count)
    ]
    return {
        "segments": memory_snapshot(device),
        "device_traces": traces,
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": _settings},
        "external_annotations": [],
    }


def _dump_snapshot(filename: str = "dump_snapshot.pickle") -> None:
    """Write `_snapshot()` to a file, which torch's viewer of memory opens."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)


_settings = ""


def _set_allocator_settings(env: str) -> None:
    """Set what the variable PYTORCH_CUDA_ALLOC_CONF says: "expandable_segments:True"."""
    global _settings
    _cuda.set_allocator_settings(env)
    _settings = env


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """Return a table of memory_stats() to read."""
    stats = memory_stats(device)
    if not stats:
        return "no CUDA memory was used"
    rows = [("allocated_bytes", "Allocated memory"), ("active_bytes", "Active memory"),
            ("requested_bytes", "Requested memory"), ("reserved_bytes", "GPU reserved memory"),
            ("allocation", "Allocations"), ("segment", "GPU reserved segments")]  # fmt: skip
    pools = [("all", "")]
    if not abbreviated:
        pools += [("large_pool", "from large pool"), ("small_pool", "from small pool")]
    title = f"rushlight CUDA memory summary, device {index_of(device, 'memory_summary')}"
    line = "|" + "=" * 75 + "|"
    title = f"rushlight CUDA memory summary, device {index_of(device, 'memory_summary')}"
    text = [
        line,
        f"|{title:^75}|",
        f"|  CUDA OOMs: {stats['num_ooms']:<12} | retries: {stats['num_alloc_retries']:<38}|",
        line,
        "|        Metric         |  Cur Usage |  Peak Usage|  Tot Alloc |  Tot Freed |",
    ]
    for name, named in rows:
        for pool, shown in pools:
            values = [
                stats[f"{name}.{pool}.{what}"] for what in ("current", "peak", "allocated", "freed")
            ]
            cells = [
                f"{value:>12}" if "bytes" not in name else f"{value / 1024:>8.0f} KiB"
                for value in values
            ]
            text.append(f"| {shown or named:<21} |{'|'.join(cells)}|")
    return "\n".join([*text, line])
