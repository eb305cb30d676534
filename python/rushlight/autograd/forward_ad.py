"""Forward-mode differentiation: dual numbers, tensors that carry the direction in which they move.

    with dual_level():
        x = make_dual(point, direction)
        y = f(x)
        derivative = unpack_dual(y).tangent

Within a level every operation on a dual gives duals. Views and operations that are linear in one
argument are applied to the tangent as they are. Of an operation that works element by element, on
real numbers, the gradient's formula gives the tangent too. For the others, the tangent is the
derivative of u -> backward(u) in the direction of the tangents: the transpose of a transpose, which
follows from the gradient that each operation has. See `Function.jvp` for functions with derivatives
of their own.
"""

from __future__ import annotations

import functools
import threading
import weakref
from typing import NamedTuple

import rushlight
from rushlight import _C, Tensor, _op_rules
from rushlight.utils._pytree import tree_flatten, tree_unflatten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_active = threading.local()  # .level: that of this thread


class UnpackedDualTensor(NamedTuple):
    """A tensor and the direction in which it moves, None where it does not."""

    primal: Tensor
    tangent: Tensor | None


class _Level:
    """The duals made since a level was entered; after it they are plain tensors again."""

    def __init__(self) -> None:
        self._members = []

    def tangent_of(self, tensor: Tensor) -> Tensor:
        found = tensor.__dict__.get("_dual")
        if found is not None and found[0] is self:
            return found[1]
        base = tensor._base  # which may move since the view was made
        whole = None if base is None else self.tangent_of(base)
        if whole is None or whole.stride() != base.stride():
            return None
        tangent = _view_like(whole, tensor, base)
        self.set_tangent(tensor, tangent)
        return tangent

    def set_tangent(self, tensor: Tensor, tangent: Tensor) -> None:
        if "_dual" not in tensor.__dict__:
            self._members.append(weakref.ref(tensor))
        tensor.__dict__["_dual"] = (self, tangent)

    def close(self) -> None:
        for reference in self._members:
            tensor = reference()
            if tensor is not None:
                tensor.__dict__.pop("_dual", None)


def enter_dual_level() -> int:
    """Begin a level; see `dual_level`."""
    if getattr(_active, "level", None) is not None:
        raise RuntimeError(
            "Nested forward mode AD is not supported at the moment: leave the dual level first, or "
            "use func.jvp, which nests"
        )
    _active.level = _Level()
    _C._push_torch_function_mode(_ForwardMode(_active.level))
    return 0


def _check_level(level):
    if level not in (None, 0):
        raise RuntimeError(f"forward AD has one level, 0, but got level {level}")


def exit_dual_level(*, level: int | None = None) -> None:
    """End the level of this thread: its duals lose their tangents."""
    _check_level(level)
    current = getattr(_active, "level", None)
    if current is None:
        raise RuntimeError("Trying to exit a forward AD level but no level exists")
    _C._pop_torch_function_mode()
    _active.level = None
    current.close()


class dual_level:
    """Within it, tensors can carry tangents.

    Example:
        >>> import rushlight.autograd.forward_ad as fwAD
        >>> with fwAD.dual_level():
        ...     x = fwAD.make_dual(rushlight.tensor(3.0), rushlight.tensor(1.0))
        ...     fwAD.unpack_dual(x * x).tangent
        tensor(6.)
    """

    def clone(self) -> dual_level:
        """Return a new context of this kind."""
        return type(self)()

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exception: object) -> None:
        exit_dual_level()


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """Return a view of `tensor` that moves in the direction `tangent`, which has its shape."""
    _check_level(level)
    current = getattr(_active, "level", None)
    if current is None:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists: do so inside of "
            "dual_level()"
        )
    for name, t in (("primal", tensor), ("tangent", tangent)):
        if not (t.is_floating_point() or t.is_complex()):
            raise ValueError(f"Expected {name} to be floating point or complex, but got: {t.dtype}")
    if current.tangent_of(tangent) is not None:
        raise RuntimeError(
            "make_dual: Setting a forward grad that itself has a forward gradient at the same "
            "level 0 is not supported: give its primal, or use func.jvp, which nests"
        )
    if tangent.shape != tensor.shape:
        raise RuntimeError(
            "make_dual: Trying to set a forward gradient that has a different size than the "
            f"tensor: the tangent has shape {tuple(tangent.shape)}, the tensor has "
            f"{tuple(tensor.shape)}"
        )
    with _C.DisableTorchFunction():
        dual = tensor.view_as(tensor)
        current.set_tangent(dual, _laid_out_as(tangent, tensor))
    return dual


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """Return (primal, tangent) of a tensor; the tangent is None where it has none."""
    _check_level(level)
    current = getattr(_active, "level", None)
    tangent = None if current is None else current.tangent_of(tensor)
    if tangent is None:
        return UnpackedDualTensor(tensor, None)
    with _C.DisableTorchFunction():
        return UnpackedDualTensor(tensor.view_as(tensor), tangent)


