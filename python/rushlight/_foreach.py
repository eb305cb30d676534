"""Operations on lists of tensors, `torch._foreach_add_(parameters, gradients)`: one after another,
as an operation on its own costs little here.
"""

from __future__ import annotations

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


def _maximum(x, other):
    other = other if isinstance(other, rushlight.Tensor) else x.new_tensor(other)
    return rushlight.maximum(x, other)


def _minimum(x, other):
    other = other if isinstance(other, rushlight.Tensor) else x.new_tensor(other)
    return rushlight.minimum(x, other)


# Out of place; the form in place copies their result.
_SPECIAL = {
    "addcdiv": lambda x, a, b, value=1: rushlight.addcdiv(x, a, b, value=value),
    "addcmul": lambda x, a, b, value=1: rushlight.addcmul(x, a, b, value=value),
    "clamp_max": _minimum,
    "clamp_min": _maximum,
    "max": lambda x: x.max(),
    "maximum": _maximum,
    "minimum": _minimum,
    "norm": lambda x, ord=2, dtype=None: rushlight.linalg.vector_norm(x, ord, dtype=dtype),
    "pow": lambda x, exponent: rushlight.pow(x, exponent),
    "powsum": lambda x, ord=2, dtype=None: x.to(dtype or x.dtype).abs().pow(ord).sum(),
}
_IN_PLACE = {
    "addcdiv": lambda x, a, b, value=1: x.addcdiv_(a, b, value=value),
    "addcmul": lambda x, a, b, value=1: x.addcmul_(a, b, value=value),
}
_PLAIN = ("add", "copy", "div", "lerp", "mm", "mul", "sub")  # as the tensor's own methods


def _one(name):
    """What is done with one tensor; None if there is no such operation."""
    base, in_place = name.removesuffix("_"), name.endswith("_")
    if base not in (*_UNARY, *_PLAIN, *_SPECIAL) or in_place and base in _OUT_OF_PLACE_ONLY:
        return None
    if not in_place and base in _IN_PLACE_ONLY:
        return None
    if not in_place:
        return _SPECIAL.get(base) or getattr(rushlight.Tensor, base)
    if base in _IN_PLACE:
        return _IN_PLACE[base]
    if base in _SPECIAL:
        return lambda x, *args: x.copy_(_SPECIAL[base](x, *args))
    return getattr(rushlight.Tensor, name)


def _on_lists(name, one):
    def function(self, *args, **kwargs):
        given = (self, *args, *kwargs.values())
        sizes = {len(a) for a in given if isinstance(a, (list, tuple))}
        if len(sizes) != 1:
            raise RuntimeError(
                f"_foreach_{name}: expected lists of one length, got {sorted(sizes)}"
            )

        def at(i, value):
            return value[i] if isinstance(value, (list, tuple)) else value

        results = tuple(
            one(at(i, self), *(at(i, a) for a in args), **{k: at(i, v) for k, v in kwargs.items()})
            for i in range(*sizes)
        )
        return list(self) if name.endswith("_") else results

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
