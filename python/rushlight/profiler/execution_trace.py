"""`ExecutionTraceObserver`: what ran, with its inputs and outputs, as nodes of a JSON file."""

from __future__ import annotations

import gzip
import json
import math
import os
import tempfile
import time
from types import SimpleNamespace

import rushlight
from rushlight._ignored import warn_once
from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from typing_extensions import Self

_SCHEMA = "1.1.1-chakra.0.0.4"
_PROCESS, _THREAD = (f"[pytorch|profiler|execution_trace|{what}]" for what in ("process", "thread"))


class ExecutionTraceObserver:
    """Writes what runs between `start` and `stop` to a file, for programs that study or replay it.

    The file is JSON with torch's names: operations, nodes of backward passes and parts that
    `record_function` marks are nodes, with the node that they ran in, the shapes, strides and
    dtypes of inputs and outputs, and the numbers among the inputs. A tensor's value is a list of
    its id, its storage's id and offset, its number of elements, their size and the device; the ids
    and offsets are 0, as they are not recorded, and the device is "" where there are GPUs. Nor are
    schemas of operations written.

    Give it to `profile(execution_trace_observer=...)`, which starts and stops it with each trace,
    or call `start` and `stop`, while no profile is watching.

    Example:
        >>> import json, tempfile
        >>> import rushlight
        >>> from rushlight.profiler import ExecutionTraceObserver
        >>> path = tempfile.mktemp(suffix=".json")
        >>> observer = ExecutionTraceObserver().register_callback(path)
        >>> observer.start()
        >>> y = rushlight.ones(2, 3).exp()
        >>> observer.stop()
        >>> observer.unregister_callback()
        >>> with open(path) as file:
        ...     [node["name"] for node in json.load(file)["nodes"]][2:]
        ['aten::ones', 'aten::exp']
    """

    extra_resources_collection: bool
    resources_dir: str
    output_file_path: str

    def __init__(self) -> None:
        super().__init__()
        self._is_registered = self._is_running = False
        self.extra_resources_collection = False
        self.resources_dir = self.output_file_path = ""
        self._session: Any = None
        self._recordings: list[Any] = []
        self._began = 0

    def __del__(self) -> None:
        if "_recordings" in self.__dict__:
            self.unregister_callback()

    @staticmethod
    def build_execution_trace_obs_from_env() -> ExecutionTraceObserver | None:
        """Return an observer that writes to a new file if the environment variable
        ENABLE_PYTORCH_EXECUTION_TRACE is 1, else None.

        ENABLE_PYTORCH_EXECUTION_TRACE_EXTRAS=1 sets extra resources too.
        """
        if os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE", "0") != "1":
            return None
        handle, name = tempfile.mkstemp(suffix=".et.json")
        os.close(handle)
        observer = ExecutionTraceObserver().register_callback(name)
        extras = os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE_EXTRAS", "0") == "1"
        observer.set_extra_resource_collection(extras)
        return observer

    def register_callback(self, output_file_path: str) -> Self:
        """Say where the trace is written; to a file whose name ends in ".gz", compressed."""
        if not self._is_registered:
            self.output_file_path = os.fspath(output_file_path)
            self._is_registered, self._began = True, time.monotonic_ns() // 1000
            self._recordings = []
        return self

    def unregister_callback(self) -> None:
        """Stop, and write the file."""
        if not self._is_registered:
            return
        self.stop()
        self._is_registered = False
        opened = gzip.open if self.output_file_path.endswith(".gz") else open
        with opened(self.output_file_path, "wt", encoding="utf-8") as file:
            json.dump(self._trace(), file, indent=1)

    def cleanup(self) -> None:
        """Stop, and write the file."""
        self.unregister_callback()

    @property
    def is_registered(self) -> bool:
        """Is there a file to write to, which is not written yet?"""
        return self._is_registered

    def is_running(self) -> bool:
        """Is what runs recorded?"""
        return self._is_running

    def start(self) -> None:
        """Record from now on, if there is a file to write to.

        Raises:
            RuntimeError: a profile is watching; give it the observer.
        """
        if not self._is_registered or self._is_running:
            return
        from rushlight.profiler import ProfilerActivity, _Session

        self._session = _Session(
            SimpleNamespace(
                record_shapes=True, profile_memory=False, with_stack=False, with_flops=False,
                with_modules=False, activities={ProfilerActivity.CPU},
            )
        )  # fmt: skip
        self._is_running = True

    def stop(self) -> None:
        """Record no more."""
        if self._session is not None:
            session, self._session = self._session, None
            self._recordings.append(session.finish())
        self._is_running = False

    def _follow(self):
        """A profile records from now on."""
        if self._is_registered:
            self.stop()
            self._is_running = True

    def _take(self, recording):
        """A profile has recorded this."""
        if self._is_running and self._session is None:
            self._recordings.append(recording)
            self._is_running = False

    def get_output_file_path(self) -> str | None:
        """Return where the trace is written, or None."""
        return self.output_file_path or None

    def set_extra_resource_collection(self, val: bool) -> None:
        """Make a folder beside the file for what a replay needs beside it: generated kernels, of
        which there are none, so that it stays empty."""
        self.extra_resources_collection = val
        if val:
            warn_once("ExecutionTraceObserver: no kernels are generated: the folder stays empty")
            self.get_resources_dir(can_create=True)

    def get_resources_dir(self, can_create: bool = False) -> str | None:
        """Return the folder that `set_extra_resource_collection` asks for, or None.

        Args:
            can_create: make it if it is not there.
        """
        if not self.extra_resources_collection:
            return None
        if not self.resources_dir:
            found = self.get_resources_dir_for_et_path(self.output_file_path, can_create)
            self.resources_dir = found or ""
        return self.resources_dir or None

    @staticmethod
    def get_resources_dir_for_et_path(trace_path: str, create_dir: bool = False) -> str | None:
        """Return the folder that belongs to a trace: its path without the ending, and
        "_resources"; None if it is not there.

        Args:
            create_dir: make it if it is not there.
        """
        folder = f"{os.path.splitext(trace_path)[0]}_resources"
        if create_dir:
            os.makedirs(folder, exist_ok=True)
        return folder if os.path.isdir(folder) else None

    def _trace(self):
        nodes = [_node(1, 1, _PROCESS, scope=7)]
        for recording in self._recordings:
            nodes += _nodes(recording, len(nodes) + 1)
        for running, node in enumerate(nodes[1:], 1):
            node["attrs"][0]["value"] = running
        return {
            "schema": _SCHEMA, "pid": os.getpid(),
            "time": time.strftime("%Y-%m-%d %H:%M:%S"), "start_ts": self._began, "nodes": nodes,
            "finish_ts": time.monotonic_ns() // 1000,
        }  # fmt: skip


