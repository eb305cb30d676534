"""Derivatives by running the function on fresh inputs and asking autograd."""

from __future__ import annotations

import contextlib
import functools

import rushlight
from rushlight import _C
from rushlight.autograd.function import Function, _transposing
from rushlight.func._vmap import lift
from rushlight.nn.utils import stateless
from rushlight.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, ParamSpec

    from rushlight import Tensor
    from rushlight.nn.modules.module import Module

    _P = ParamSpec("_P")


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: dict[str, Tensor] | Sequence[dict[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other tensors in place of its parameters and buffers, given by name."""
    given = _merged(parameter_and_buffer_dicts)
    args = () if args is None else args
    return stateless._functional_call(
        module, given, args, kwargs, tie_weights=tie_weights, strict=strict
    )


def _merged(given):
    if isinstance(given, dict):
        return given
    if not isinstance(given, (list, tuple)) or not all(isinstance(one, dict) for one in given):
        raise ValueError(
            "functional_call: Expected parameter_and_buffer_dicts to be a dict, or a list or tuple "
            f"of dicts, but got {type(given).__name__}"
        )
    merged = {name: tensor for one in given for name, tensor in one.items()}
    if len(merged) != sum(map(len, given)):
        twice = [name for name in merged if sum(name in one for one in given) > 1]
        raise ValueError(
            f"{twice} appeared in multiple dictionaries; behavior of functional call is ambiguous"
        )
    return merged


def stack_module_state(models: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters and buffers of modules of one kind, each stacked along a new first dim."""
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({model.training for model in models}) > 1:
        raise RuntimeError(
            "stack_module_state: Expected all models to have the same training/eval mode."
        )
    if len({type(model) for model in models}) > 1:
        kinds = sorted({type(model).__name__ for model in models})
        raise RuntimeError(
            f"stack_module_state: Expected all models to be of the same class, got {kinds}"
        )

    def stacked(states):
        states = [dict(s) for s in states]
        return {name: _stacked(name, [s[name] for s in states]) for name in states[0]}

    parameters = stacked([m.named_parameters() for m in models])
    return parameters, stacked([m.named_buffers() for m in models])


def _stacked(name, tensors):
    if len({t.requires_grad for t in tensors}) > 1:
        raise RuntimeError(
            f"stack_module_state: Expected {name} to have the same .requires_grad in all models"
        )
    together = rushlight.stack([t.detach() for t in tensors])
    return together.requires_grad_() if tensors[0].requires_grad else together


def _out_of_inference(call):
    """`call` where what it needs is recorded, and tensors of inference mode are copied."""

    def usable(value):
        is_of_inference = isinstance(value, rushlight.Tensor) and value.is_inference()
        return value.clone() if is_of_inference else value

    @functools.wraps(call)
    def outside(*args, **kwargs):
        if not rushlight.is_inference_mode_enabled():
            return call(*args, **kwargs)
        with rushlight.inference_mode(False), rushlight.no_grad():
            args, kwargs = tree_map(usable, (args, kwargs))
            return call(*args, **kwargs)

    return outside


class _Run:
    """One run of a function on inputs that are fresh in the graph: what can be asked of it.

    Args:
        name: of the transform, for errors.
        pushes: whether for forward derivatives, which `no_grad` does not concern; the function may
            change its inputs in place.
        args: the arguments; those at the places `argnums` are differentiated by.

    `output` and `aux` still carry this run's graph: `shown` gives what a caller may see.
    """

    def __init__(
        self,
        name: str,
        func: Callable[..., Any],
        args: Any,
        kwargs: Any,
        argnums: Sequence[int] | int,
        has_aux: bool,
        pushes: bool = False,
    ) -> None:
        self._inputs = []
        self._pushes = pushes
        self._level = _C._current_level() + 1
        args = list(args)
        places = _places(argnums, len(args))
        others = [argument for place, argument in enumerate(args) if place not in places]
        with self._entered(False):
            for place in places:
                leaves, structure = tree_flatten(args[place])
                leaves = [_fresh(leaf, self._level) for leaf in leaves]
                self._inputs.append((leaves, structure))
                given = [_Alias.apply(leaf) for leaf in leaves] if pushes else leaves
                args[place] = tree_unflatten(given, structure)
            pushed = Function._push_forward(True)
            if not pushes:  # for a run around it, if any
                Function._push_forward(pushed)
            lent = _lend(tree_leaves((others, kwargs)), self._level) if others or kwargs else ()
            try:
                output = func(*args, **kwargs)
            finally:
                Function._push_forward(pushed)
                for tensor, level in reversed(lent):
                    _C._set_level(tensor, level)
        if has_aux and not (isinstance(output, tuple) and len(output) == 2):
            raise RuntimeError(
                f"{name}: output of function f should be a tuple: (output, aux) if has_aux is "
                f"True, but is {type(output).__name__}"
            )
        self.output, self.aux = output if has_aux else (output, None)
        self.leaves = [leaf for leaves, _ in self._inputs for leaf in leaves]
        self._own = {id(t) for leaf in self.leaves for t in _with_examples(leaf)}

    @contextlib.contextmanager
    def _entered(self, is_pass):
        outer = _C._enter_level(self._level, self._pushes, is_pass)
        try:
            yield
        finally:
            _C._leave_level(outer)

    def shown(self, tree: Sequence[Any] | Tensor) -> Any:
        """`tree`, whose tensors carry a graph only where it leads out of this run: to an input of
        a transform around it, or to a tensor of the program's that requires a gradient."""
        leaves, structure = tree_flatten(tree)
        return tree_unflatten([self._shown(leaf) for leaf in leaves], structure)

    def _shown(self, leaf):
        if not isinstance(leaf, rushlight.Tensor):
            return leaf
        shown = leaf if not leaf.requires_grad or self.leads_out([leaf]) else leaf.detach()
        around = self._level - 1
        level = _C._set_level(shown, around)
        if level < around:  # it is of the outside
            _C._set_level(shown, level)
        return shown

    def leads_out(self, tensors: Sequence[Tensor]) -> bool:
        if not _C._records():  # whoever asks now wants no graph
            return False
        level = _C._current_level()
        return any(
            id(leaf) not in self._own and leaf.__dict__.get("_fresh_at", 0) <= level
            for leaf in _C._leaves_of([t for t in tensors if t.requires_grad])
        )

    def gradients(
        self,
        outputs: Any,
        weights: Sequence[Any],
        keep: bool,
        batched: bool = False,
        last: bool = False,
    ) -> Any:
        """Of the outputs, weighted, by each input; of a batch of weights, if `batched`.

        `keep`: record how they are computed. `last`: nobody will ask again.
        """
        moving = [(out, w) for out, w in zip(outputs, weights) if out.requires_grad]
        size = (len(weights[0]),) if batched else ()
        with self._entered(True):
            return _gradients(moving, self.leaves, size, keep, keep or not last)

    def like_inputs(self, flat: Sequence[Tensor]) -> Any:
        """One value for each leaf of the inputs, nested as these are."""
        flat = iter(flat)
        return tuple(
            tree_unflatten([next(flat) for _ in leaves], structure)
            for leaves, structure in self._inputs
        )

    def prepare_pushing(self) -> None:
        """The backward pass as a function of its weights, for `pushed`.

        u -> backward(u) is linear and its transpose is the Jacobian, so the derivative of that in
        the direction of the tangents is their product with the Jacobian.
        """
        outputs, self._structure = _tensors_of("jvp(f, primals, tangents)", self.output)
        with rushlight.enable_grad():
            self._weights = [rushlight.zeros_like(out).requires_grad_() for out in outputs]
            outer = _transposing.__dict__.get("active", False)
            _transposing.active = True
            try:
                self._pulled = self.gradients(outputs, self._weights, True)
            finally:
                _transposing.active = outer
        self._own |= {id(t) for weight in self._weights for t in _with_examples(weight)}
        self._outputs = outputs

    def pushed(self, tangents: Sequence[Tensor], batched: bool = False) -> Any:
        """The products of the Jacobian with tangents of the inputs' leaves, for each output."""
        used = [(g, t) for g, t in zip(self._pulled, tangents) if g.requires_grad]
        size = (len(tangents[0]),) if batched else ()
        keep = self.leads_out(self._outputs) or _recorded([t for _, t in used])
        with self._entered(True):
            return _gradients(used, self._weights, size, keep, True)

    def like_output(self, flat: Sequence[Any]) -> Any:
        return tree_unflatten(flat, self._structure)


class _Alias(Function):
    """A tensor on the memory of a leaf, which operations in place may change with their history."""

    @staticmethod
    def forward(ctx: Any, leaf: Tensor) -> Tensor:
        return leaf.detach()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor) -> Tensor:
        return tangent

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int], leaf: Tensor) -> tuple[Tensor, int]:
        return _Alias.apply(leaf), in_dims[0]