# ---- what every operation does within a level

_LINEAR_ATTRIBUTES = frozenset(("T", "H", "mT", "mH", "real", "imag"))
# They change what a tensor is, not its elements; or they belong to backward.
_AS_THEY_ARE = frozenset(
    "requires_grad_ detach_ retain_grad register_hook register_post_accumulate_grad_hook backward "
    "set_ resize_ resize_as_ share_memory_ __repr__ __len__ size dim stride numel is_contiguous "
    "data_ptr storage_offset untyped_storage".split()
)


def _view_like(whole, view, base):
    """The view of the tangent of `base` that `view` is of `base`."""
    offset = view.storage_offset() - base.storage_offset() + whole.storage_offset()
    return whole.as_strided(view.shape, view.stride(), offset)


def _laid_out_as(tangent, tensor):
    """The tangent in the strides of its tensor, so that the same views fit both."""
    if tangent.stride() == tensor.stride():
        return tangent
    held = tangent.new_empty_strided(tensor.shape, tensor.stride(), device=tensor.device)
    return held.copy_(tangent)


def _is_in_place(func, args, kwargs):
    name = func.__name__
    if (
        name.endswith("_")
        and not name.startswith("__")
        or name == "__setitem__"
        or name in _op_rules.IN_PLACE_OPERATORS
        or kwargs.get("inplace")
    ):
        return True
    at = _op_rules.INPLACE_AT.get(name)
    return at is not None and len(args) > at and args[at] is True


def _map_tensors(function, result):
    if isinstance(result, Tensor):
        return function(result)
    if isinstance(result, (tuple, list)):
        members = [_map_tensors(function, member) for member in result]
        return type(result)._make(members) if hasattr(result, "_make") else type(result)(members)
    return result


def _tensors_of(result):
    found = []
    _map_tensors(found.append, result)
    return found


def _total(parts):
    """The sum of those that are not None."""
    parts = [part for part in parts if part is not None]
    return functools.reduce(rushlight.add, parts) if parts else None