def _nodes(recording, number) -> Iterator[Any]:
    """The nodes of what was recorded, in the order in which it began."""
    from rushlight.profiler.recording import APPLY, BACKWARD, FUNCTION, OP, SPAN, VISIT

    ordered = sorted(recording.raw, key=lambda r: (r.thread, r.start, -r.end))
    threads: dict[int, int] = {}
    open_nodes: list[Any] = []
    for raw in ordered:
        if raw.kind not in (OP, VISIT, APPLY, FUNCTION, SPAN, BACKWARD):
            continue
        if raw.thread not in threads:
            threads[raw.thread] = len(threads) + 1
            yield _node(number, 1, _THREAD, scope=7, tid=threads[raw.thread])
            open_nodes, number = [(math.inf, number)], number + 1
        while open_nodes[-1][0] <= raw.start:
            open_nodes.pop()
        name = f"aten::{raw.name}" if raw.kind == OP else raw.name
        name, _, words = name.partition(rushlight.profiler.SEPARATOR)
        yield _node(
            number, open_nodes[-1][1], name, [words] if words else raw.inputs or (),
            raw.results or (), {SPAN: 7, APPLY: 1}.get(raw.kind, 0), threads[raw.thread],
            raw.sequence,
        )  # fmt: skip
        open_nodes.append((raw.end, number))
        number += 1


def _node(number, parent, name, inputs=(), outputs=(), scope=0, tid=0, sequence=-1):
    attributes = (
        ("rf_id", "uint64", 0), ("fw_parent", "uint64", 0), ("seq_id", "int64", sequence),
        ("scope", "uint64", scope), ("tid", "uint64", tid), ("fw_tid", "uint64", 0),
        ("op_schema", "string", ""), ("kernel_backend", "string", ""),
        ("kernel_file", "string", ""), ("tensor_range", "string", ""),
    )  # fmt: skip
    return {
        "id": number, "name": name, "ctrl_deps": parent,
        "inputs": _described(inputs), "outputs": _described(outputs),
        "attrs": [{"name": n, "type": kind, "value": value} for n, kind, value in attributes],
    }  # fmt: skip


def _described(values):
    columns = list(zip(*map(_value, values))) or [(), (), (), ()]
    names = ("values", "shapes", "types", "strides")
    return {name: list(column) for name, column in zip(names, columns)}


def _value(value):
    """The value, shape, type and strides of an input or output."""
    from rushlight.profiler.recording import _DTYPES

    if isinstance(value, tuple):  # a tensor: dtype, shape and strides
        dtype, shape, strides = value[:3]
        device = "" if rushlight.cuda.is_available() else "cpu"
        size = getattr(rushlight, dtype).itemsize if dtype else 1
        numbers = [0, 0, 0, math.prod(shape), size, device]
        return numbers, list(shape), f"Tensor({_DTYPES.get(dtype, dtype)})", list(strides)
    if isinstance(value, list):
        parts = list(zip(*map(_value, value))) or [(), (), (), ()]
        kinds = ",".join(parts[2])
        return list(parts[0]), list(parts[1]), f"GenericList[{kinds}]", list(parts[3])
    if value is None:
        return "<None>", [], "None", []
    kind = {bool: "Bool", int: "Int", float: "Double", str: "String"}.get(type(value))
    return value if kind else str(value), [], kind or type(value).__name__, []


set_module("rushlight.profiler.profiler", ExecutionTraceObserver)