def _places(argnums, count):
    """The places of the arguments that `argnums` names, of so many; from the end, if negative."""
    if isinstance(argnums, range):  # all of them
        return argnums
    given = (argnums,) if isinstance(argnums, int) else argnums
    if not isinstance(given, (tuple, list)) or not all(isinstance(n, int) for n in given):
        raise RuntimeError(
            f"argnums must be int or Tuple[int, ...], got: {argnums!r} of {type(argnums)}"
        )
    if not given:
        raise RuntimeError("argnums must be non-empty")
    for place in given:
        if not -count <= place < count:
            raise RuntimeError(f"Got argnum={place}, but only {count} positional inputs")
    places = [place % count for place in given]
    if len(set(places)) != len(places):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return places


def _tensors_of(name, output):
    """The leaves of what a function returned, which must be tensors, and how they are nested."""
    leaves, structure = tree_flatten(output)
    if not leaves or output is None:
        raise RuntimeError(
            f"{name}: Expected f to be a function that has non-empty output, but got {output!r}"
        )
    for leaf in leaves:
        if not isinstance(leaf, rushlight.Tensor):
            raise RuntimeError(
                f"{name}: expected f(*primals) to return only tensors, got unsupported type "
                f"{type(leaf)}"
            )
    return leaves, structure


