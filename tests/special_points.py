"""Operations at special points: values, gradients and second gradients beside torch.

    python special_points.py PATTERN [DTYPE ...]     prints what differs, for names that match

A case is the text of a call of which `T` is the library, `F` its nn.functional, and x, y, z are
tensors that hold every combination of the special values.
"""

import itertools

import numpy as np

HALVES = ("float16", "bfloat16")
FLOATS = ("float32", "float64", *HALVES)
INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
WIDER = {"float16": "float32", "bfloat16": "float32", "float32": "float64"}
# (significand's bits, exponent of the smallest normal, largest)
FORMATS = {
    "float16": (11, -14, 65504.0),
    "bfloat16": (8, -126, 3.3895313892515355e38),
    "float32": (24, -126, 3.4028234663852886e38),
    "float64": (53, -1022, 1.7976931348623157e308),
}
INF, NAN, PI = float("inf"), float("nan"), float(np.pi)


def limits(dtype):
    """The smallest subnormal, the smallest normal and the largest number."""
    bits, low, largest = FORMATS[dtype]
    return 2.0 ** (low - bits + 1), 2.0**low, largest


def few(dtype):
    """Values for three arguments at once."""
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        return [info.min, info.max, 0, 1, 2, 3, info.max - 1]
    subnormal, _, largest = limits(dtype)
    return [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -3.0, INF, -INF, NAN, largest, subnormal]


