"""vmap: a function of one example becomes a function of many, each operation computed once for all.

Within a call of the mapped function, a tensor that has one value per example is represented by a
stand-in: a tensor of the shape, dtype and device that one example has. The examples themselves lie
in a tensor with one more dim, the first, which the level of the call remembers with the stand-in.
A function mode sees every operation and computes it on these, by the rules of `_batching`; where
there is no rule, example by example. Levels nest: to an outer level, the tensors of an inner one
are tensors like others.
"""

from __future__ import annotations

import functools
import threading
import weakref
from typing import NamedTuple

import rushlight
from rushlight import _C, Tensor
from rushlight._ignored import warn_program
from rushlight.func import _batching
from rushlight.nn import Parameter
from rushlight.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, ParamSpec, TypeVar

    _P = ParamSpec("_P")
    _R = TypeVar("_R")


class _Loops:
    """Whether operations without a rule may be computed example by example, and are warned of."""

    def __init__(self) -> None:
        self.allowed, self.warned_of = True, False

    def ask(self, name: str) -> None:
        if not self.allowed:
            raise RuntimeError(
                f"vmap: {name}() has no rule, and torch._C._functorch._set_vmap_fallback_enabled "
                "was told that nothing is to be computed example by example"
            )
        if self.warned_of:
            warn_program(
                f"There is a performance drop because {name}() has no rule for vmap, and is "
                "computed example by example"
            )


loops = _Loops()
_active = threading.local()  # .levels: those of this thread, the innermost last
_C._are_functorch_transforms_active = lambda: bool(getattr(_active, "levels", ()))