class _Call:
    """A call with duals among its arguments."""

    def __init__(self, level: int, func: Callable[..., Any], args: Any, kwargs: Any) -> None:
        self.level, self.func = level, func
        self._leaves, self._structure = tree_flatten((args, kwargs))
        self.tangents = {}  # place among the leaves -> tangent
        for place, leaf in enumerate(self._leaves):
            tangent = level.tangent_of(leaf) if isinstance(leaf, Tensor) else None
            if tangent is not None:
                self.tangents[place] = tangent

    def run(self, changed: dict[int, Tensor] | None = None) -> Tensor | bool:
        """The function on the arguments, of which `changed` ({place: value}) replaces some."""
        leaves = (
            [changed.get(place, leaf) for place, leaf in enumerate(self._leaves)]
            if changed
            else self._leaves
        )
        args, kwargs = tree_unflatten(leaves, self._structure)
        return self.func(*args, **kwargs)

    def linear(self) -> Tensor:
        """The function's result, with the function of the tangent as its tangent."""
        result = self.run()
        tangents = _tensors_of(self.run(self.tangents))
        for out, tangent in zip(_tensors_of(result), tangents):
            self.level.set_tangent(out, _laid_out_as(tangent, out))
        return result

    def _records(self):
        """Does the caller want a graph, of the result or of its tangent?"""
        tensors = [leaf for leaf in self._leaves if isinstance(leaf, Tensor)] + list(
            self.tangents.values()
        )
        return _C._records() and any(t.requires_grad for t in tensors)

    def _inputs(self):
        """{place: an input of a graph that begins here}; a tensor that stands twice is one
        input."""
        made, inputs = {}, {}
        for place in self.tangents:
            leaf = self._leaves[place]
            if id(leaf) not in made:
                made[id(leaf)] = (
                    leaf.view_as(leaf) if leaf.requires_grad else leaf.detach().requires_grad_()
                )
            inputs[place] = made[id(leaf)]
        return inputs

    def _transposed_twice(self, outputs, inputs, keep):
        """{output: tangent}, by the derivative of backward."""
        unique = {
            id(inputs[place]): (inputs[place], tangent)
            for place, tangent in self.tangents.items()
            if place in inputs
        }
        sources, tangents = zip(*unique.values())
        weights = [rushlight.zeros_like(out).requires_grad_() for out in outputs]
        pulled = rushlight.autograd.grad(
            outputs, sources, weights, create_graph=True, allow_unused=True
        )
        used = [(g, t) for g, t in zip(pulled, tangents) if g is not None and g.requires_grad]
        if not used:
            return [None] * len(outputs)
        gradients, tangents = zip(*used)
        return rushlight.autograd.grad(
            gradients, weights, tangents, create_graph=keep, allow_unused=True
        )

    def elementwise(self) -> Tensor:
        """Each element of the result depends on one of each argument: the matrix of derivatives
        is diagonal, and backward, which multiplies by its transpose, multiplies by it.
        """
        tensors = [leaf for leaf in self._leaves if isinstance(leaf, Tensor)]
        dtype = tensors[0].dtype
        if not dtype.is_floating_point or any(t.dtype is not dtype for t in tensors):
            return self.general()
        keep = self._records()
        with rushlight.enable_grad():
            inputs = self._inputs()
            shape = rushlight.broadcast_shapes(*(t.shape for t in tensors))
            wide = {place: source.expand(shape) for place, source in inputs.items()}
            out = self.run(wide)
            if not isinstance(out, Tensor) or out.dtype is not dtype or out.shape != shape:
                return self.general()
            if not out.requires_grad:
                return out
            parts = [
                rushlight.autograd.grad(
                    out, wide[place], self.tangents[place].expand(shape),
                    retain_graph=True, create_graph=keep, allow_unused=True,
                )[0]
                for place in wide
            ]  # fmt: skip
        return self._finished(out, keep, {id(out): _total(parts)})

    def general(self) -> Tensor | bool:
        keep = self._records()
        with rushlight.enable_grad():
            inputs = self._inputs()
            result = self.run(inputs)
            outputs = [out for out in _tensors_of(result) if out.requires_grad]
            if outputs and self._is_view(outputs, inputs):
                return self._views(_tensors_of(result), inputs)
            pushed = self._transposed_twice(outputs, inputs, keep) if outputs else []
        found = {id(out): tangent for out, tangent in zip(outputs, pushed)}
        return self._finished(result, keep, found)

    def _finished(self, result, keep, found):
        """The result with the tangents found, by the id of each output."""
        wanted = keep and any(
            leaf.requires_grad for leaf in self._leaves if isinstance(leaf, Tensor)
        )

        def finished(out):
            tangent = found.get(id(out))
            shown = out if wanted or not out.requires_grad else out.detach()
            if tangent is not None:
                self.level.set_tangent(
                    shown, _laid_out_as(tangent if keep else tangent.detach(), shown)
                )
            return shown

        return _map_tensors(finished, result)

    @staticmethod
    def _place_of_source(out, inputs):
        """The place of the input that `out` is a view of, or is."""
        for place, source in inputs.items():
            base = source if source._base is None else source._base
            if out is source or out._base is base:
                return place
        return None

    def _is_view(self, outputs, inputs):
        return all(self._place_of_source(out, inputs) is not None for out in outputs)

    def _views(self, outputs, inputs):
        """Views of arguments are views of their tangents."""
        result = self.run()
        tangents = _tensors_of(self.run(self.tangents))
        for out, view, tangent in zip(outputs, _tensors_of(result), tangents):
            place = self._place_of_source(out, inputs)
            if place is not None and view is not self._leaves[place]:
                self.level.set_tangent(view, tangent)
        return result

    def shape_in_place(self) -> Tensor:
        result = self.run()
        tangent = self.tangents[0].detach() if not self._records() else self.tangents[0] * 1
        self.level.set_tangent(result, self.run({0: tangent}))
        return result

    def in_place(self) -> Tensor:
        target = self._leaves[0]
        keep = self._records()
        held = dict(self.tangents)
        with rushlight.enable_grad():
            inputs = self._inputs()
            if (
                keep
            ):  # what the graph of the new tangent saves must not be what will hold that tangent
                inputs = {place: source.clone() for place, source in inputs.items()}
                self.tangents = {place: tangent.clone() for place, tangent in held.items()}
            copy = (inputs[0] if 0 in inputs else target.detach()).clone()
            state = rushlight.get_rng_state() if "dropout" in self.func.__name__ else None
            self.run({**inputs, 0: copy})
            tangent = (
                self._transposed_twice([copy], inputs, keep)[0] if copy.requires_grad else None
            )
            if state is not None:
                rushlight.set_rng_state(state)
        result = self.run()
        self.tangents = held
        self._move(target, tangent if tangent is None or keep else tangent.detach())
        return result

    def _move(self, target, tangent):
        """Overwrites the tangent of a tensor, which other tensors may look at."""
        held = self.tangents.get(0)
        if held is None and tangent is None:
            return
        if held is None:
            held = self._new_tangent(target, tangent)
        if tangent is None:
            tangent = rushlight.zeros_like(held)
        if held.requires_grad and held.is_leaf:
            self.level.set_tangent(target, _laid_out_as(tangent, target))
        else:
            held.copy_(tangent)

    def _new_tangent(self, target, like):
        """Zeros, mapped where `like` is; of a view, a view of those of its base."""
        base = target._base
        if base is None:
            held = like.new_empty_strided(target.shape, target.stride()).zero_()
        else:
            whole = self.level.tangent_of(base)
            if whole is None:
                whole = like.new_empty_strided(base.shape, base.stride()).zero_()
                self.level.set_tangent(base, whole)
            held = _view_like(whole, target, base)
        held = _laid_out_as(held, target)
        self.level.set_tangent(target, held)
        return held


