"""`assert_close`: equality up to tolerances, of tensors and of anything made of them."""

from __future__ import annotations

import cmath
import collections.abc
import sys

import rushlight
from rushlight._ignored import warn_program as _warn_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight import Tensor

# (rtol, atol) of floating dtypes; other dtypes must agree exactly.
_TOLERANCES = {
    rushlight.float16: (1e-3, 1e-5),
    rushlight.bfloat16: (1.6e-2, 1e-5),
    rushlight.float32: (1.3e-6, 1e-5),
    rushlight.float64: (1e-7, 1e-7),
    rushlight.complex64: (1.3e-6, 1e-5),
    rushlight.complex128: (1e-7, 1e-7),
}
_ROWS, _COLUMNS = (
    ("crow_indices", "col_indices", "values"),
    ("ccol_indices", "row_indices", "values"),
)
_SPARSE_PARTS = {
    rushlight.sparse_coo: ("indices", "", "values"),
    rushlight.sparse_csr: _ROWS,
    rushlight.sparse_bsr: _ROWS,
    rushlight.sparse_csc: _COLUMNS,
    rushlight.sparse_bsc: _COLUMNS,
}
_NUMBER_DTYPES = {
    int: rushlight.int64,
    float: rushlight.float64,
    complex: rushlight.complex128,
    bool: rushlight.bool,
}


