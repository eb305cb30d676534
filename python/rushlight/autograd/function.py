"""Custom differentiable operations: the Python half of `Function`.

`_C._FunctionBase` does the graph work: its `apply` makes a context, which is the node too, runs
`forward`, reads from the context what the methods of `FunctionCtx` have left there, and
records a node that runs `backward`.
"""

from __future__ import annotations

import functools
import threading

import rushlight
from rushlight import _C
from rushlight._ignored import warn_program as _warn_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight import Tensor


class FunctionCtx:
    """What `forward` tells `backward` and the engine."""

    def save_for_backward(self, *tensors: Tensor) -> None:
        """Keep tensors (or None) for `backward`, which finds them in `ctx.saved_tensors`.

        Only inputs and outputs saved in this way are checked for later changes in place. Call it
        at most once.
        """
        self.to_save = tensors

    def save_for_forward(self, *tensors: Tensor) -> None:
        """Keep tensors (or None) for `jvp`."""
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: Tensor) -> None:
        """Name the inputs that `forward` has changed in place; it must also return them."""
        self.dirty_tensors = args

    def mark_non_differentiable(self, *args: Tensor) -> None:
        """Name the outputs without gradient; `backward` still gets a zero gradient for each."""
        self.non_differentiable = args

    def mark_shared_storage(self, *pairs: Any) -> None:
        """Warn: tensors that share memory are known without being named."""
        _warn_program(
            "`mark_shared_storage` is deprecated: tensors with shared storages are tracked by "
            "themselves",
            FutureWarning,
        )

    def maybe_clear_saved_tensors(self) -> None:
        """Refused: saved tensors are freed when backward returns."""
        raise NotImplementedError(
            f"{type(self).__name__}.maybe_clear_saved_tensors: saved tensors are freed when "
            "backward returns, unless the graph is retained"
        )

    def set_materialize_grads(self, value: bool) -> None:
        """Choose what `backward` gets for an unused output: zeros (True, the default) or None."""
        self.materialize_grads = value


class Function(_C._FunctionBase, FunctionCtx):
    """Base class of custom operations.

    A subclass defines static methods: `forward(ctx, *args)`, or `forward(*args)` and
    `setup_context(ctx, inputs, output)`; `backward(ctx, *grad_outputs)`, which returns as many
    gradients as `forward` has inputs, None where there is none; and, for forward mode,
    `jvp(ctx, *grad_inputs)`. It is called by `apply`.

    Example:
        >>> class Exp(Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         y = x.exp()
        ...         ctx.save_for_backward(y)
        ...         return y
        ...
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         (y,) = ctx.saved_tensors
        ...         return grad * y
        >>> y = Exp.apply(x)
    """

    generate_vmap_rule = False
    # True: `ctx.saved_tensors` can be read once, and a second time is an error. The tensors are
    # freed when backward returns.
    clear_saved_tensors_on_access = False
    # True: backward is called as backward(ctx, grads), with a list of all gradients.
    boxed_grads_call = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"{type(self).__name__}: functions are not instantiated; call"
            f" {type(self).__name__}.apply(...), with forward and backward as static methods"
        )

    if TYPE_CHECKING:

        @classmethod
        def apply(cls, *args: Any, **kwargs: Any) -> Any:
            """Call `forward`, and record the call for `backward`: written in C."""

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the result; gradients are not recorded inside."""
        raise NotImplementedError("You must implement the forward function for custom Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Leave in `ctx` what `backward` needs, where `forward` does not take `ctx`."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Return the gradient for each input of `forward`."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom Function to use"
            " it with backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Return the tangent of each output."""
        raise NotImplementedError(
            "You must implement the jvp function for custom Function to use it with forward mode"
            " AD."
        )

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        """Return the batched output and its batch dimensions."""
        raise NotImplementedError(
            "To use vmap with this Function, either override its vmap method or set"
            " generate_vmap_rule=True."
        )


