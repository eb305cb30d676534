"""Which sizes of the inputs of a program may change."""

from __future__ import annotations

import inspect
import re

from rushlight import Tensor
from rushlight.utils._pytree import SUPPORTED_NODES, tree_flatten, tree_unflatten

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


Constraint = Dim  # a range of a size, for annotations


class AdditionalInputs:
    """Dynamic shapes by examples: sizes that differ between them may change.

    Example:
        >>> shapes = torch.export.AdditionalInputs()
        >>> shapes.add((torch.ones(5, 3),))
        >>> shapes.dynamic_shapes(lambda x: x, (torch.ones(2, 3),))
        {'x': [Dim.DYNAMIC, None]}
    """

    def __init__(self) -> None:
        self._examples: list[tuple[Any, Any]] = []

    def add(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> None:
        """Add an example of the arguments."""
        if type(args) is not tuple:
            raise AssertionError(f"AdditionalInputs: args must be a tuple, got {args!r}")
        if kwargs is not None and type(kwargs) is not dict:
            raise AssertionError(f"AdditionalInputs: kwargs must be a dict, got {kwargs!r}")
        self._examples.append((args, kwargs))

    def dynamic_shapes(
        self, m: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The dynamic shapes of the arguments.

        Raises: ValueError if examples differ in something else than sizes and ints.
        """
        leaves, spec = tree_flatten((tuple(args), dict(kwargs or {})))
        others = [tree_flatten((a, dict(k or {}))) for a, k in self._examples]
        if any(other_spec != spec for _, other_spec in others):
            raise ValueError("AdditionalInputs: the examples are of different structure")
        found = [
            _Leaf(_differing(leaf, [o[place] for o, _ in others]))
            for place, leaf in enumerate(leaves)
        ]
        args, kwargs = tree_unflatten(found, spec)
        return _without_leaves({**dict(zip(_names(m), args)), **kwargs})

    def verify(self, ep: Any) -> None:
        """Raise GuardError if a program cannot take one of the examples."""
        for args, kwargs in self._examples:
            ep.flat_inputs(args, dict(kwargs or {}))


def _differing(value, others):
    """Which sizes of a tensor, or whether an int, differs between examples."""
    if any(type(other) is not type(value) for other in others):
        raise ValueError(f"AdditionalInputs: an input is of different types: {(value, *others)}")
    if isinstance(value, Tensor):
        if any(other.dim() != value.dim() for other in others):
            raise ValueError("AdditionalInputs: an input has different numbers of dims")
        return [
            Dim.DYNAMIC if any(other.size(d) != n for other in others) else None
            for d, n in enumerate(value.shape)
        ]
    same = all(other == value for other in others)
    if not same and type(value) is int:
        return Dim.DYNAMIC
    if not same:
        raise ValueError(f"AdditionalInputs: an input has different values: {(value, *others)}")
    return None


def _without_leaves(tree):
    if isinstance(tree, _Leaf):
        return tree.spec
    if isinstance(tree, dict):
        return {k: _without_leaves(v) for k, v in tree.items()}
    return type(tree)(map(_without_leaves, tree)) if isinstance(tree, (list, tuple)) else tree


_RANGE = re.compile(r"(\w+) = Dim\('\w+'(?:, min=(\d+))?(?:, max=(\d+))?\)")
_RELATION = re.compile(r"(\w+) = (?:(\d+)\*)?(\w+)(?: ([+-]) (\d+))?")


def _fix_of(line):
    """(name, its size or Dim, or (factor, name of the root, offset)) of a suggested fix."""
    found = _RANGE.fullmatch(line)
    if found:
        least, most = (None if n is None else int(n) for n in found.groups()[1:])
        return found[1], Dim(found[1], min=least, max=most)
    found = _RELATION.fullmatch(line)
    if found is None:
        raise ValueError(f"refine_dynamic_shapes_from_suggested_fixes: cannot read {line!r}")
    name, factor, root, sign, offset = found.groups()
    if root.isdigit():
        return name, int(root)
    return name, (int(factor or 1), root, int(f"{sign or ''}{offset or 0}"))


def refine_dynamic_shapes_from_suggested_fixes(msg: str, dynamic_shapes: Any) -> Any:
    """The dynamic shapes with the fixes that a message of torch's export suggests.

    Args:
        msg: a message with the line "Suggested fixes:" and behind it lines as
            "dx = Dim('dx', min=3, max=6)", "dx = 4" and "dy = dx + 1".
        dynamic_shapes: what was given to `export`.

    Raises: ValueError if there are no such lines.
    """
    _, found, text = msg.partition("Suggested fixes:")
    if not found:
        raise ValueError("refine_dynamic_shapes_from_suggested_fixes: msg suggests no fixes")
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    fixes, dims = dict(map(_fix_of, lines)), {}

    def collect(tree):
        if isinstance(tree, Dim):
            dims[tree.root.__name__] = tree.root
        elif isinstance(tree, dict):
            list(map(collect, tree.values()))
        elif isinstance(tree, (list, tuple)):
            list(map(collect, tree))

    def fixed(name):
        fix = fixes.get(name, dims.get(name))
        if isinstance(fix, tuple):
            factor, root, offset = fix
            fix = factor * fixed(root) + offset if factor != 1 else fixed(root) + offset
        return fix

    def replaced(tree):
        if isinstance(tree, Dim):
            root = fixed(tree.root.__name__)
            scaled = root if tree.factor == 1 else root * tree.factor
            return scaled + tree.offset if tree.offset else scaled
        if isinstance(tree, dict):
            return {k: replaced(v) for k, v in tree.items()}
        return type(tree)(map(replaced, tree)) if isinstance(tree, (list, tuple)) else tree

    collect(dynamic_shapes)
    return replaced(dynamic_shapes)


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
    if isinstance(dynamic_shapes, (ShapesCollection, AdditionalInputs)):
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
    elif not isinstance(value, (list, tuple)):  # of a class that is registered with pytree
        flatten = SUPPORTED_NODES[type(value)].flatten_fn
        shapes = flatten(shape)[0] if type(shape) is type(value) else shape
        children = list(zip(flatten(value)[0], shapes, strict=True))
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