class Level:
    """One call of a mapped function: which tensors stand for many.

    Args:
        size: the number of examples.
        randomness: "error", "same" or "different", as vmap takes it.
    """

    def __init__(self, size: Sequence[int], randomness: str) -> None:
        self.size, self.randomness = size, randomness
        self._stand_ins: list[Any] = []

    def examples(self, value: Any) -> Any:
        """The tensor of all examples for which `value` stands; None if it is the same in all."""
        marks = value.__dict__.get("_examples") if isinstance(value, Tensor) else None
        return None if marks is None else marks.get(self)

    def batched_tensor(self, examples: Tensor) -> Tensor:
        """A tensor that stands for `examples`, of which the first dim counts them."""
        # Only its shape and dtype count: were it computed by the levels around, each would make a
        # stand-in of its own, and so twice as many as the level outside it.
        with _C.DisableTorchFunction():
            if self.size:
                one = examples.select(0, 0)
            else:
                one = examples.new_empty(examples.shape[1:])
        one.__dict__["_examples"] = {self: examples}
        self._stand_ins.append(weakref.ref(one))
        return one

    def forget(self) -> None:
        """The call is over: what a program still has of it shows no elements, which were those of
        the first example."""
        for reference in self._stand_ins:
            one = reference()
            if one is not None:
                with _C.DisableTorchFunction(), rushlight.no_grad():
                    one.data = rushlight.empty(one.shape, dtype=one.dtype, device="meta")

    def all_examples(self, value: Any) -> Tensor:
        """As `examples`; of what is the same in all examples, so many views."""
        found = self.examples(value)
        return value.expand(self.size, *value.shape) if found is None else found

    def slices(self, tree: Sequence[Any]) -> Iterator[Any]:
        """One copy of `tree` for each example."""
        leaves, structure = tree_flatten(tree)
        found = [self.examples(leaf) for leaf in leaves]
        for i in range(self.size):
            yield tree_unflatten(
                [leaf if f is None else f.select(0, i) for leaf, f in zip(leaves, found)], structure
            )

    def changes_its_first(self, func: Callable[..., Any], args: Any) -> bool:
        """Does `func` write into its first argument? Refused where all examples share that."""
        name = func.__name__
        if not (name.endswith("_") and not name.endswith("__")) and name != "__setitem__":
            return False
        if self.examples(args[0]) is None:
            raise RuntimeError(
                f"vmap: inplace arithmetic(self, *extra_args) is not possible: {name}() would "
                "write a value for each example into a tensor that all share; use the form "
                "without _, or expand the tensor for the examples"
            )
        return True

    def run_inside(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """A function whose operations this level sees."""
        _C._push_torch_function_mode(_Mode(self))
        try:
            return function(*args, **kwargs)
        finally:
            _C._pop_torch_function_mode()

    def loop_fallback(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """`func` as the operations that it is made of, where these have rules; else called for each
        example, and the results stacked.
        """
        in_place = self.changes_its_first(func, args)
        if self.size and not in_place and type(func) in _OF_THE_CORE:
            result = self._composed(func, args, kwargs)
            if result is not None:
                return result
        loops.ask(func.__name__)
        results = [func(*a, **k) for a, k in self.slices((args, kwargs))]
        columns, structure = [], None
        for result in results:
            leaves, structure = tree_flatten(result)
            columns.append(leaves)
        if structure is None:
            raise RuntimeError(
                f"vmap: {func.__name__}() has no rule for no examples; map over at least one"
            )
        if in_place:
            return args[0]  # each example was changed where it lies
        return tree_unflatten([self._joined(func, leaves) for leaves in zip(*columns)], structure)

    def _composed(self, func, args, kwargs):
        """In terms of operations, or None where one of them has no rule."""
        if _C._len_torch_function_stack():
            return None  # levels and modes around see functions of Python alone
        leaves, structure = tree_flatten((args, kwargs))
        found = [self.examples(leaf) for leaf in leaves]
        if any(type(f) not in _PLAIN for f in found if f is not None):
            return None
        from rushlight.func._gradient_batch import GradientLevel

        level = GradientLevel(self.size)
        given = [leaf if f is None else level.batched_tensor(f) for leaf, f in zip(leaves, found)]
        args, kwargs = tree_unflatten(given, structure)
        pairs = [(one, f) for one, f in zip(given, found) if f is not None]

        def call():
            results, structure = tree_flatten(func(*args, **kwargs))
            wholes = [_C._stands_for(r) if isinstance(r, Tensor) else None for r in results]
            return results, wholes, structure

        try:
            results, wholes, structure = _C._in_batch(level, self.size, pairs, call)
        except Exception:  # an operation without a rule, or what every example raises too
            return None
        results = [r if w is None else self.batched_tensor(w) for r, w in zip(results, wholes)]
        return tree_unflatten(results, structure)

    def _joined(self, func, leaves):
        if isinstance(leaves[0], Tensor):
            return self.batched_tensor(rushlight.stack(leaves))
        if any(leaf != leaves[0] for leaf in leaves):
            raise RuntimeError(
                f"vmap: {func.__name__}() gives each example another {type(leaves[0]).__name__}, "
                "on which the program cannot depend"
            )
        return leaves[0]


_PLAIN = (Tensor, Parameter)  # classes that take over no operation
# Of functions whose operations are the core's: nobody else sees a stand-in without elements.
_OF_THE_CORE = {type(rushlight.sin), type(Tensor.sin), type(_C._functions["nn.functional"]["fold"])}


def level_of(number):
    """The level with a number: the outermost is 1."""
    return _active.levels[number - 1]


def unwrapped(tensor):
    """The tensor of all examples for which one stands in the innermost level that knows it."""
    for level in reversed(getattr(_active, "levels", ())):
        if level.examples(tensor) is not None:
            return level.examples(tensor)
    raise RuntimeError("get_unwrapped: the tensor stands for no others")


def _is_collection(value):
    """Is it of a class, as tensordict's, that divides the tensors in it among examples itself?"""
    return not isinstance(value, Tensor) and hasattr(type(value), "_maybe_remove_batch_dim")


def _flatten(tree):
    return tree_flatten(tree, _is_collection)


def is_batched(tensor):
    """Does it stand for the examples of a mapped function that is running?"""
    return any(level.examples(tensor) is not None for level in getattr(_active, "levels", ()))


def lift(tensor):
    """`tensor` with a value of its own in each example of the calls of mapped functions around.

    What is differentiated within must have one: its gradient differs from example to example.
    """
    return _lifted(tensor, getattr(_active, "levels", ()))


def _lifted(tensor, levels):
    if not levels:
        return tensor
    *around, innermost = levels
    found = innermost.examples(tensor)
    lifted = _lifted(innermost.all_examples(tensor) if found is None else found, around)
    return tensor if lifted is found else innermost.batched_tensor(lifted)


class VmapInfo(NamedTuple):
    """What a Function's own rule is told of the mapped call."""

    batch_size: int
    randomness: str


def by_rule_of_program(
    level: Level, name: str, rule: Callable[..., Any], args: Any, **kwargs: Any
) -> Any:
    """The results of a custom operation, by the rule that it has for all examples."""
    leaves, structure = tree_flatten(tuple(args))
    found = [level.examples(leaf) for leaf in leaves]
    in_dims = tree_unflatten([None if f is None else 0 for f in found], structure)
    given = tree_unflatten([a if f is None else f for a, f in zip(leaves, found)], structure)
    returned = rule(VmapInfo(level.size, level.randomness), in_dims, *given, **kwargs)
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise RuntimeError(
            f"{name}: expected the rule for vmap to have two returns, the output and its dims, but "
            f"got {type(returned).__name__}"
        )
    output, out_dims = returned
    outputs, shape = tree_flatten(output)
    return tree_unflatten(
        [
            one if d is None else level.batched_tensor(one.movedim(d, 0) if d else one)
            for one, d in zip(outputs, _output_dims(out_dims, output, outputs))
        ],
        shape,
    )


class _Mode:
    """Sees every operation of its thread while a mapped function runs."""

    def __init__(self, level: int) -> None:
        self._level = level

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type[Any]],
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        return _batching.compute(self._level, func, args, kwargs or {})

    def apply_function(self, cls: Any, args: Any) -> Tensor:
        """Of a custom Function: by its own rule, or for each example."""
        level = self._level
        if all(level.examples(leaf) is None for leaf in tree_leaves(args)):
            return cls.apply(*args)
        base = rushlight.autograd.Function
        if cls.vmap is not base.vmap:
            return self._by_its_own_rule(cls, args)
        if cls.generate_vmap_rule and cls.setup_context is not base.setup_context:
            from rushlight.func._mapped_function import apply_mapped

            return apply_mapped(level, cls, args)

        def apply(*arguments):
            return cls.apply(*arguments)

        return level.loop_fallback(apply, args, {})

    def _by_its_own_rule(self, cls, args):
        if cls.generate_vmap_rule:
            raise RuntimeError(
                f"{cls.__name__} has generate_vmap_rule=True and a vmap method: leave one out"
            )
        return by_rule_of_program(self._level, f"{cls.__name__}.vmap", cls.vmap, args)


def vmap(
    func: Callable[_P, _R],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[_P, _R]:
    """A function that maps `func`, which takes one example, over a dim of its inputs.

    Operations are computed for all examples at once; those without a rule (few) example by example.

    Args:
        in_dims: the dim of each input that counts the examples: one for all inputs, or nested as
            they are; None passes an input whole. Keyword arguments are passed whole too.
        out_dims: the dim of each output that counts the examples; nested as the outputs are.
        randomness: "error" refuses random operations, "same" gives every example the same numbers,
            "different" gives each its own.
        chunk_size: the most examples to compute at once.

    Raises:
        ValueError: in_dims does not fit the inputs, or they differ in size there.
        RuntimeError: `func` uses random numbers where randomness is "error", or the value of a
            mapped tensor (`item`, `if x:`).

    Example:
        >>> dot = rushlight.func.vmap(rushlight.dot)
        >>> dot(rushlight.ones(3, 4), rushlight.ones(3, 4))
        tensor([4., 4., 4.])
    """
    if randomness not in ("error", "same", "different"):
        raise RuntimeError(
            "Only allowed values for randomness are 'error', 'different', or 'same'. "
            f"Got {randomness}"
        )
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def mapped(*args, **kwargs):
        flat, structure = _flatten((args, kwargs))
        dims = _input_dims(in_dims, args, flat)
        size = _number_of_examples(flat, dims)
        if not chunk_size or chunk_size >= size:
            return _mapped_once(func, structure, flat, dims, size, out_dims, randomness)
        pieces = []
        state = rushlight.get_rng_state() if randomness == "same" else None
        for begin in range(0, size, chunk_size):
            if state is not None:  # for all examples, not for those of one piece
                rushlight.set_rng_state(state)
            count = min(chunk_size, size - begin)
            part = [t if d is None else t.narrow(d, begin, count) for t, d in zip(flat, dims)]
            pieces.append(_mapped_once(func, structure, part, dims, count, out_dims, randomness))
        columns = [_flatten(p) for p in pieces]
        places = _output_dims(out_dims, pieces[0], columns[0][0])
        joined = [
            rushlight.cat(c, p) for c, p in zip(zip(*(leaves for leaves, _ in columns)), places)
        ]
        return tree_unflatten(joined, columns[0][1])

    return mapped


def chunk_vmap(
    func: Callable[..., Any],
    in_dims: int = 0,
    out_dims: int = 0,
    randomness: str = "error",
    chunks: int = 2,
) -> Callable[..., Any]:
    """`vmap` in so many pieces of the examples, one after the other."""

    @functools.wraps(func)
    def mapped(*args, **kwargs):
        flat = _flatten((args, kwargs))[0]
        size = _number_of_examples(flat, _input_dims(in_dims, args, flat))
        each = max(1, -(-size // chunks))
        return vmap(func, in_dims, out_dims, randomness, chunk_size=each)(*args, **kwargs)

    return mapped


def _mapped_once(func, structure, flat, dims, size, out_dims, randomness):
    level = Level(size, randomness)
    levels = _active.__dict__.setdefault("levels", [])
    levels.append(level)
    try:
        given = [_example(level, len(levels), t, d) for t, d in zip(flat, dims)]
        args, kwargs = tree_unflatten(given, structure)
        _C._push_torch_function_mode(_Mode(level))
        try:
            result = func(*args, **kwargs)
        finally:
            _C._pop_torch_function_mode()
        return _together(level, len(levels), func, result, out_dims)
    finally:
        levels.pop()
        result = args = kwargs = given = None  # these would be among what the program has
        level.forget()


def _example(level, number, value, dim):
    """What stands for one of the examples that a dim of an input counts."""
    if dim is None:
        return value
    if _is_collection(value):
        return value._add_batch_dim(in_dim=dim, vmap_level=number)
    return level.batched_tensor(value if dim == 0 else value.movedim(dim, 0))


def _together(level, number, func, result, out_dims):
    """The result of all examples, of that for one of them."""
    leaves, structure = _flatten(result)
    name = getattr(func, "__name__", func)
    places = _output_dims(out_dims, result, leaves)
    for leaf, place in zip(leaves, places):
        if not (place is None or isinstance(leaf, Tensor) or _is_collection(leaf)):
            raise ValueError(f"vmap({name}, ...): must only return Tensors, got type {type(leaf)}")
    outputs = []
    for leaf, place in zip(leaves, places):
        if _is_collection(leaf):
            outputs.append(leaf._maybe_remove_batch_dim(name, number, level.size, place))
        elif place is None:
            if level.examples(leaf) is not None:
                raise ValueError(
                    "vmap: can not return a BatchedTensor when out_dim is None: the output has a "
                    "value for each example"
                )
            outputs.append(leaf)
        else:
            found = level.all_examples(leaf)
            outputs.append(found if place == 0 else found.movedim(0, place))
    return tree_unflatten(outputs, structure)


def _input_dims(in_dims, args, flat):
    """The dim that counts examples, for each leaf of `flat`; None for those that are given by name,
    after those of `args`."""
    if in_dims is None or isinstance(in_dims, int):
        dims = _spread(in_dims, args, "in_dims")
    elif isinstance(in_dims, (tuple, list)) and len(in_dims) == len(args):
        dims = [
            d for one, argument in zip(in_dims, args) for d in _spread(one, argument, "in_dims")
        ]
    else:
        entries = len(in_dims) if isinstance(in_dims, (tuple, list)) else in_dims
        raise ValueError(
            "vmap: expected `in_dims` to be int or a (potentially nested) tuple: in_dims is not "
            f"compatible with the structure of `inputs`, which are {len(args)}, but in_dims has "
            f"{entries}"
        )
    dims += [None] * (len(flat) - len(dims))
    result = []
    for leaf, d in zip(flat, dims):
        if d is None:
            result.append(None)
            continue
        if not (isinstance(leaf, Tensor) or _is_collection(leaf)):
            raise ValueError(
                f"vmap: Got in_dim={d} for an input but the input is of type {type(leaf)}. Only "
                "tensors have examples to map over: its in_dim should be None"
            )
        rank = leaf.dim()
        if not -rank <= d < rank:
            raise ValueError(
                f"vmap: Got in_dim={d} for some input, but that input is a Tensor of "
                f"dimensionality {rank} so expected in_dim to satisfy -{rank} <= in_dim < {rank}."
            )
        result.append(d % rank)
    return result


def _spread(dims, tree, what):
    """`dims`, which may be nested as the first levels of `tree`, for each leaf of the tree."""
    if dims is None or isinstance(dims, int):
        return [dims] * len(tree_leaves(tree, _is_collection))
    if isinstance(dims, dict) and isinstance(tree, dict) and dims.keys() == tree.keys():
        return [d for name in tree for d in _spread(dims[name], tree[name], what)]
    if isinstance(dims, (tuple, list)) and isinstance(tree, (tuple, list)):
        if len(dims) == len(tree):
            return [d for one, part in zip(dims, tree) for d in _spread(one, part, what)]
    sides = "inputs" if what == "in_dims" else "outputs"
    if not isinstance(dims, (tuple, list, dict)):
        raise ValueError(
            f"vmap: `{what}` must be an int, None or a python collection of ints, nested as the "
            f"{sides}, but got {dims!r}"
        )
    raise ValueError(
        f"vmap: {what} is not compatible with the structure of `{sides}`: got {what} {dims} for "
        f"{tree_flatten(tree)[1]}"
    )


def _output_dims(out_dims, result, leaves):
    if isinstance(out_dims, (tuple, list)) and isinstance(result, Tensor) and len(out_dims) == 1:
        out_dims = out_dims[0]
    if out_dims is None or isinstance(out_dims, int):
        return [out_dims] * len(leaves)
    return _spread(out_dims, result, "out_dims")


def _number_of_examples(flat, dims):
    sizes = {t.shape[d] for t, d in zip(flat, dims) if d is not None}
    if not sizes:
        if not flat:
            raise ValueError("vmap: got no inputs, of which one at least is to be mapped")
        raise ValueError(
            "vmap: at least one Tensor must be mapped, but in_dims holds None alone for the inputs"
        )
    if len(sizes) > 1:
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, one for "
            f"each example; got sizes {sorted(sizes)}"
        )
    return sizes.pop()