class _ForwardMode:
    """Sees every operation of its thread while a level is open."""

    def __init__(self, level: int) -> None:
        self._level = level

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type[Any]],
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func is rushlight.autograd.grad:
            return self._gradients(*args, **kwargs)
        call = _Call(self._level, func, args, kwargs)
        name = func.__name__
        if not call.tangents or name in _AS_THEY_ARE:
            return func(*args, **kwargs)
        if name == "__get__":
            attribute = func.__self__.__name__
            return call.linear() if attribute in _LINEAR_ATTRIBUTES else func(*args, **kwargs)
        if name == "__set__":
            attribute = func.__self__.__name__
            return call.in_place() if attribute in ("real", "imag") else func(*args, **kwargs)
        if kwargs.get("out") is not None:
            raise RuntimeError(
                f"{name}(): functions with out=... arguments don't support forward mode "
                "differentiation, "
                "but one of the arguments has a tangent."
            )
        if name in _op_rules.SHAPE_IN_PLACE and 0 in call.tangents:
            return call.shape_in_place()
        if _is_in_place(func, args, kwargs):
            return call.in_place()
        if name in _op_rules.LINEAR and len(call.tangents) == 1 and 0 in call.tangents:
            return call.linear()
        if name in _op_rules.ELEMENTWISE:
            return call.elementwise()
        return call.general()

    def _gradients(self, roots, inputs, **options):
        """`autograd.grad` with the tangents of its results. That of the gradient of w y is the
        gradient of w y' + w' y, where y' and w' are the tangents.
        """
        given = options["grad_outputs"]
        weights = (given,) if isinstance(given, Tensor) or given is None else tuple(given)
        pairs = []
        for root, weight in zip(roots, weights * len(roots) if given is None else weights):
            root_tangent, weight_tangent = (
                self._level.tangent_of(t) if isinstance(t, Tensor) else None for t in (root, weight)
            )
            if root_tangent is not None and root_tangent.requires_grad:
                ones = rushlight.ones_like(root) if weight is None else weight
                pairs.append((root_tangent, ones))
            if weight_tangent is not None:
                pairs.append((root, weight_tangent))
        if not pairs:
            return rushlight.autograd.grad(roots, inputs, **options)
        if options["is_grads_batched"]:
            raise NotImplementedError("autograd.grad: is_grads_batched does not go with tangents")
        targets = tuple(inputs.values() if isinstance(inputs, dict) else inputs)
        outputs, their_weights = zip(*pairs)
        tangents = rushlight.autograd.grad(
            outputs, targets, their_weights, retain_graph=True,
            create_graph=options["create_graph"], allow_unused=True,
        )  # fmt: skip
        results = rushlight.autograd.grad(roots, inputs, **options)
        found = results.values() if isinstance(results, dict) else results
        for result, tangent in zip(found, tangents):
            if result is not None and tangent is not None and not result.is_sparse:
                self._level.set_tangent(result, _laid_out_as(tangent, result))
        return results

    def apply_function(self, cls: Any, args: Any) -> Tensor:
        """Of a custom Function: its own jvp."""
        level = self._level
        tangents = [level.tangent_of(a) if isinstance(a, Tensor) else None for a in args]
        if all(t is None for t in tangents):
            return cls.apply(*args)
        if cls.jvp is rushlight.autograd.Function.jvp:
            raise NotImplementedError(
                f"{cls.__name__}: You must implement the jvp function for custom Function to use "
                "it with forward mode AD: a static method jvp(ctx, *grad_inputs)"
            )
        context, result = cls._apply_for_jvp(*args)
        outputs = result if isinstance(result, tuple) else (result,)
        fixed = context.non_differentiable or ()
        context.dirty_tensors = context.non_differentiable = None
        context._forward_mode = True
        given = [(t, None if t is None else t._version) for t in tangents]
        moved = cls.jvp(context, *self._materialized(context, args, tangents))
        context._forward_mode = False
        moved = moved if isinstance(moved, (tuple, list)) else (moved,)
        if len(moved) != len(outputs):
            raise RuntimeError(
                f"{cls.__name__}.jvp returned {len(moved)} tangents for {len(outputs)} outputs"
            )
        for place, (out, tangent) in enumerate(zip(outputs, moved)):
            if not isinstance(out, Tensor) or any(out is other for other in fixed):
                _check_no_tangent(cls, place, tangent)
            elif tangent is not None:
                _check_tangent_of_output(cls, place, out, tangent, args, given)
                if not any(out is a for a in args):
                    shared = tangent._base is not None and out._base is not None
                    level.set_tangent(out, tangent if shared else _laid_out_as(tangent, out))
        return result

    @staticmethod
    def _materialized(context, args, tangents):
        """The tangents as jvp takes them: zeros where a tensor has none, unless it wants None."""
        if not context.materialize_grads:
            return tangents
        return [
            rushlight.zeros_like(a)
            if t is None and isinstance(a, Tensor) and (a.is_floating_point() or a.is_complex())
            else t
            for a, t in zip(args, tangents)
        ]