def _gradients(weighted, inputs, batch, keep, retain):
    """Of the sum of (output, weight) pairs by each input, zeros where nothing depends on it.

    `batch`: () or (the number of weights in each,), which the gradients' shapes then begin with.
    """
    found = [None] * len(inputs)
    if weighted:
        outputs, weights = zip(*weighted)
        found = rushlight.autograd.grad(
            outputs, inputs, weights, retain_graph=retain, create_graph=keep,
            allow_unused=True, is_grads_batched=bool(batch),
        )  # fmt: skip
    return [
        source.new_zeros((*batch, *source.shape)) if g is None else g
        for source, g in zip(inputs, found)
    ]


def _fresh(leaf, level):
    leaf = lift(leaf)
    is_new = not leaf.requires_grad
    leaf = leaf.detach() if is_new else leaf.view_as(leaf)
    for tensor in _with_examples(leaf):
        _C._set_level(tensor, level)
        if is_new:
            tensor.__dict__["_fresh_at"] = level
    return leaf.requires_grad_() if is_new else leaf


def _lend(leaves, level):
    """What a function is given whole, it may change in place: (tensor, its own level) of each."""
    tensors = [leaf for leaf in leaves if isinstance(leaf, rushlight.Tensor)]
    return [(t, _C._set_level(t, level)) for tensor in tensors for t in _with_examples(tensor)]


def _with_examples(tensor):
    """The tensor, and those of all examples for which it stands in mapped functions."""
    yield tensor
    for examples in tensor.__dict__.get("_examples", {}).values():
        yield from _with_examples(examples)


def _recorded(tensors):
    return _C._records() and any(t.requires_grad for t in tensors)


