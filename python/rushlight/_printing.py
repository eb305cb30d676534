"""Text and HTML of tensors, in torch's layout.

`tensor_repr` works on plain Python values: it takes the elements that are to be shown with one
`tolist()`, marks the gaps of a summary with `...`, picks one number format for all of them, and
lays the nested lists out.
"""

from __future__ import annotations

import contextlib
import math

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from rushlight import Tensor

_PROFILES = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}
_options = {**_PROFILES["default"], "sci_mode": None}


def set_printoptions(
    precision: int | None = None,
    threshold: int | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors are printed.

    Args:
        precision: digits after the decimal point (default 4).
        threshold: tensors with more elements than this are summarised (default 1000).
        edgeitems: elements shown at each end of a summarised dimension (default 3).
        linewidth: columns per line (default 80).
        profile: start from "default", "short" or "full"; the other arguments override it.
        sci_mode: True or False forces scientific notation on or off; None, also when the argument
            is left out,
            lets the values decide.
    """
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(
                f"set_printoptions: profile must be one of {sorted(_PROFILES)}, not {profile!r}"
            )
        _options.update(_PROFILES[profile])
    given = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    _options.update((name, value) for name, value in given.items() if value is not None)
    _options["sci_mode"] = sci_mode


def get_printoptions() -> dict[str, int]:
    """Return the current print options as a dict that `set_printoptions(**options)` accepts."""
    return dict(_options)


@contextlib.contextmanager
def printoptions(**options: Any) -> Iterator[Any]:
    """Set print options for the duration of a `with` block."""
    before = get_printoptions()
    set_printoptions(**options)
    try:
        yield
    finally:
        _options.update(before)


class _IntegerFormat:
    """Integers and booleans, right-aligned to the longest."""

    def __init__(self, values: Any) -> None:
        self.width = max((len(str(value)) for value in values), default=1)

    def __call__(self, value: Any) -> str:
        return str(value).rjust(self.width)


class _FloatFormat:
    """One notation and one width for a set of floats.

    Zeros, infinities and NaNs fit any notation, so only the other values choose it: whole numbers
    print as `3.`, and scientific notation is taken when the values span more than three orders of
    magnitude or would lose digits.
    """

    def __init__(self, values: Any) -> None:
        ordinary = [value for value in values if value and math.isfinite(value)]
        magnitudes = [abs(value) for value in ordinary]
        self._whole = all(value.is_integer() for value in ordinary)
        self._scientific = bool(ordinary) and self._wants_exponent(magnitudes)
        self.width = max((len(self._digits(value)) for value in ordinary), default=1)

    def _wants_exponent(self, magnitudes):
        if _options["sci_mode"] is not None:
            return _options["sci_mode"]
        low, high = min(magnitudes), max(magnitudes)
        return high / low > 1000 or high > 1e8 or (not self._whole and low < 1e-4)

    def _digits(self, value):
        if self._scientific:
            return f"{value:.{_options['precision']}e}"
        if self._whole:
            return f"{value:.0f}." if math.isfinite(value) else str(value)
        return f"{value:.{_options['precision']}f}"

    def __call__(self, value: Any) -> str:
        return self._digits(value).rjust(self.width)


class _ComplexFormat:
    """Real and imaginary parts, each in a float format of its own; only the real part aligns."""

    def __init__(self, values: Any) -> None:
        self._real = _FloatFormat([value.real for value in values])
        self._imag = _FloatFormat([value.imag for value in values])
        self.width = self._real.width + self._imag.width + 1

    def __call__(self, value: Any) -> str:
        imag = self._imag(value.imag).lstrip() + "j"
        sign = "" if imag.startswith("-") else "+"
        return self._real(value.real) + sign + imag


def _number_format(tensor, values):
    if tensor.is_complex():
        return _ComplexFormat(values)
    return (_FloatFormat if tensor.is_floating_point() else _IntegerFormat)(values)


def _shown_elements(tensor):
    """Return the elements to print as nested lists; `...` stands for what a summary leaves out."""
    edge = _options["edgeitems"]
    gaps = [False] * tensor.dim()
    if tensor.numel() > _options["threshold"]:
        gaps = [size > 2 * edge for size in tensor.shape]
    for dim, gap in enumerate(gaps):
        if gap:
            ends = (tensor.narrow(dim, start, edge) for start in (0, tensor.shape[dim] - edge))
            tensor = rushlight.cat(tuple(ends), dim)
    if edge == 0 and any(gaps):
        # An empty list has lost the sizes of the dimensions behind it.
        return _empty_summary(tensor.shape, gaps)
    return _insert_gaps(tensor.tolist(), gaps, edge)


def _empty_summary(shape, gaps):
    if gaps[0]:
        return [...]
    return [_empty_summary(shape[1:], gaps[1:]) for _ in range(shape[0])]


def _insert_gaps(values, gaps, edge):
    if True not in gaps:
        return values
    rows = [_insert_gaps(row, gaps[1:], edge) for row in values]
    return rows[:edge] + [...] + rows[edge:] if gaps[0] else rows


def _leaves(values):
    if not isinstance(values, list):
        return [] if values is ... else [values]
    return [leaf for value in values for leaf in _leaves(value)]


def _layout(values, dims, number, indent):
    """Lay nested lists out: rows fill the line width, blocks stand apart by blank lines."""
    if dims == 0:
        return number(values)
    if dims > 1:
        blocks = ("..." if v is ... else _layout(v, dims - 1, number, indent + 1) for v in values)
        return "[" + ("," + "\n" * (dims - 1) + " " * (indent + 1)).join(blocks) + "]"
    if values == [...]:
        return "[...]"
    cells = [" ..." if value is ... else number(value) for value in values]
    per_line = max(1, (_options["linewidth"] - indent) // (number.width + 2))
    lines = (", ".join(cells[i : i + per_line]) for i in range(0, len(cells), per_line))
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _contents(tensor, indent):
    values = _shown_elements(tensor)
    return _layout(values, tensor.dim(), _number_format(tensor, _leaves(values)), indent)


def contents_of_unsigned(bits: Tensor) -> str:
    """Return the elements of an int64 tensor as text that takes them modulo 2**64."""

    def unsigned(value):
        if isinstance(value, list):
            return [unsigned(part) for part in value]
        return value if value is ... else value % 2**64

    values = unsigned(_shown_elements(bits))
    return _layout(values, bits.dim(), _IntegerFormat(_leaves(values)), len("tensor("))


def _dtype_is_evident(tensor, contents):
    """Say whether a reader of `contents` would guess the dtype."""
    default = rushlight.get_default_dtype()
    if contents in ("[]", "..."):
        return tensor.dtype == default
    default_complex = rushlight.complex128 if default == rushlight.float64 else rushlight.complex64
    return tensor.dtype in (default, default_complex, rushlight.int64, rushlight.bool)


def _history(tensor):
    dual = tensor.__dict__.get("_dual")  # of forward mode
    return _graph(tensor) + ([] if dual is None else [f"tangent={dual[1]}"])


def _graph(tensor):
    try:
        node = tensor.grad_fn
    except RuntimeError:  # a view whose base was changed in a way that has no derivative
        return ["grad_fn=<Invalid>"]
    if node is not None:
        return [f"grad_fn=<{node.name().rsplit('::', 1)[-1]}>"]
    if tensor.volatile:
        return ["volatile=True"]
    return ["requires_grad=True"] if tensor.requires_grad else []


def _suffixes(tensor, plain, contents):
    # What a tensor of a class that dispatches has no elements for, it has elsewhere.
    device = tensor.__dict__.get("_wrapper_device", tensor.device)
    if device.type != "cpu":
        yield f"device='{device}'"
    hidden_sizes = plain.numel() == 0 and plain.dim() != 1
    if device.type == "meta" or hidden_sizes or (plain.numel() and not _options["edgeitems"]):
        yield f"size={tuple(tensor.shape)}"
    if not _dtype_is_evident(tensor, contents):
        yield f"dtype={tensor.dtype}"
    yield from _history(tensor)


def tensor_repr(tensor: Tensor, *, tensor_contents: Any = None) -> str:
    """Return `repr(tensor)` exactly as torch prints it.

    Args:
        tensor: any tensor, parameter or instance of a subclass.
        tensor_contents: text to show in place of the elements.
    """
    kind = type(tensor)
    is_parameter = isinstance(tensor, rushlight.nn.Parameter)
    named = kind is not rushlight.Tensor and kind is not rushlight.nn.Parameter
    prefix = f"{kind.__name__}(" if named else "tensor("
    with rushlight._C._SubclassesOff():
        plain = tensor.detach()
        contents = tensor_contents
        if contents is None and tensor.is_meta:
            contents = "..."
        elif contents is None:
            contents = _contents(plain, len(prefix)) if plain.numel() else "[]"
        text = prefix + contents
        # torch keeps two columns in reserve on the line that ends the elements
        column = len(text) - text.rfind("\n") + 1
        for suffix in _suffixes(tensor, plain, contents):
            if column + len(suffix) + 2 > _options["linewidth"]:
                text += ",\n" + " " * len(prefix) + suffix
                column = len(prefix) + len(suffix)
            else:
                text += ", " + suffix
                column += len(suffix) + 2
    text += ")"
    return f"Parameter({text})" if is_parameter and named else text


def _table(values, number):
    rows = []
    for row in values:
        cells = ["&#8230;"] if row is ... else ["&#8230;" if v is ... else number(v) for v in row]
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return "<table>" + "".join(rows) + "</table>"


def html(tensor: Tensor) -> str:
    """Return `tensor` as HTML for a notebook: shape, dtype, device, history and values.

    One and two dimensions become a table, more a block of text; long tensors are summarised as in
    `repr`.
    """
    from html import escape

    with rushlight._C._SubclassesOff():
        plain = tensor.detach()
        facts = [type(tensor).__name__, str(tuple(tensor.shape)), str(tensor.dtype)]
        facts += [str(tensor.device), *_history(tensor)]
        heading = f"<div><b>{escape(' · '.join(facts))}</b></div>"
        if tensor.is_meta or plain.numel() == 0:
            return heading
        if plain.dim() not in (1, 2):
            return f"{heading}<pre>{escape(_contents(plain, 0))}</pre>"
        values = _shown_elements(plain)
        number = _number_format(plain, _leaves(values))
        return heading + _table(values if plain.dim() == 2 else [values], number)
