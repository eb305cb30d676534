"""Traces for chrome://tracing and Perfetto."""

from __future__ import annotations

import gzip
import json
import os

from rushlight.profiler.recording import KERNEL, PART

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _arguments(event):
    arguments = {"External id": event.external_id, "Ev Idx": event.id}
    if event.is_python_function:
        parent = event.python_parent_id
        arguments["Python id"] = event.python_id
        arguments["Python parent id"] = None if parent < 0 else parent
        if event.python_module_id >= 0:
            arguments["Python module id"] = event.python_module_id
    if event.input_shapes:
        arguments["Input Dims"] = event.input_shapes
        if any(c is not None for c in event.concrete_inputs):
            arguments["Concrete Inputs"] = event.concrete_inputs
        arguments["Input type"] = event.input_dtypes
        arguments["Input Strides"] = event.structured_input_strides
    if event.sequence_nr >= 0:
        arguments["Sequence number"] = event.sequence_nr
        arguments["Fwd thread id"] = event.fwd_thread or 0
    if event.stack:
        arguments["Call stack"] = ";".join(event.stack)
    if event.where:
        arguments["Source"] = "{}:{}".format(*event.where)
    if event.module:
        arguments["Module"] = event.module
    if event.flops:
        arguments["FLOPs"] = event.flops
    if event.cpu_memory_usage:
        arguments["Bytes kept"] = event.cpu_memory_usage
    return arguments


def _metadata(name, process, thread, value):
    return {"name": name, "ph": "M", "ts": 0, "pid": process, "tid": thread, "args": value}


def _threads(recording, process):
    """Names and order of threads: the main one first, the pool's last."""
    helping = {r.thread for r in recording.raw if r.kind == PART}
    rows = [
        _metadata("process_name", process, 0, {"name": "python"}),
        _metadata("process_labels", process, 0, {"labels": "CPU"}),
        _metadata("process_sort_index", process, 0, {"sort_index": 0}),
    ]
    for thread in sorted({r.thread for r in recording.raw}):
        name = "main thread" if thread == process else "thread"
        name = "thread pool" if thread in helping else name
        rows.append(_metadata("thread_name", process, thread, {"name": f"{name} {thread}"}))
        order = 0 if thread == process else 2 if thread in helping else 1
        rows.append(_metadata("thread_sort_index", process, thread, {"sort_index": order}))
    return rows


def _arrows(recording, process):
    """From each forward op to the node that computes its gradient."""
    for number, (forward, backward) in enumerate(recording.links):
        common = {"id": number, "pid": process, "cat": "fwdbwd", "name": "fwdbwd"}
        yield {**common, "ph": "s", "tid": forward.device_resource_id,
               "ts": forward.time_range.start}  # fmt: skip
        yield {**common, "ph": "f", "bp": "e", "tid": backward.device_resource_id,
               "ts": backward.time_range.start}  # fmt: skip


def _launches(recording, process):
    """From each launch to what it had a GPU do."""
    for raw, event in recording.launches:
        common = {"id": event.linked_correlation_id, "cat": "ac2g", "name": "ac2g"}
        launched = (raw.launched - recording.start) / 1000
        yield {**common, "ph": "s", "pid": process, "tid": raw.thread, "ts": launched}
        yield {**common, "ph": "f", "bp": "e", "pid": raw.device, "tid": raw.stream,
               "ts": event.time_range.start}  # fmt: skip


def _gpus(recording):
    """Names of GPUs and of their streams."""
    for device in sorted({raw.device for raw in recording.on_gpus}):
        yield _metadata("process_name", device, 0, {"name": "python"})
        yield _metadata("process_labels", device, 0, {"labels": f"GPU {device}"})
        yield _metadata("process_sort_index", device, 0, {"sort_index": 5000000 + device})
    for device, stream in sorted({(raw.device, raw.stream) for raw in recording.on_gpus}):
        yield _metadata("thread_name", device, stream, {"name": f"stream {stream}"})


def _memory(recording, process):
    total = 0
    for raw in recording.allocations:
        total += raw.memory
        ts = (raw.start - recording.start) / 1000
        yield {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": process,
               "tid": raw.thread, "ts": ts,
               "args": {"Total Allocated": total, "Bytes": raw.memory, "Device Id": -1,
                        "Device Type": 0, "Addr": raw.bytes}}  # fmt: skip
        yield {"ph": "C", "name": "memory of tensors", "pid": process, "ts": ts,
               "args": {"bytes": total}}  # fmt: skip


def chrome_trace(recording: Any, events: Any, metadata: Any = ()) -> Any:
    """A trace as a dict. Times are microseconds since the profile began: a quarter of one would be
    lost in numbers that count from 1970.
    """
    process, base = os.getpid(), recording.start
    rows = [*_threads(recording, process), *_gpus(recording)]
    for event in events:
        elsewhere = event.activity_type == "kernel"
        if event.linked_correlation_id:
            rows.append(
                {
                    "ph": "X", "cat": event.activity_type, "name": event.name,
                    "pid": event.device_index, "tid": event.device_resource_id,
                    "ts": event.time_range.start, "dur": event.time_range.elapsed_us(),
                    "args": {"External id": event.external_id, "device": event.device_index,
                             "stream": event.device_resource_id,
                             "correlation": event.linked_correlation_id},
                }
            )  # fmt: skip
            continue
        rows.append(
            {
                "ph": "X", "cat": event.activity_type, "name": event.trace_name, "pid": process,
                "tid": f"device {event.device_index} stream {event.device_resource_id}"
                if elsewhere else event.device_resource_id,
                "ts": event.time_range.start, "dur": event.time_range.elapsed_us(),
                "args": _arguments(event),
            }
        )  # fmt: skip
    for raw in recording.kernels:
        rows.append(
            {
                "ph": "X", "cat": "kernel" if raw.kind == KERNEL else "thread pool",
                "name": raw.name, "pid": process, "tid": raw.thread,
                "ts": (raw.start - base) / 1000,
                "dur": (raw.end - raw.start) / 1000,
                "args": {"Bytes": raw.bytes} if raw.bytes else {},
            }
        )  # fmt: skip
    rows += _arrows(recording, process)
    rows += _launches(recording, process)
    rows += _memory(recording, process)
    rows.append(
        {"ph": "X", "cat": "Trace", "name": "profile", "pid": "Spans", "tid": "profile",
         "ts": 0, "dur": (recording.end - base) / 1000, "args": {}}
    )  # fmt: skip
    head = {"schemaVersion": 1, "displayTimeUnit": "ms", "baseTimeNanoseconds": base}
    return {**head, **dict(metadata), "traceEvents": rows}


def write_chrome_trace(
    path: str | os.PathLike[str], recording: Any, events: Any, metadata: Any = ()
) -> None:
    """Write a trace; a path that ends in .gz is compressed."""
    if recording is None:
        raise RuntimeError("export_chrome_trace: these events are not those of a profile")
    opened = gzip.open(path, "wt") if str(path).endswith(".gz") else open(path, "w")
    with opened as file:
        json.dump(chrome_trace(recording, events, metadata), file)
