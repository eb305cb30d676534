"""What a model is made of: a table of its modules, for a terminal or a notebook."""

from __future__ import annotations

from html import escape
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.nn._modes import modes_kept
from rushlight.utils.flop_counter import FlopCounterMode

_COLUMNS = ("Module", "Output", "Parameters", "FLOPs", "Output memory")


class ModuleSummary:
    """The table that `summary` makes: prints as text, and shows as a table in a notebook.

    Attributes:
        rows: for each module (depth, name, class name, shapes of its outputs, parameters of its
            own, FLOPs, bytes of its outputs).
        parameters: how many numbers the model's parameters have.
        trainable: how many of them require a gradient.
        flops: the multiplications and additions of the run, or None where nothing ran.
        parameter_bytes: the memory of parameters and buffers.
    """

    def __init__(self, model: Any, inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
        parameters = list(model.parameters())
        self.parameters: Any = sum(p.numel() for p in parameters)
        self.trainable: Any = sum(p.numel() for p in parameters if p.requires_grad)
        held = [*parameters, *model.buffers()]
        self.parameter_bytes: Any = sum(t.numel() * t.element_size() for t in held)
        self.flops: int | None = None
        self.rows: list[tuple[int, str, str, str, int, int | None, int | None]] = []
        ran = bool(inputs or options)
        outputs = _run(model, inputs, options) if ran else ({}, {})
        if ran:
            self.flops = outputs[1].get("Global", 0)
        self._add(model, type(model).__name__, type(model).__name__, 0, outputs)

    def _add(self, module, name, path, depth, outputs):
        made, flops = outputs
        shapes, size = made.get(id(module), ("", None))
        own = sum(p.numel() for p in module.parameters(recurse=False))
        count = flops.get("Global" if depth == 0 else path) if flops else None
        self.rows.append((depth, name, type(module).__name__, shapes, own, count, size))
        for child_name, child in module.named_children():
            self._add(child, child_name, f"{path}.{child_name}", depth + 1, outputs)

    def _cells(self):
        for depth, name, kind, shapes, own, flops, size in self.rows:
            title = kind if depth == 0 else f"{name}: {kind}"
            yield (
                "  " * depth + title,
                shapes,
                f"{own:,}" if own else "",
                "" if not flops else _short(flops, ""),
                "" if size is None else _short(size, "B"),
            )

    def _totals(self):
        yield f"parameters: {self.parameters:,}, of which {self.trainable:,} are trained"
        yield f"memory of parameters and buffers: {_short(self.parameter_bytes, 'B')}"
        if self.flops is not None:
            yield f"FLOPs of products and convolutions: {_short(self.flops, '')}"

    def __str__(self) -> str:
        rows = [_COLUMNS, *self._cells()]
        widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS))]
        lines = []
        for row in rows:
            left = [cell.ljust(width) for cell, width in zip(row[:2], widths)]
            right = [cell.rjust(width) for cell, width in zip(row[2:], widths[2:])]
            lines.append("  ".join([*left, *right]).rstrip())
        rule = "-" * max(map(len, lines))
        return "\n".join([lines[0], rule, *lines[1:], rule, *self._totals()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(column)}</th>" for column in _COLUMNS)
        body = []
        for cells in self._cells():
            depth = (len(cells[0]) - len(cells[0].lstrip())) // 2
            first = f'<td style="text-align:left;padding-left:{1 + depth}em">'
            first += f"{escape(cells[0].lstrip())}</td>"
            right = '<td style="text-align:right">'
            rest = "".join(f"{right}{escape(cell)}</td>" for cell in cells[1:])
            body.append(f"<tr>{first}{rest}</tr>")
        totals = "<br>".join(escape(line) for line in self._totals())
        return (
            f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
            f"<div>{totals}</div>"
        )


def _short(number, unit):
    """1234567 as "1.2 M"."""
    base = 1024 if unit else 1000
    for prefix in ("", "k", "M", "G", "T"):
        if number < base or prefix == "T":
            shown = f"{number:,}" if not prefix else f"{number:.1f}"
            return f"{shown} {prefix}{unit}".rstrip()
        number /= base
    raise AssertionError


def _tensors(value):
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [tensor for part in value for tensor in _tensors(part)]
    return []


def _run(model, inputs, options):
    """(shapes and bytes of each module's output, FLOPs by the module's path) of one run."""
    made = {}

    def note(module, args, output):
        tensors = _tensors(output)
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in tensors)
        made[id(module)] = shapes, sum(t.numel() * t.element_size() for t in tensors)

    handles = [module.register_forward_hook(note) for module in model.modules()]
    try:
        with modes_kept(model), rushlight.no_grad(), FlopCounterMode(display=False) as counter:
            model.eval()
            model(*inputs, **options)
    finally:
        for handle in handles:
            handle.remove()
    counts = counter.get_flop_counts()
    return made, {path: sum(ops.values()) for path, ops in counts.items()}


def summary(model: Any, *inputs: Any, **options: Any) -> ModuleSummary:
    """Return a table of a model's modules: outputs, parameters, FLOPs and memory.

    Args:
        model: an `nn.Module`.
        inputs: what to call it with, once, in evaluation mode and without gradients; with nothing,
            the table has the parameters alone.
        options: keyword arguments of that call.

    Returns:
        A `ModuleSummary`: print it, or let a notebook show it.

    Example:
        >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> print(rushlight.utils.summary(model, rushlight.zeros(1, 4)))
        Module       Output  Parameters  FLOPs  Output memory
        -----------------------------------------------------
        Sequential   (1, 2)                 96            8 B
          0: Linear  (1, 8)          40     64           32 B
          1: ReLU    (1, 8)                              32 B
          2: Linear  (1, 2)          18     32            8 B
        -----------------------------------------------------
        parameters: 58, of which 58 are trained
        memory of parameters and buffers: 232 B
        FLOPs of products and convolutions: 96
    """
    return ModuleSummary(model, inputs, options)


summary.__module__ = "rushlight.utils"
