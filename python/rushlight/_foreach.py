"""Operations on lists of tensors, `torch._foreach_add_(parameters, gradients)`: one after another,
as an operation on its own costs little here.
"""

from __future__ import annotations

from itertools import repeat

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_UNARY = """
    abs acos asin atan ceil clone cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2
    neg reciprocal round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc zero
""".split()
_OUT_OF_PLACE_ONLY = {"clone", "max", "mm", "norm", "powsum"}
_IN_PLACE_ONLY = {"copy", "zero"}


def _bounded(extreme, bound):
    """Of two tensors, else of a tensor and a number."""
    return lambda x, other: (extreme if isinstance(other, rushlight.Tensor) else bound)(x, other)


# Out of place.
_SPECIAL = {
    "addcdiv": lambda x, a, b, value=1: rushlight.addcdiv(x, a, b, value=value),
    "addcmul": lambda x, a, b, value=1: rushlight.addcmul(x, a, b, value=value),
    "max": lambda x: x.max(),
    "maximum": _bounded(rushlight.maximum, rushlight.clamp_min),
    "minimum": _bounded(rushlight.minimum, rushlight.clamp_max),
    "norm": lambda x, ord=2, dtype=None: rushlight.linalg.vector_norm(x, ord, dtype=dtype),
    "pow": lambda x, exponent: rushlight.pow(x, exponent),
    "powsum": lambda x, ord=2, dtype=None: x.to(dtype or x.dtype).abs().pow(ord).sum(),
}
_IN_PLACE = {
    "addcdiv": lambda x, a, b, value=1: x.addcdiv_(a, b, value=value),
    "addcmul": lambda x, a, b, value=1: x.addcmul_(a, b, value=value),
    "maximum": lambda x, other: x.clamp_min_(other),
    "minimum": lambda x, other: x.clamp_max_(other),
}
# As the tensor's own methods.
_PLAIN = ("add", "clamp_max", "clamp_min", "copy", "div", "lerp", "mm", "mul", "sub")
# What the lists' arguments are called, and those of one tensor.
_KEYWORDS = {
    "addcdiv": {"tensor1": "a", "tensor2": "b", "scalars": "value"},
    "addcmul": {"tensor1": "a", "tensor2": "b", "scalars": "value"},
    "clamp_max": {"scalar": "max", "scalars": "max", "other": "max"},
    "clamp_min": {"scalar": "min", "scalars": "min", "other": "min"},
    "lerp": {"tensors1": "end"},
}
_NUMBER = {"scalar": "other", "scalars": "other"}


def _one(name):
    """What is done with one tensor; None if there is no such operation."""
    base, in_place = name.removesuffix("_"), name.endswith("_")
    if base not in (*_UNARY, *_PLAIN, *_SPECIAL) or in_place and base in _OUT_OF_PLACE_ONLY:
        return None
    if not in_place:
        if base in _IN_PLACE_ONLY:
            return None
        return _SPECIAL.get(base) or getattr(rushlight.Tensor, base)
    return _IN_PLACE.get(base) or getattr(rushlight.Tensor, name)


def _numbers(given, count):
    """A tensor of numbers, one for each tensor of the list, as a list."""
    if not isinstance(given, rushlight.Tensor):
        return given
    if given.dim() != 1:
        raise RuntimeError(
            f"Expected packed scalar Tensor to be of dimension 1. Got {given.dim()} instead."
        )
    if len(given) != count:
        raise RuntimeError(
            f"Expected length of scalars to match input of length {count} but got {len(given)} "
            "instead."
        )
    return given.tolist()


def _check_lengths(name, lists):
    first = lists[0] if lists else ()
    if not first:
        raise RuntimeError(f"_foreach_{name}: Tensor list must have at least one tensor.")
    for other in lists[1:]:
        if len(other) == len(first):
            continue
        if other and isinstance(other[0], rushlight.Tensor):
            raise RuntimeError(
                f"_foreach_{name}: Tensor lists must have the same number of tensors, got "
                f"{len(first)} and {len(other)}"
            )
        raise RuntimeError(
            f"_foreach_{name}: Tensor list must have same number of elements as scalar list. Got "
            f"{len(first)} and {len(other)}"
        )


def _on_lists(name, one):
    base = name.removesuffix("_")
    names = _KEYWORDS.get(base, _NUMBER)

    def function(self, *args, **kwargs):
        lists = [a for a in (self, *args, *kwargs.values()) if isinstance(a, (list, tuple))]
        count = len(lists[0]) if lists else 0
        if base in ("addcdiv", "addcmul"):
            args = (*args[:2], *(_numbers(a, count) for a in args[2:]))
            if "scalars" in kwargs:
                kwargs["scalars"] = _numbers(kwargs["scalars"], count)
        _check_lengths(name, lists)
        columns = [a if isinstance(a, (list, tuple)) else repeat(a, count) for a in (self, *args)]
        if kwargs:
            rows = zip(*(v if isinstance(v, (list, tuple)) else repeat(v) for v in kwargs.values()))
            keys = [names.get(k, k) for k in kwargs]
            results = tuple(one(*x, **dict(zip(keys, row))) for *x, row in zip(*columns, rows))
        else:
            results = tuple(map(one, *columns))
        return self if name.endswith("_") else results

    function.__name__ = function.__qualname__ = f"_foreach_{name}"
    function.__doc__ = f"`{name}` of each tensor, with numbers or lists of arguments."
    return function


def __getattr__(name: str) -> Any:
    base = name.removeprefix("_foreach_")
    one = _one(base) if base != name else None
    if one is None:
        raise AttributeError(f"module 'rushlight' has no attribute {name!r}")
    value = globals()[name] = _on_lists(base, one)
    return value