def default_tolerances(*inputs: Any) -> tuple[float, float]:
    """Return (rtol, atol), the larger ones if the inputs, tensors or dtypes, differ."""
    dtypes = [x if isinstance(x, rushlight.dtype) else x.dtype for x in inputs]
    pairs = [_TOLERANCES.get(dtype, (0.0, 0.0)) for dtype in dtypes]
    return max(rtol for rtol, _ in pairs), max(atol for _, atol in pairs)


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise an error unless |actual - expected| <= atol + rtol * |expected| everywhere.

    Args:
        actual: tensor, NumPy array, number, bool, None, or a sequence or mapping of such.
        expected: the same.
        allow_subclasses: types may differ if one is a subclass of the other.
        rtol: relative tolerance; by default from the dtypes.
        atol: absolute tolerance, to be given together with `rtol`.
        equal_nan: NaNs equal each other.
        check_device: devices must be equal.
        check_dtype: dtypes must be equal; otherwise values are compared in a common one.
        check_layout: layouts must be equal.
        check_stride: strides must be equal.
        msg: the text of the error, or a function of the text that it would have.

    Raises:
        AssertionError: there is a difference.
        TypeError: the inputs are of kinds that cannot be compared.
        ValueError: only one of `rtol` and `atol` is given.

    Example:
        >>> assert_close(rushlight.tensor(1.0) / 3 * 3, rushlight.tensor(1.0))
    """
    __tracebackhide__ = True  # pytest then shows the caller's line
    if (rtol is None) != (atol is None):
        absent = "rtol" if rtol is None else "atol"
        raise ValueError(
            f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {absent}."
        )
    rules = _Rules(
        allow_subclasses=allow_subclasses,
        tolerances=None if rtol is None else (rtol, atol),
        equal_nan=equal_nan,
        check_device=check_device,
        check_dtype=check_dtype,
        check_layout=check_layout,
        check_stride=check_stride,
    )
    try:
        rules.compare(actual, expected, ())
    except _Difference as difference:
        text = str(difference)
        if callable(msg):
            text = msg(text)
        elif msg:
            text = msg
        raise AssertionError(text) from None


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """Old form of `assert_close`, without checks of device, dtype and stride."""
    _warn_program("assert_allclose is deprecated, use assert_close", FutureWarning)
    actual, expected = (
        value if isinstance(value, rushlight.Tensor) else rushlight.tensor(value)
        for value in (actual, expected)
    )
    if rtol is None and atol is None:
        rtol, atol = default_tolerances(actual, expected)
    assert_close(
        actual,
        expected,
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_device=True,
        check_dtype=False,
        check_stride=False,
        msg=msg or None,
    )


class _Difference(Exception):
    """A difference, and the path of keys to it."""

    def __init__(self, text: str, path: str) -> None:
        if path:
            text += "\n\nThe failure occurred for item " + "".join(f"[{key!r}]" for key in path)
        super().__init__(text)


def _is_number(value):
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.number):
        return True
    return isinstance(value, (int, float, complex)) and not isinstance(value, bool)


def _is_bool(value):
    numpy = sys.modules.get("numpy")
    return isinstance(value, bool) or (numpy is not None and isinstance(value, numpy.bool_))


def _is_sequence(value):
    return isinstance(value, collections.abc.Sequence) and not isinstance(value, (str, bytes))


def _plain(number):
    """Return a NumPy scalar as the Python number it stands for."""
    return number.item() if hasattr(number, "item") else number


class _Rules:
    """What counts as equal; `compare` goes through containers down to tensors and numbers."""

    def __init__(self, **options: Any) -> None:
        self.__dict__.update(options)

    def compare(self, actual: Tensor, expected: Tensor, path: str) -> None:
        if _is_sequence(actual) and _is_sequence(expected):
            self._compare_sequences(actual, expected, path)
        elif all(isinstance(x, collections.abc.Mapping) for x in (actual, expected)):
            self._compare_mappings(actual, expected, path)
        elif actual is None or expected is None:
            if actual is not expected:
                raise _Difference(f"None mismatch: {actual} is not {expected}", path)
        elif _is_bool(actual) and _is_bool(expected):
            if bool(actual) is not bool(expected):
                raise _Difference(f"Booleans mismatch: {actual} is not {expected}", path)
        elif all(_is_number(x) or _is_bool(x) for x in (actual, expected)):
            self._compare_numbers(_plain(actual), _plain(expected), path)
        else:
            self._compare_tensors(*self._as_tensors(actual, expected), path)

    def _compare_sequences(self, actual, expected, path):
        if len(actual) != len(expected):
            raise _Difference(
                f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", path
            )
        for position, (a, e) in enumerate(zip(actual, expected, strict=True)):
            self.compare(a, e, (*path, position))

    def _compare_mappings(self, actual, expected, path):
        expected_keys, actual_keys = set(expected.keys()), set(actual.keys())
        missing, additional = expected_keys - actual_keys, actual_keys - expected_keys
        if missing or additional:
            text = "The keys of the mappings do not match:"
            text += f"\nMissing keys in the actual mapping: {_sorted(missing)}" * bool(missing)
            text += f"\nAdditional keys in the actual mapping: {_sorted(additional)}" * bool(
                additional
            )
            raise _Difference(text, path)
        for key in _sorted(actual_keys):
            self.compare(actual[key], expected[key], (*path, key))

    # --- numbers

    def _compare_numbers(self, actual, expected, path):
        if self.check_dtype and type(actual) is not type(expected):
            raise _Difference(
                f"The (d)types do not match: {type(actual)} != {type(expected)}.", path
            )
        tolerances = self.tolerances
        if tolerances is None:
            tolerances = default_tolerances(
                _NUMBER_DTYPES[type(actual)], _NUMBER_DTYPES[type(expected)]
            )
        self._compare_scalars(actual, expected, tolerances, path)

    def _compare_scalars(self, actual, expected, tolerances, path):
        rtol, atol = tolerances
        difference = abs(actual - expected)
        if actual == expected or (
            cmath.isfinite(expected)
            and cmath.isfinite(actual)
            and difference <= atol + rtol * abs(expected)
        ):
            return
        if self.equal_nan and cmath.isnan(actual) and cmath.isnan(expected):
            return
        relative = difference / abs(expected) if expected else cmath.inf
        exact = rtol == atol == 0
        raise _Difference(
            f"Scalars are not {'equal' if exact else 'close'}!\n\n"
            f"Expected {expected} but got {actual}.\n"
            f"Absolute difference: {difference}{_allowed(atol, exact)}\n"
            f"Relative difference: {relative}{_allowed(rtol, exact)}",
            path,
        )

    # --- tensors

    def _as_tensors(self, actual, expected):
        related = type(actual) is type(expected) or (
            self.allow_subclasses
            and (isinstance(actual, type(expected)) or isinstance(expected, type(actual)))
        )
        numpy = sys.modules.get("numpy")
        kinds = (rushlight.Tensor,) if numpy is None else (rushlight.Tensor, numpy.ndarray)
        if not related or not isinstance(actual, kinds):
            raise TypeError(
                "No comparison pair was able to handle inputs of type"
                f" {type(actual)} and {type(expected)}."
            )
        return rushlight.as_tensor(actual).detach(), rushlight.as_tensor(expected).detach()

    def _check_attribute(self, name, actual, expected, path):
        if actual != expected:
            raise _Difference(
                f"The values for attribute '{name}' do not match: {actual} != {expected}.", path
            )

    def _compare_sparse(self, actual, expected, path):
        """The indices, which must be equal, and the values; all elements where layouts differ."""
        if actual.layout is not expected.layout:
            self._compare_tensors(actual.to_dense(), expected.to_dense(), path)
            return
        kind = f"Sparse {str(actual.layout).rpartition('_')[2].upper()}"
        counts = [("specified values", actual._nnz(), expected._nnz())]
        if actual.layout is rushlight.sparse_coo:
            counts.insert(0, ("sparse dimensions", actual.sparse_dim(), expected.sparse_dim()))
            if actual.is_coalesced() != expected.is_coalesced():
                actual, expected = actual.coalesce(), expected.coalesce()
                counts[1] = ("specified values", actual._nnz(), expected._nnz())
        for what, ours, theirs in counts:
            if ours != theirs:
                raise _Difference(
                    f"The number of {what} in {kind.replace('S', 's', 1)} tensors does not match: "
                    f"{ours} != {theirs}",
                    path,
                )
        parts = zip(
            _SPARSE_PARTS[actual.layout],
            rushlight._C._sparse_parts(actual),
            rushlight._C._sparse_parts(expected),
            strict=False,
        )
        for part, ours, theirs in parts:
            if ours is not None:
                try:
                    self._compare_tensors(ours, theirs, ())
                except _Difference as difference:
                    text = str(difference).replace("Tensor-likes", f"{kind} {part}", 1)
                    raise _Difference(text, path) from None

    def _compare_tensors(self, actual, expected, path):
        self._check_attribute("shape", actual.shape, expected.shape, path)
        if self.check_layout:
            self._check_attribute("layout", actual.layout, expected.layout, path)
        if self.check_stride:
            self._check_attribute("stride()", actual.stride(), expected.stride(), path)
        self._check_attribute("is_quantized", actual.is_quantized, expected.is_quantized, path)
        if actual.is_quantized:
            self._check_attribute("qscheme()", actual.qscheme(), expected.qscheme(), path)
        if self.check_device:
            self._check_attribute("device", actual.device, expected.device, path)
        if self.check_dtype:
            self._check_attribute("dtype", actual.dtype, expected.dtype, path)
        if actual.is_meta or expected.is_meta:
            return
        if actual.layout is not rushlight.strided or expected.layout is not rushlight.strided:
            self._compare_sparse(actual, expected, path)
            return
        tolerances = self.tolerances or default_tolerances(actual, expected)
        if actual.is_quantized:
            actual, expected = actual.dequantize(), expected.dequantize()
        if actual.device != expected.device:
            actual, expected = actual.cpu(), expected.cpu()
        if actual.dtype != expected.dtype:
            kinds = [_signed(t.dtype) for t in (actual, expected)]
            common = rushlight.promote_types(*kinds)
            actual, expected = actual.to(common), expected.to(common)
        rtol, atol = tolerances
        close = rushlight.isclose(actual, expected, rtol, atol, self.equal_nan)
        if close.all():
            return
        if actual.dim() == 0:
            self._compare_scalars(actual.item(), expected.item(), tolerances, path)
        raise _Difference(_describe(actual, expected, close, tolerances), path)


def _signed(dtype):
    """int64 for unsigned integers, which have no common dtype with others."""
    wide = (rushlight.uint16, rushlight.uint32, rushlight.uint64)
    return rushlight.int64 if dtype in wide else dtype


def _sorted(keys):
    """Return `keys` in order, or as they come if they have none."""
    keys = list(keys)
    try:
        return sorted(keys)
    except TypeError:
        return keys


def _allowed(tolerance, exact):
    return "" if exact else f" (up to {tolerance} allowed)"


def _describe(actual, expected, close, tolerances):
    """Say how many elements differ and where they differ most."""
    rtol, atol = tolerances
    exact = rtol == atol == 0
    total = close.numel()
    bad = total - int(close.sum())
    if not (actual.is_floating_point() or actual.is_complex()):
        actual, expected = actual.to(rushlight.int64), expected.to(rushlight.int64)
    difference = (actual - expected).abs().masked_fill(close, 0)
    relative = (difference / expected.abs()).masked_fill(close, 0)
    return (
        f"Tensor-likes are not {'equal' if exact else 'close'}!\n\n"
        f"Mismatched elements: {bad} / {total} ({bad / total:.1%})\n"
        f"Greatest absolute difference: {_greatest(difference)}{_allowed(atol, exact)}\n"
        f"Greatest relative difference: {_greatest(relative)}{_allowed(rtol, exact)}"
    )


def _greatest(values):
    place = int(values.reshape(-1).argmax())
    value = values.reshape(-1)[place].item()
    index = []
    for size in reversed(values.shape):
        place, position = divmod(place, size)
        index.append(position)
    return f"{value} at index {tuple(reversed(index))}"