def _check_no_tangent(cls, place, tangent):
    if tangent is not None:
        raise RuntimeError(
            f"{cls.__name__}.jvp returned a tangent at position {place}, of an output that is no "
            "tensor or not differentiable. You should return None at that position instead."
        )


def _check_tangent_of_output(cls, place, out, tangent, args, given):
    """What holds of an output and an input, that they share elements, must hold of the tangents."""
    if tangent.shape != out.shape or tangent.dtype != out.dtype:
        raise RuntimeError(
            f"{cls.__name__}.jvp returned a tangent of shape {tuple(tangent.shape)} and dtype "
            f"{tangent.dtype} for an output of shape {tuple(out.shape)} and dtype {out.dtype}"
        )
    for argument, (moves, version) in zip(args, given):
        if moves is None:
            continue
        if out is argument:
            if tangent is not moves or moves._version == version:
                raise RuntimeError(
                    f"{cls.__name__}: an inplace custom Function is not modifying the forward mode "
                    f"gradients inplace: forward changes and returns an input (output {place}), so "
                    "the jvp function must modify the corresponding gradient inplace and return it"
                )
            return
        of_argument = out._base is argument
        if out._base is None or not (of_argument or out._base is argument._base):
            continue
        base = moves if moves._base is None else moves._base
        if tangent._base is not base:
            of = "" if tangent._base is None else (
                " of the given tangent" if of_argument else " of the same base"
            )  # fmt: skip
            raise RuntimeError(
                f"{cls.__name__}: A custom Function's forward is returning a view (or an input "
                f"as-is) as output {place}, but its jvp is not returning a view{of}: take the view "
                "of the input's tangent there"
            )
        return


def __getattr__(name: str) -> Any:
    if name == "_current_level":  # of this thread: 0, or -1 outside
        return 0 if getattr(_active, "level", None) is not None else -1
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