def some(dtype):
    """Values for two arguments at once."""
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        return [*few(dtype), info.min + 1, 7, 8, 63, 64, 100, info.max // 2]
    subnormal, normal, largest = limits(dtype)
    return [
        *few(dtype),
        *(-2.0, 3.0, -0.5, 1.5, -1.5, 2.5, PI, -PI / 2, 10.0, 2.0**-10, 100.5, -(2.0**12)),
        *(-subnormal, normal, -normal, -largest, 1 - 2.0 ** -FORMATS[dtype][0], 2.0**15),
    ]


def many(dtype):
    """Values for one argument."""
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        signs = (1,) if dtype == "uint8" else (1, -1)
        powers = [s * 2**k for s in signs for k in range(info.bits - 1)]
        return [*some(dtype), *powers, *(p - 1 for p in powers if p > info.min)]
    bits, low, largest = FORMATS[dtype]
    positive = [
        *(0.25, 0.75, 1 + 2.0 ** (1 - bits), 2.0**-bits, 4.0, 5.0, 6.0, 7.5, 12.0, 20.0, 20.5),
        *(31.0, 50.0, 89.0, 104.0, 127.0, 128.0, 255.0, 256.0, 710.0, 746.0),
        *(k * PI / 4 for k in (1, 2, 3, 4, 6, 8, 100, 4000)),
        *(2.0**k for k in (-24, -14, -5, -2, 3, 5, 8, 11, 12, 15)),
        *(2.0**k for k in (24, 31, 32, 53, 63, 64, 120, 127) if 2.0**k < largest),
        *(2.0**k for k in (-30, -60, -120, -126) if k >= low),
        *(2.0 ** (low + k) for k in (-3, 1, 2)),
        *(largest / 2, largest * 0.75),
    ]
    return [*some(dtype), *positive, *(-p for p in positive)]


def complexes(dtype):
    subnormal, _, largest = limits("float32" if dtype == "complex64" else "float64")
    parts = [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, INF, -INF, NAN, subnormal, largest, PI]
    made = np.empty(len(parts) ** 2, np.complex128)
    pairs = np.array(list(itertools.product(parts, parts)))
    made.real, made.imag = pairs[:, 0], pairs[:, 1]
    return made


def arguments(dtype, count, step=7):
    """An array for each of `count` arguments: together every combination of the values."""
    if dtype.startswith("complex"):
        values = complexes(dtype)
        if count == 1:
            return [values]
        values = values[::step]
        return [np.ascontiguousarray(g.ravel()) for g in np.meshgrid(*[values] * count)]
    values = (many, some, few)[count - 1](dtype)
    wide = np.float64 if dtype in FLOATS else dtype
    columns = np.array(list(itertools.product(values, repeat=count)), wide).T
    return [np.ascontiguousarray(column) for column in columns]


KINDS = ("nan", "inf", "large", "tiny", "zero")


def is_kind(kind, dtype, array):
    """Which elements are NaN, infinite, 0, or beyond the root of the largest or smallest number."""
    if np.iscomplexobj(array):
        return is_kind(kind, dtype, array.real) | is_kind(kind, dtype, array.imag)
    _, normal, largest = limits("float32" if dtype == "complex64" else dtype)
    size = np.abs(array)
    if kind in ("nan", "inf"):
        return np.isnan(array) if kind == "nan" else np.isinf(array)
    if kind == "large":
        return (size >= largest**0.5) & np.isfinite(array)
    return array == 0 if kind == "zero" else (size <= normal**0.5) & (array != 0)


def has_equals(rows):
    """Which rows hold an element twice."""
    return np.array(
        [len({"nan" if v != v else v for v in row}) < len(row) for row in rows.tolist()]
    )


def rows(dtype, width=3):
    """One array whose rows hold every combination of `width` values."""
    return [np.ascontiguousarray(np.stack(arguments(dtype, width), 1))]


def tensor(T, array, dtype):
    with np.errstate(all="ignore"):
        return T.from_numpy(np.array(array)).to(getattr(T, dtype))


def plain(result):
    found = []

    def visit(value):
        if hasattr(value, "detach"):
            found.append(value)
        elif isinstance(value, (tuple, list)):
            for one in value:
                visit(one)

    visit(result)
    return found


def as_numpy(value):
    if value is None:
        return None
    value = value.detach()
    if str(value.dtype) == "torch.bfloat16" or str(value.dtype) == "torch.float16":
        value = value.float()
    if value.is_complex():
        value = value.resolve_conj()
    return value.numpy().copy()


def outcomes(T, text, dtype, arrays, orders=2, fixed=()):
    """{what: array} of a call: its values and gradients; an exception where it raises."""
    if T.__name__ == "torch":
        import torch.testing  # noqa: F401
    scope = {"T": T, "F": T.nn.functional, "S": T.special, "L": T.linalg, "inf": INF, "nan": NAN}
    inputs = {}
    for name, array in zip("xyz", arrays):
        inputs[name] = tensor(T, array, dtype)
    leaves = {}
    inexact = dtype not in INTEGERS and dtype != "bool"
    if inexact and orders:
        leaves = {n: t.requires_grad_() for n, t in inputs.items() if n not in fixed}
    found = {}
    outputs = plain(eval(text, {**scope, **inputs}))
    for number, out in enumerate(outputs):
        found[f"value {number}"] = as_numpy(out)
    for number, out in enumerate(outputs):
        if not out.requires_grad:
            continue
        weight = T.ones_like(out).requires_grad_()
        names = list(leaves)
        try:
            first = T.autograd.grad(
                out, list(leaves.values()), weight,
                create_graph=orders > 1, retain_graph=True, allow_unused=True,
            )  # fmt: skip
        except Exception as error:
            found[f"{number} gradient"] = error
            continue
        for name, one in zip(names, first):
            found[f"{number} d{name}"] = as_numpy(one)
        if orders < 2:
            continue
        for name, one in zip(names, first):
            if one is None:
                continue
            label = f"{number} d{name}"
            for other in [*names, "weight"]:
                found[f"{label} d{other}"] = None
            if not one.requires_grad:
                continue
            try:
                second = T.autograd.grad(
                    one, [*leaves.values(), weight], T.ones_like(one),
                    retain_graph=True, allow_unused=True,
                )  # fmt: skip
            except Exception as error:
                found[f"{label} gradient"] = error
                continue
            for other, two in zip([*names, "weight"], second):
                found[f"{label} d{other}"] = as_numpy(two)
    return found


# Of values, and of gradients, whose formulas cancel where a function is flat: relative, and
# absolute beside a gradient of 1.
TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "float64": 1e-9}
ABSOLUTE = {"float16": 1e-2, "bfloat16": 5e-2, "float32": 1e-6, "float64": 1e-9}


