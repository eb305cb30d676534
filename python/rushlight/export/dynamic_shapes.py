"""Which sizes of the inputs of a program may change."""

from __future__ import annotations

import inspect

from rushlight import Tensor
from rushlight.utils._pytree import tree_flatten, tree_unflatten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any


class _Hint:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Dim.{self.name}"


class Dim:
    """A size that may change; the same Dim in several places is the same size.

    Args:
        name: how messages and printed graphs call it.
        min, max: its range, both included.

    `Dim.AUTO` lets the program decide whether a size may change, `Dim.DYNAMIC` says that it must,
    `Dim.STATIC` that it does not.

    Example:
        >>> from rushlight.export import Dim
        >>> 2 * Dim("half", min=1)
        2*half
    """

    AUTO: _Hint = _Hint("AUTO")
    DYNAMIC: _Hint = _Hint("DYNAMIC")
    STATIC: _Hint = _Hint("STATIC")

    min: int
    max: int | None
    root: Dim
    factor: int
    offset: int

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        if not (isinstance(name, str) and name.isidentifier()):
            raise ValueError(f"Dim: name must be an identifier, got {name!r}")
        self.min = 0 if min is None else min
        self.max = max
        if max is not None and max < self.min:
            raise ValueError(f"Dim: {name}: min {self.min} is more than max {max}")
        self.__name__ = name
        self.root, self.factor, self.offset = self, 1, 0

    def _derived(self, factor: int, offset: int) -> Dim:
        new = object.__new__(Dim)
        new.root, new.factor, new.offset = self.root, factor, offset
        new.min = self.root.min * factor + offset
        new.max = None if self.root.max is None else self.root.max * factor + offset
        name = self.root.__name__ if factor == 1 else f"{factor}*{self.root.__name__}"
        new.__name__ = name + (f" + {offset}" if offset > 0 else f" - {-offset}" if offset else "")
        return new

    def __add__(self, other: int) -> Dim:
        return self._derived(self.factor, self.offset + _integer(other, "+"))

    def __sub__(self, other: int) -> Dim:
        return self._derived(self.factor, self.offset - _integer(other, "-"))

    def __mul__(self, other: int) -> Dim:
        other = _integer(other, "*")
        if other <= 0:
            raise NotImplementedError(f"Dim: can only be multiplied by a positive int, got {other}")
        return self._derived(self.factor * other, self.offset * other)

    def __radd__(self, other: int) -> Dim:
        return self + other

    def __rmul__(self, other: int) -> Dim:
        return self * other

    def __repr__(self) -> str:
        return self.__name__


def _integer(v, sign):
    if isinstance(v, bool) or not isinstance(v, int):
        raise NotImplementedError(f"Dim: {sign} takes an int, got {type(v).__name__}")
    return v


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Several Dims at once."""
    return tuple(Dim(name, min=min, max=max) for name in names)


class ShapesCollection:
    """Dynamic shapes by the tensors themselves: `shapes[x] = {0: dim}`."""

    def __init__(self) -> None:
        self._of = {}

    def __setitem__(self, tensor: Tensor | int, shape: Any) -> None:
        if not isinstance(tensor, (Tensor, int)):
            raise TypeError(f"ShapesCollection: takes tensors, got {type(tensor).__name__}")
        self._of[id(tensor)] = (tensor, shape)

    def __getitem__(self, tensor: Tensor | int) -> Any:
        return self._of[id(tensor)][1]

    def __len__(self) -> int:
        return len(self._of)

    def dynamic_shapes(
        self, m: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The same in the shape of the arguments."""
        leaves, spec = tree_flatten((tuple(args), dict(kwargs or {})))
        found = [self._of.get(id(leaf), (None, None))[1] for leaf in leaves]
        args, kwargs = tree_unflatten([_Leaf(f) for f in found], spec)
        return {**dict(zip(_names(m), args)), **kwargs}


class _Leaf:
    def __init__(self, spec):
        self.spec = spec


def _names(function):
    function = getattr(function, "forward", function)
    return list(inspect.signature(function).parameters)