class BackwardCFunction(_C._FunctionBase, FunctionCtx):
    """A context of a `Function`, and the node in the graph."""

    _forward_cls: Any

    def _user_function(self):
        backward, vjp = self._forward_cls.backward, self._forward_cls.vjp
        return vjp if backward is Function.backward else backward

    def apply(self, *args: Any) -> Any:
        """Call the function's backward with these gradients of its outputs."""
        return self._user_function()(self, *args)

    def apply_boxed(self, *args: Any) -> Any:
        """Call the function's backward with a list of gradients: where boxed_grads_call is True."""
        if len(args) == 1 and isinstance(args[0], list) and self._forward_cls.boxed_grads_call:
            args = tuple(args[0])
        return self.apply(*args)

    def apply_jvp(self, *args: Any) -> Any:
        """Call the function's jvp with these tangents of its inputs."""
        return self._forward_cls.jvp(self, *args)


def _saved_once(context):
    """`saved_tensors` of a function with clear_saved_tensors_on_access."""
    if context.__dict__.setdefault("_saved_were_read", False):
        raise RuntimeError(
            "saved_tensors can only be accessed once when clear_saved_tensors_on_access=True is "
            "set on the autograd.Function. Either access saved_tensors only once, or set "
            "clear_saved_tensors_on_access=False."
        )
    context._saved_were_read = True
    return _C._FunctionBase.saved_tensors.__get__(context)


def _boxed(cls):
    """A `Function` as the engine calls it, for one whose backward takes a list."""
    name = "vjp" if cls.vjp is not Function.vjp else "backward"
    function = getattr(cls, name)

    def backward(ctx, *grads):
        boxed = list(grads)
        del grads
        return function(ctx, boxed)

    return type(cls.__name__, (cls,), {name: staticmethod(backward), "__module__": cls.__module__})


def _context_class(cls):
    """The class of the contexts of a `Function`, which the graph calls `clsBackward`."""
    forward = _boxed(cls) if cls.boxed_grads_call else cls
    if cls.backward is not Function.backward and cls.vjp is not Function.vjp:
        forward = _with_two_gradients(cls)
    if cls.jvp is not Function.jvp:
        forward = _with_jvp(forward)
    names = {"_forward_cls": forward, "__module__": cls.__module__, "__doc__": None}
    names["_made_for"] = cls
    names["_completes_calls"] = _has_setup_context(cls) and any(
        parameter.default is not parameter.empty for parameter in _parameters(cls.forward).values()
    )
    if cls.clear_saved_tensors_on_access:
        names["saved_tensors"] = property(_saved_once)
    cls._backward_cls = type(f"{cls.__name__}Backward", (BackwardCFunction,), names)
    return cls._backward_cls


def _with_two_gradients(cls):
    """A `Function` as the engine calls it, for one that does not say which of two to call."""

    def backward(ctx, *grads):
        raise RuntimeError(
            f"{cls.__name__}: Implementing both 'backward' and 'vjp' for a custom Function is "
            "refused, as either gives the gradient: leave one out"
        )

    return type(cls.__name__, (cls,), {"backward": backward, "__module__": cls.__module__})


def _with_jvp(cls):
    """A `Function` as the engine calls it, for one with a `jvp`, which `func.jvp` goes by.

    `func.jvp` differentiates gradients by their weights: the derivative of this one is `cls.jvp`.
    """
    gradient = cls.vjp if cls.backward is Function.backward else cls.backward

    def backward(ctx, *grads):
        weighing = getattr(_transposing, "active", False) and "_arguments" in ctx.__dict__
        return (_Transposed.apply if weighing else gradient)(ctx, *grads)

    names = {"backward": staticmethod(backward), "vjp": Function.vjp, "__module__": cls.__module__}
    return type(cls.__name__, (cls,), names)


_transposing = threading.local()  # .active: is backward run to be differentiated by its weights?