def close(actual, expected, kind, absolute=0.0):
    """Elementwise: equal but for rounding, infinities and NaN where the other has them."""
    if actual.dtype.kind == "c":
        kind = "float32" if actual.dtype == np.complex64 else "float64"
        # A NaN or an infinity in one part makes of the other what the order of operations will.
        whole = np.isfinite(expected)
        same = close(actual.real, expected.real, kind, absolute)
        same &= close(actual.imag, expected.imag, kind, absolute)
        tolerance = TOLERANCE[kind]
        with np.errstate(all="ignore"):
            near = np.abs(actual - expected) <= tolerance * np.abs(expected) + absolute
        return np.where(whole, same | near, ~np.isfinite(actual))
    if actual.dtype.kind != "f":
        return actual == expected
    tolerance = TOLERANCE[kind]
    subnormal, normal, largest = limits(kind)
    with np.errstate(all="ignore"):
        same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
        near = np.abs(actual - expected) <= np.maximum(
            tolerance * np.abs(expected), 4 * subnormal + absolute
        )
        edge = (np.abs(actual) >= largest * (1 - tolerance)) & (
            np.abs(expected) >= largest * (1 - tolerance)
        )
        edge &= np.sign(actual) == np.sign(expected)
    return same | (near & np.isfinite(actual)) | edge


def differences(rl, torch, text, dtype, arrays, orders=2, fixed=()):
    """(what, mask of the places, ours, torch's) of each outcome that differs."""
    try:
        expected = outcomes(torch, text, dtype, arrays, orders, fixed)
    except Exception as error:
        expected = error
    try:
        actual = outcomes(rl, text, dtype, arrays, orders, fixed)
    except Exception as error:
        actual = error
    if isinstance(expected, Exception) or isinstance(actual, Exception):
        if isinstance(actual, Exception) and not isinstance(expected, Exception):
            yield "call", None, actual, "a result"
        return
    exact = None
    own = dtype if dtype in FORMATS else "float32"
    for what, e in expected.items():
        a = actual.get(what)
        if isinstance(e, Exception) or isinstance(a, Exception):
            if isinstance(a, Exception) and not isinstance(e, Exception):
                yield what, None, a, "a result"
            continue
        if a is None and e is None:
            continue
        a = np.zeros_like(e) if a is None else a
        e = np.zeros_like(a) if e is None else e
        if a.shape != e.shape or a.dtype != e.dtype:
            yield what, None, (a.shape, a.dtype), (e.shape, e.dtype)
            continue
        kind = "float64" if a.dtype in (np.float64, np.complex128) else own
        absolute = ABSOLUTE.get(kind, 0) if what.partition(" ")[0] != "value" else 0.0
        good = close(a, e, kind, absolute)
        if not good.all() and dtype in WIDER:
            if exact is None:  # torch's own result, without the rounding on the way
                narrow = [as_numpy(tensor(torch, array, dtype)) for array in arrays]
                exact = outcomes(torch, text, WIDER[dtype], narrow, orders, fixed)
            w = exact.get(what)
            w = np.zeros_like(a) if w is None else w
            if not isinstance(w, Exception):
                rounded = as_numpy(tensor(torch, w, dtype)) if w.dtype.kind == "f" else w
                good |= close(a, rounded.astype(a.dtype), kind, absolute)
        if not good.all():
            yield what, ~good, a, e


def show(text, dtype, arrays, what, places, ours, theirs, limit=6):
    if places is None:
        return [f"{text} {dtype} {what}: {str(ours)[:150]!r}, torch {theirs}"]
    flat = [np.asarray(a).reshape(len(a), -1) for a in arrays]
    lines = [f"{text} {dtype} {what}: {int(places.sum())} of {places.size}"]
    for place in np.argwhere(places)[:limit]:
        row = place[0] if places.shape and places.shape[0] == len(flat[0]) else None
        at = "all" if row is None else ", ".join(str(a[row].tolist()) for a in flat)
        lines.append(f"    at {at}: {ours[tuple(place)]}, torch {theirs[tuple(place)]}")
    return lines
