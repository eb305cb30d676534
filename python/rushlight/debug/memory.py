"""What holds the memory of a program, line by line."""

from __future__ import annotations

import gc
import sys
import types

from rushlight import _C, Tensor, memory_stats
from rushlight._set_module import home_of as _home_of
from rushlight.nn import Module
from rushlight.optim import Optimizer
from rushlight.profiler.events import format_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self

KINDS = ("parameter", "buffer", "gradient", "optimizer state", "tensor", "saved for backward",
         "backward in flight")  # fmt: skip


class track_memory:
    """Within it every block of more than 2 KB is known by its line, not only those from 256 KB on.

    A context; an allocation then costs about 0.1 us more. Blocks that were allocated before stay
    unknown. `track_memory().start()` switches it on for good.

    Example:
        >>> with track_memory():
        ...     x = rushlight.ones(1000)
        ...     report = memory_report()
        >>> sum(row.bytes for row in report.rows) >= 4000
        True
    """

    def start(self) -> Self:
        """Switch it on."""
        self._before = _C._block_limit(0)
        return self

    def stop(self) -> None:
        """Switch it off."""
        _C._block_limit(self._before)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exception: Any) -> None:
        self.stop()


class Row:
    """So many bytes of one kind that one line of the program has asked for.

    `where` is (file, line, function), or None where that is not known.
    """

    kind: str
    where: tuple[str, int, str] | None
    names: list[str]
    bytes: int
    count: int

    __slots__ = ("bytes", "count", "kind", "names", "where")

    def __init__(self, kind: Any, where: Any) -> None:
        self.kind, self.where, self.bytes, self.count, self.names = kind, where, 0, 0, []

    def __repr__(self) -> str:
        return f"Row({self.kind}, {format_memory(self.bytes)}, {_line(self.where)})"


def _line(where):
    return "no line of the program" if where is None else "{}:{}, in {}".format(*where)


class MemoryReport:
    """What `memory_report` returns: its text is the report.

    Attributes:
        rows: a Row for each kind and line, the largest first.
        kinds: bytes by kind.
        known: bytes in blocks that are known by their lines.
        allocated, cached, peak: as memory_stats() tells them.
    """

    allocated: int
    cached: int
    peak: int

    def __init__(self, rows: list[Row], stats: dict[str, int]) -> None:
        self.rows: list[Row] = sorted(rows, key=lambda row: -row.bytes)
        self.kinds: dict[str, int] = {}
        for row in self.rows:
            self.kinds[row.kind] = self.kinds.get(row.kind, 0) + row.bytes
        self.known: int = sum(self.kinds.values())
        self.allocated, self.cached, self.peak = stats["allocated"], stats["cached"], stats["peak"]

    def __str__(self) -> str:
        return self.text()

    def text(self, rows: int = 20) -> str:
        """The report with at most so many lines of the program."""
        lines = [
            f"{format_memory(self.allocated)} in use, {format_memory(self.peak)} at the peak, "
            f"{format_memory(self.cached)} cached for reuse",
        ]
        smaller = self.allocated - self.known
        for kind in KINDS:
            if kind in self.kinds:
                lines.append(f"  {format_memory(self.kinds[kind]):>10}  {kind}")
        if smaller > 0:
            lines.append(f"  {format_memory(smaller):>10}  in blocks not known by their lines")
        for row in self.rows[:rows]:
            count = "1 block" if row.count == 1 else f"{row.count} blocks"
            names = f" ({', '.join(row.names[:3])}{', ...' if row.names[3:] else ''})"
            lines.append(
                f"{format_memory(row.bytes):>10}  {row.kind}, {count}: {_line(row.where)}"
                f"{names if row.names else ''}"
            )
        if len(self.rows) > rows:
            lines.append(f"... and {len(self.rows) - rows} more lines")
        return "\n".join(lines)

    __repr__ = __str__


def _address(tensor):
    return _C._memory_address(tensor)


def _name_module(module, kinds, names):
    for path, parameter in module.named_parameters(recurse=True):
        _put(kinds, names, parameter, "parameter", path)
        if parameter.grad is not None:
            _put(kinds, names, parameter.grad, "gradient", path)
    for path, buffer in module.named_buffers(recurse=True):
        _put(kinds, names, buffer, "buffer", path)


def _put(kinds, names, tensor, kind, name=None):
    if _home_of(type(tensor)).startswith("rushlight") and not tensor.is_sparse:
        address = _address(tensor)
        kinds.setdefault(address, kind)
        if name is not None:
            names.setdefault(address, name)


def _state_tensors(state):
    if isinstance(state, Tensor):
        yield state
    elif isinstance(state, dict):
        for value in state.values():
            yield from _state_tensors(value)
    elif isinstance(state, (list, tuple)):
        for value in state:
            yield from _state_tensors(value)


def _frame_values():
    """The local variables of all functions that run."""
    for frame in sys._current_frames().values():
        while frame is not None:
            yield from frame.f_locals.values()
            frame = frame.f_back


def _kinds():
    """What the tensors that the program can reach are: {address: kind}, {address: name}."""
    kinds, names = {}, {}
    objects = gc.get_objects()
    modules = [o for o in objects if isinstance(o, Module) and "_parameters" in o.__dict__]
    inner = {id(child) for module in modules for child in module._modules.values()}
    for module in modules:
        if id(module) not in inner:
            _name_module(module, kinds, names)
    for optimizer in objects:
        if not isinstance(optimizer, Optimizer):
            continue
        for tensor in _state_tensors(dict(optimizer.state)):
            _put(kinds, names, tensor, "optimizer state")
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                _put(kinds, names, parameter, "parameter")
                if parameter.grad is not None:
                    _put(kinds, names, parameter.grad, "gradient")
    skipped = (type, types.ModuleType, types.FunctionType, types.CodeType)
    for container in objects:
        if isinstance(container, skipped):
            continue
        for value in gc.get_referents(container):
            if isinstance(value, Tensor):
                _put_tensor(kinds, names, value)
    for value in _frame_values():
        if isinstance(value, Tensor):
            _put_tensor(kinds, names, value)
    return kinds, names


def _put_tensor(kinds, names, tensor):
    _put(kinds, names, tensor, "tensor")
    if tensor.is_leaf and tensor.grad is not None:
        _put(kinds, names, tensor.grad, "gradient")


def memory_report() -> Any:
    """Which lines of the program hold how many bytes: parameters, gradients, states, saved tensors.

    Blocks from 256 KB on are known by the line that allocated them, smaller ones within
    `track_memory`. In backward that is the line of the forward op. What no variable of the program
    leads to is saved for backward, or belongs to a backward pass that is running. It looks through
    all objects of the process, so it takes about a second in a large one.

    Returns:
        A MemoryReport; print it.

    Example:
        >>> weight = rushlight.ones(512, 512, requires_grad=True)
        >>> report = memory_report()
        >>> any(row.kind == "tensor" and row.bytes >= 2**20 for row in report.rows)
        True
    """
    blocks = _C._memory_blocks()
    kinds, names = _kinds()
    rows = {}
    for address, size, where, in_backward in blocks:
        unseen = "backward in flight" if in_backward else "saved for backward"
        kind = kinds.get(address, unseen)
        row = rows.setdefault((kind, where), Row(kind, where))
        row.bytes += size
        row.count += 1
        if address in names:
            row.names.append(names[address])
    return MemoryReport(rows.values(), memory_stats())