def _note_arguments(ctx, inputs):
    """Keep in a context what its function's `jvp` is told of the arguments."""
    if ctx._forward_cls.jvp is not Function.jvp:
        ctx._arguments = [
            (one.shape, one.dtype, one.device)
            if isinstance(one, rushlight.Tensor) and (one.is_floating_point() or one.is_complex())
            else None
            for one in inputs
        ]
        ctx._changes_tangents = bool(ctx.dirty_tensors)


class _Transposed(Function):
    """The gradients of a custom `Function` as a function of their weights, whose own gradient is
    the Function's `jvp`. Its values are asked for at weights of 0 alone, and are 0."""

    @staticmethod
    def forward(ctx: Any, of: Any, *weights: Any) -> Any:
        ctx.of = of
        ctx.set_materialize_grads(False)
        return tuple(one and _zeros(one) for one in of._arguments)

    @staticmethod
    def backward(ctx: Any, *tangents: Any) -> Any:
        of = ctx.of
        if of.materialize_grads:
            tangents = [
                _zeros(one) if one and t is None else t for one, t in zip(of._arguments, tangents)
            ]
        if of._changes_tangents:
            tangents = [t if t is None else t.clone() for t in tangents]
        outer, of._forward_mode = of._forward_mode, True
        try:
            moved = of._forward_cls.jvp(of, *tangents)
        finally:
            of._forward_mode = outer
        return (None, *moved) if isinstance(moved, (tuple, list)) else (None, moved)


def _zeros(argument):
    shape, dtype, device = argument
    return rushlight.zeros(shape, dtype=dtype, device=device)


def _has_setup_context(cls):
    return cls.setup_context is not Function.setup_context


def _parameters(forward):
    import inspect

    try:
        return inspect.signature(forward).parameters
    except (TypeError, ValueError):  # written in C, without a signature
        return {}


def _complete_call(cls, *args, **kwargs):
    """The arguments of `apply` by position, with those that the call leaves out."""
    import inspect

    if not _has_setup_context(cls):
        raise TypeError(
            f"{cls.__name__}.apply() takes no keyword arguments, but got {', '.join(kwargs)}; a "
            "Function with setup_context takes them"
        )
    bound = inspect.signature(cls.forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Make a `backward` that need not be differentiable.

    It runs without recording, and differentiating through its result is an error rather than a
    wrong answer.
    """

    @functools.wraps(backward)
    def wrapper(ctx, *grads):
        with rushlight.no_grad():
            results = backward(ctx, *grads)
        if not _C._records():
            return results
        if not any(isinstance(g, rushlight.Tensor) and g.requires_grad for g in grads):
            return results
        # Everything that the results depend on leads to the error.
        sources = (*grads, *ctx.saved_tensors)
        if not isinstance(results, tuple):
            return _guard(results, sources)
        return tuple(_guard(result, sources) for result in results)

    return wrapper


def _guard(result, sources):
    return None if result is None else _NotTwice.apply(result, *sources)


class _NotTwice(Function):
    """The identity, with a backward that explains why there is none."""

    @staticmethod
    def forward(ctx: Any, result: Any, *sources: Any) -> Tensor:
        return result.view_as(result)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        raise RuntimeError(
            "trying to differentiate twice a function that was marked with @once_differentiable"
        )


class InplaceFunction(Function):
    """A `Function` that can be told to change its input in place.

    Args:
        inplace: what `self.inplace` says to `forward`.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class NestedIOFunction(Function):
    """Refused, as it belongs to functions with state, which are gone: a `Function` whose arguments
    and results are nested.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("NestedIOFunction: take nested arguments apart, and use Function")

    def forward_extended(self, *input: Any) -> None:
        """Compute the results: for subclasses to write."""
        raise NotImplementedError("NestedIOFunction.forward_extended: a subclass has it")

    def backward_extended(self, *grad_output: Any) -> None:
        """Compute the gradients: for subclasses to write."""
        raise NotImplementedError("NestedIOFunction.backward_extended: a subclass has it")