def specs_of(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
) -> Any:
    """For each leaf of (args, kwargs): None, or for a tensor a list with an entry for each dim."""
    leaves, _ = tree_flatten((args, kwargs))
    if dynamic_shapes is None:
        return [None] * len(leaves)
    if isinstance(dynamic_shapes, ShapesCollection):
        dynamic_shapes = dynamic_shapes.dynamic_shapes(function, args, kwargs)
    values = [*args, *kwargs.values()]
    if isinstance(dynamic_shapes, dict):
        names = [*_names(function)[: len(args)], *kwargs]
        star = next((n for n, p in inspect.signature(
            getattr(function, "forward", function)).parameters.items()
            if p.kind is p.VAR_POSITIONAL), None)  # fmt: skip
        if star in dynamic_shapes:
            shapes = dict(dynamic_shapes)
            given = shapes.pop(star)
            listed = [shapes.get(n) for n in _names(function) if n in shapes]
            shapes = [*listed, *given]
            shapes += [dynamic_shapes.get(n) for n in kwargs]
        else:
            unknown = set(dynamic_shapes) - set(names)
            if unknown:
                raise ValueError(
                    f"export: dynamic_shapes names {sorted(unknown)}, the arguments are {names}"
                )
            shapes = [dynamic_shapes.get(n) for n in names]
    elif isinstance(dynamic_shapes, (tuple, list)):
        shapes = list(dynamic_shapes)
        if len(shapes) == len(args) and kwargs:
            shapes += [None] * len(kwargs)
    else:
        raise TypeError(
            "export: dynamic_shapes must be a dict, tuple or list, got "
            f"{type(dynamic_shapes).__name__}"
        )
    if len(shapes) != len(values):
        raise ValueError(
            f"export: dynamic_shapes has {len(shapes)} entries for {len(values)} arguments"
        )
    found = []
    for value, shape in zip(values, shapes):
        _collect(value, shape, found)
    return found


def _collect(value, shape, found):
    if isinstance(shape, _Leaf):
        shape = shape.spec
    if isinstance(value, Tensor):
        found.append(_of_tensor(value, shape))
        return
    leaves, spec = tree_flatten(value)
    if spec.is_leaf():
        if isinstance(shape, (Dim, _Hint)) and type(value) is not int:
            raise ValueError(f"export: dynamic_shapes: {shape} for a {type(value).__name__}")
        found.append(shape if isinstance(shape, (Dim, _Hint)) else None)
        return
    if shape is None:
        found += [None] * len(leaves)
        return
    if isinstance(value, dict):
        children = [(value[k], shape.get(k)) for k in value]
    else:
        children = list(zip(value, shape, strict=True))
    for part, of_part in children:
        _collect(part, of_part, found)


def _of_tensor(x, shape):
    if shape is None:
        return None
    if isinstance(shape, dict):
        entries = [None] * x.dim()
        for dim, entry in shape.items():
            if not -x.dim() <= dim < x.dim():
                raise ValueError(
                    f"export: dynamic_shapes: dim {dim} of a tensor of shape {tuple(x.shape)}"
                )
            entries[dim] = entry
    else:
        entries = list(shape)
        if len(entries) != x.dim():
            raise ValueError(
                f"export: dynamic_shapes: {len(entries)} entries for a tensor of shape "
                f"{tuple(x.shape)}"
            )
    for size, entry in zip(x.shape, entries):
        if isinstance(entry, int) and not isinstance(entry, bool):
            if entry != size:
                raise ValueError(
                    f"export: dynamic_shapes says size {entry}, the example has {size}"
                )
        elif entry is not None and not isinstance(entry, (Dim, _Hint)):
            raise TypeError(f"export: dynamic_shapes: {entry!r} is no Dim, int or None")
        if isinstance(entry, Dim) and not (
            entry.min <= size and (entry.max is None or size <= entry.max)
        ):
            raise ValueError(
                f"export: the example's size {size} is outside of {entry}'s range "
                f"[{entry.min}, {'inf' if entry.max is None else entry.max}]"
            )
    return [None if isinstance(e, int) or e is Dim.STATIC else e for e in entries]