def grad_and_value(
    func: Callable[_P, Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[_P, tuple[Any, Any]]:
    """A function that returns the gradient of func's single number, and that number (with the rest,
    if has_aux)."""

    @functools.wraps(func)
    @_out_of_inference
    def derived(*args, **kwargs):
        run = _Run("grad_and_value(f)(*args)", func, args, kwargs, argnums, has_aux)
        value = run.output
        if not isinstance(value, rushlight.Tensor):
            raise RuntimeError(
                f"grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got {type(value)}"
            )
        if value.dim() != 0:
            raise RuntimeError(
                "grad_and_value(f)(*args): Expected f(*args) to return a scalar tensor, got a "
                f"tensor with {value.dim()} dims; did you mean vjp or jacrev?"
            )
        found = run.gradients([value], [None], run.leads_out([value]), last=run.aux is None)
        found = run.like_inputs(found)
        result = found[0] if isinstance(argnums, int) else found
        result, value, aux = run.shown((result, value, run.aux))
        return (result, (value, aux)) if has_aux else (result, value)

    return derived


def grad(
    func: Callable[_P, Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[_P, Any]:
    """A function that returns the gradient of func's single number with respect to its arguments of
    the given places."""
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def derived(*args, **kwargs):
        result, value = both(*args, **kwargs)
        return (result, value[1]) if has_aux else result

    return derived


@_out_of_inference
def vjp(
    func: Callable[..., Any], *primals: Any, has_aux: bool = False
) -> tuple[Any, Callable[..., Any]] | tuple[Any, Callable[..., Any], Any]:
    """func(*primals), and a function that multiplies a cotangent with its Jacobian."""
    run = _Run("vjp(f, *primals)", func, primals, {}, range(len(primals)), has_aux)
    outputs, structure = _tensors_of("vjp(f, *primals)", run.output)

    @_out_of_inference
    def multiply(*cotangents):
        given = cotangents if len(cotangents) != 1 else cotangents[0]
        weights, given_structure = tree_flatten(given)
        if given_structure != structure:
            raise RuntimeError(
                "vjp: Expected pytree structure of cotangents to be the same as that of the "
                f"outputs of the function, but got {given_structure} for {structure}"
            )
        keep = run.leads_out(outputs) or _recorded(weights)
        found = run.gradients(outputs, weights, keep)
        return run.shown(run.like_inputs(found))

    shown, aux = run.shown((run.output, run.aux))
    return (shown, multiply, aux) if has_aux else (shown, multiply)


def _pushforward(name, func, primals, has_aux=False, strict=False):
    """func(*primals), a function that multiplies its Jacobian with tangents, and the rest."""
    run = _Run(name, func, primals, {}, range(len(primals)), has_aux, True)
    if strict and not all(out.requires_grad for out in _tensors_of(name, run.output)[0]):
        raise RuntimeError(
            f"{name[:-1]}, strict=True): The output of f is independent of the inputs, so that its "
            "derivative would be zeros"
        )
    run.prepare_pushing()

    @_out_of_inference
    def push(*tangents):
        return run.shown(run.like_output(run.pushed(tree_leaves(tangents))))

    output, aux = run.shown((run.output, run.aux))
    return output, push, aux


@_out_of_inference
def jvp(
    func: Callable[..., Any],
    primals: Any,
    tangents: Any,
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> tuple[Any, Any] | tuple[Any, Any, Any]:
    """func(*primals), and its Jacobian times the tangents.

    Args:
        strict: refuse results that do not depend on the inputs, whose derivatives are zeros.
        has_aux: func returns a second value, which is returned as it is.
    """
    name = "jvp(f, primals, tangents)"
    for what, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, tuple):
            raise RuntimeError(
                f"{name}: Expected {what} to be a tuple, with an entry for each argument of f, got "
                f"{type(given)}"
            )
    flat, structure = tree_flatten(primals)
    if not flat:
        raise RuntimeError(f"{name}: Expected at least one Tensor in primals, got {primals}")
    moves, given_structure = tree_flatten(tangents)
    if structure != given_structure:
        raise RuntimeError(
            f"{name}: Expected primals and tangents to have the same python structure, but they "
            f"are {structure} and {given_structure}"
        )
    for primal, tangent in zip(flat, moves):
        _check_tangent(name, primal, tangent)
    output, push, aux = _pushforward(name, func, primals, has_aux, strict)
    return (output, push(*tangents), aux) if has_aux else (output, push(*tangents))


def _check_tangent(name, primal, tangent):
    for what, t in (("primal", primal), ("tangent", tangent)):
        if not isinstance(t, rushlight.Tensor):
            raise RuntimeError(f"{name}: Expected {what} to be a Tensor, got {type(t)}")
        if not (t.is_floating_point() or t.is_complex()):
            raise ValueError(
                f"{name}: Expected {what} to be floating point or complex, but got: {t.dtype}"
            )
    if primal.shape != tangent.shape:
        raise RuntimeError(
            f"{name}: the tangent has a different size than that of the original Tensor: "
            f"{tuple(tangent.shape)}, not {tuple(primal.shape)}"
        )


@_out_of_inference
def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """func(*primals), and a function that multiplies the Jacobian there with tangents, without
    running func again.

    Example:
        >>> value, push = rushlight.func.linearize(rushlight.square, rushlight.tensor(3.0))
        >>> push(rushlight.tensor(2.0))
        tensor(12.)
    """
    output, push, _ = _pushforward("linearize(f, *primals)", func, primals)
    return output, push


def jacrev(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """A function that returns the Jacobian of func, row by row.

    Args:
        chunk_size: how many rows to compute at once; by default all.
        _preallocate_and_copy: in torch, how chunks are joined; they are joined in one way here.
    """

    @functools.wraps(func)
    @_out_of_inference
    def derived(*args, **kwargs):
        run = _Run("jacrev", func, args, kwargs, argnums, has_aux)
        outputs, structure = _tensors_of("jacrev", run.output)
        _expect_real("jacrev", run.leaves, outputs)
        jacobians = []
        for out in outputs:
            leads_out = run.leads_out([out])
            chunks = [
                run.gradients([out], [directions], leads_out, batched=True)
                for directions in _chunks("jacrev", _directions(out), chunk_size)
            ]
            rows = map(_joined, zip(*chunks))
            blocks = [
                rows_of_leaf.reshape((*out.shape, *leaf.shape))
                for rows_of_leaf, leaf in zip(rows, run.leaves)
            ]
            found = run.like_inputs(blocks)
            jacobians.append(found[0] if isinstance(argnums, int) else found)
        result, aux = run.shown((tree_unflatten(jacobians, structure), run.aux))
        return (result, aux) if has_aux else result

    return derived


def jacfwd(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    has_aux: bool = False,
    *,
    chunk_size: int | None = None,
    randomness: str = "error",
) -> Callable[..., Any]:
    """A function that returns the Jacobian of func, column by column: for functions of few
    numbers.

    Args:
        chunk_size: how many columns to compute at once; by default all.
        randomness: what random operations of func draw for the columns: "same", numbers for all,
            as func runs once. So does "error", for there is nothing that could go wrong.
    """
    if randomness not in ("error", "same"):
        raise NotImplementedError(f"jacfwd: randomness={randomness!r}, for func runs once")

    @functools.wraps(func)
    @_out_of_inference
    def derived(*args, **kwargs):
        run = _Run("jacfwd", func, args, kwargs, argnums, has_aux, True)
        run.prepare_pushing()
        outputs, _ = tree_flatten(run.output)
        _expect_real("jacfwd", run.leaves, outputs)
        blocks = []  # for each leaf of the inputs, one of each output
        for number, leaf in enumerate(run.leaves):
            chunks = []
            for directions in _chunks("jacfwd", _directions(leaf), chunk_size):
                tangents = [
                    directions
                    if other == number
                    else each.new_zeros((len(directions), *each.shape))
                    for other, each in enumerate(run.leaves)
                ]
                chunks.append(run.pushed(tangents, batched=True))
            blocks.append(
                [
                    columns.movedim(0, -1).reshape((*out.shape, *leaf.shape))
                    for columns, out in zip(map(_joined, zip(*chunks)), outputs)
                ]
            )
        jacobians = []
        for of_output in zip(*blocks):
            found = run.like_inputs(of_output)
            jacobians.append(found[0] if isinstance(argnums, int) else found)
        result, aux = run.shown((run.like_output(jacobians), run.aux))
        return (result, aux) if has_aux else result

    return derived


def _expect_real(name, inputs, outputs):
    for what, tensors in (("inputs", inputs), ("outputs", outputs)):
        for place, tensor in enumerate(tensors):
            if tensor.is_complex():
                raise RuntimeError(
                    f"{name}: Expected all {what} to be real but received complex tensor at "
                    f"flattened {what[:-1]} idx: {place}; take derivatives by view_as_real of it"
                )


def _chunks(name, directions, size):
    if size is None:
        return [directions]
    if size <= 0:
        raise ValueError(f"{name}: `chunk_size` should be greater than 0. (got {size})")
    return directions.split(size)


def _joined(chunks):
    return chunks[0] if len(chunks) == 1 else rushlight.cat(chunks)


def _directions(tensor):
    """For each element, a tensor of that shape with 1 there and 0 elsewhere."""
    count = tensor.numel()
    ones = rushlight.eye(count, dtype=tensor.dtype, device=tensor.device)
    return ones.reshape((count, *tensor.shape))


def hessian(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """A function that returns the second derivatives of func."""
    return jacfwd(jacrev(func, argnums), argnums)
