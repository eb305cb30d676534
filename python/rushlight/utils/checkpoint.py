"""Checkpointing: save no intermediate results, and compute them anew in the backward pass.

Training Deep Nets with Sublinear Memory Cost (Chen, Xu, Zhang and Guestrin, 2016).
"""

from __future__ import annotations

import contextlib

import rushlight
from rushlight import _C, Tensor, _absent
from rushlight._ignored import warn_program as _warn_program
from rushlight._set_module import set_module
from rushlight.utils import _checkpoint_log
from rushlight.utils._checkpoint_policy import (
    CheckpointPolicy,
    Selective,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, TypeVar

    from rushlight.nn.modules.module import Module
    from rushlight.types import Device

    _T = TypeVar("_T")

_settings = {"early_stop": True, "debug": None}


class CheckpointError(RuntimeError):
    """The recomputation differs from the first computation."""


class _AllSavedAgain(Exception):
    """Ends a recomputation that has gone far enough."""

    def __init__(self, frame: _Frame) -> None:
        self.frame = frame


def noop_context_fn() -> tuple[Any, Any]:
    """Two contexts that change nothing."""
    return contextlib.nullcontext(), contextlib.nullcontext()


@contextlib.contextmanager
def _set(name, value):
    before, _settings[name] = _settings[name], value
    try:
        yield
    finally:
        _settings[name] = before


def set_checkpoint_early_stop(enable: bool) -> Any:
    """A context: may a recomputation stop as soon as everything that was saved has been saved
    again?
    """
    return _set("early_stop", enable)


def set_checkpoint_debug_enabled(enabled: bool | None) -> Any:
    """A context: `checkpoint` has its argument `debug` set so, whatever it is given; None leaves it
    to the argument.
    """
    return _set("debug", enabled)


class _Surroundings:
    """The random numbers and autocast that the first computation met."""

    def __init__(self, preserve_rng_state: bool) -> None:
        self.rng_state = rushlight.get_rng_state() if preserve_rng_state else None
        self.autocast = {
            "enabled": rushlight.is_autocast_enabled("cpu"),
            "dtype": rushlight.get_autocast_dtype("cpu"),
            "cache_enabled": rushlight.is_autocast_cache_enabled(),
        }

    @contextlib.contextmanager
    def again(self) -> Iterator[Any]:
        with rushlight.random.fork_rng(enabled=self.rng_state is not None):
            if self.rng_state is not None:
                rushlight.set_rng_state(self.rng_state)
            with rushlight.enable_grad(), rushlight.amp.autocast("cpu", **self.autocast):
                yield


def checkpoint(
    function: Callable[..., _T],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> _T:
    """function(*args, **kwargs), whose intermediate results are not saved but computed again.

    Args:
        function: what to compute; it must do the same when it is called again.
        args, kwargs: its arguments.
        use_reentrant: False: what the function saves is replaced by what a second call saves. True:
            the older way, by a backward pass within the backward pass, which sees only the tensors
            among `args` and does not work with `autograd.grad`.
        preserve_rng_state: draw the same random numbers in both calls (default).
        context_fn: returns two contexts, for the first call and for the second; not if reentrant.
        determinism_check: "default" compares shapes, dtypes and devices of what both calls save;
            "none" does not.
        debug: errors list the operations of both calls, with their lines.
        early_stop: stop the second call once it has saved what is needed.

    Raises:
        CheckpointError: in the backward pass, if the second call differs from the first.

    Example:
        >>> x = rushlight.ones(2, requires_grad=True)
        >>> checkpoint(lambda x: (x * 3).exp(), x, use_reentrant=False).sum().backward()
        >>> x.grad
        tensor([60.2566, 60.2566])
    """
    preserve_rng_state = kwargs.pop("preserve_rng_state", True)
    if use_reentrant is None:
        _warn_program(
            "checkpoint: the use_reentrant parameter should be passed explicitly, False being "
            "recommended; without it, it is"
            " True.",
        )
        use_reentrant = True
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn or debug:
            raise ValueError(
                "Passing `context_fn` or `debug` is only supported when use_reentrant=False."
            )
        return CheckpointFunction.apply(function, preserve_rng_state, *args)
    if determinism_check not in ("default", "none"):
        raise ValueError(
            f"determinism_check should be one of ['default', 'none'] but got {determinism_check}"
        )
    debug = debug if _settings["debug"] is None else _settings["debug"]
    if debug and context_fn is not noop_context_fn:
        raise ValueError("debug=True is incompatible with non-default context_fn")
    if debug:
        first_context, second_context = (_checkpoint_log.OperationLog() for _ in range(2))
    else:
        first_context, second_context = context_fn()
    if not rushlight.is_grad_enabled():
        with first_context:
            return function(*args, **kwargs)
    frame = _Frame(
        function, args, kwargs, _Surroundings(preserve_rng_state), second_context,
        determinism_check == "default",
        early_stop and _settings["early_stop"],
        first_context if debug else None,
    )  # fmt: skip
    frame.enter(first_context)
    with rushlight.autograd.graph.saved_tensors_hooks(frame.pack, frame.unpack), first_context:
        result = function(*args, **kwargs)
    frame.is_complete = True
    return result


class _Frame:
    """One checkpointed call: how many tensors it saved, of what kind, and how to get them again."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: Any,
        kwargs: Any,
        surroundings: _Surroundings,
        context: Any,
        check: bool,
        early_stop: bool,
        log: _checkpoint_log.OperationLog | None,
    ) -> None:
        self.function, self.args, self.kwargs = function, args, kwargs
        self.surroundings, self.context = surroundings, context
        self.check, self.early_stop, self.log = check, early_stop, log
        self.versions = [
            (t, t._version)
            for t in (*args, *kwargs.values())
            if isinstance(t, Tensor) and not t.is_inference()
        ]
        self.kinds = []  # of the saved tensors, in their order
        self.again = {}  # the number of a saved tensor -> the tensor
        self.is_complete = False  # is the first call over? It may take gradients itself.

    def pack(self, tensor: Tensor) -> tuple[_Frame, int]:
        self.kinds.append((tuple(tensor.shape), tensor.dtype, tensor.device))
        return self, len(self.kinds) - 1

    @staticmethod
    def unpack(packed: Sequence[int | _Frame]) -> Tensor:
        """The tensor that `pack` was given, from now on the caller's alone."""
        frame, number = packed
        if number not in frame.again:
            frame.recompute()
        return frame.again.pop(number)

    def enter(self, context: Any) -> None:
        """Let a context that chooses what to keep know whose tensors these are."""
        if isinstance(context, Selective):
            context.frame = self

    def recompute(self) -> None:
        for tensor, version in self.versions:
            if tensor._version != version:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an "
                    f"inplace operation: an argument of checkpoint, of shape {tuple(tensor.shape)},"
                    f" is at version {tensor._version}; expected version {version} instead. The "
                    "function would be computed again from its new values; let it change a clone()"
                )
        count = 0

        def pack(tensor):
            nonlocal count
            if count < len(self.kinds):
                self.again[count] = tensor.detach() if tensor.requires_grad else tensor
            count += 1
            if self.early_stop and count == len(self.kinds):
                raise _AllSavedAgain(self)
            return tensor.detach()

        hooks = rushlight.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
        self.pack_again = pack
        self.enter(self.context)
        try:
            with self.surroundings.again(), hooks, self.context:
                self.function(*self.args, **self.kwargs)
        except _AllSavedAgain as stop:
            if stop.frame is not self:
                raise
        finally:
            del self.pack_again
        self._compare(count)

    def _compare(self, count):
        if count < len(self.kinds) or (self.is_complete and count > len(self.kinds)):
            self._fail(
                "checkpoint: A different number of tensors was saved in the recomputation\n"
                f"Number of tensors saved during forward: {len(self.kinds)}\n"
                f"Number of tensors saved during recomputation: {count}"
            )
        for i, (shape, dtype, device) in enumerate(self.kinds) if self.check else ():
            kind = tuple(self.again[i].shape), self.again[i].dtype, self.again[i].device
            if kind != (shape, dtype, device):
                self._fail(
                    "checkpoint: recomputed tensors have different metadata than those saved\n"
                    f"tensor at position {i}: saved {(list(shape), dtype, device)}, "
                    f"recomputed {(list(kind[0]), *kind[1:])}"
                )

    def _fail(self, text):
        if self.log is not None:
            text += f"\nOperations of forward:\n{self.log}"
            text += f"\nOperations of the recomputation:\n{self.context}"
        raise CheckpointError(text)


class CheckpointFunction(rushlight.autograd.Function):
    """The reentrant way: forward without a graph, and in backward a graph of its own."""

    @staticmethod
    def forward(
        ctx: Any, run_function: Callable[..., Any] | Module, preserve_rng_state: bool, *args: Any
    ) -> Tensor:
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.surroundings = _Surroundings(preserve_rng_state)
        ctx.inputs = [None if isinstance(a, Tensor) else a for a in args]
        ctx.places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        ctx.save_for_backward(*(args[i] for i in ctx.places))
        with rushlight.no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[None, None, Tensor]:
        if _C.backward_is_restricted():  # the pass inside would fill .grad of what it was not to
            raise RuntimeError(
                "torch.utils.checkpoint is incompatible, with use_reentrant=True, with .grad() or "
                "backward(inputs=...), as it cannot tell what the function reads beside its "
                "arguments; pass use_reentrant=False"
            )
        inputs = list(ctx.inputs)
        for place, tensor in zip(ctx.places, ctx.saved_tensors):
            inputs[place] = tensor.detach().requires_grad_(tensor.requires_grad)
        with ctx.surroundings.again():
            outputs = ctx.run_function(*inputs)
        if isinstance(outputs, Tensor):
            outputs = (outputs,)
        with_grad = [
            (o, g) for o, g in zip(outputs, grads) if isinstance(o, Tensor) and o.requires_grad
        ]
        if not with_grad:
            raise RuntimeError(
                "none of output has requires_grad=True, this checkpoint() is not necessary"
            )
        rushlight.autograd.backward([o for o, _ in with_grad], [g for _, g in with_grad])
        return None, None, *(i.grad if isinstance(i, Tensor) else None for i in inputs)


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """(devices, states of their generators) of the GPUs whose tensors are among the arguments: two
    empty lists.
    """
    return [], []


def set_device_states(devices: Any, states: Any, *, device_type: Any = None) -> None:
    """Set the states of GPUs' generators, as `get_device_states` returned them."""
    for device in devices:
        rushlight.cuda.set_rng_state(None, device)  # there is none: the error says so


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """The tensors of a tuple without their history."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(
            "Only tuple of tensors is supported. Got Unsupported input type: ",
            type(inputs).__name__,
        )
    return tuple(
        i.detach().requires_grad_(i.requires_grad) if isinstance(i, Tensor) else i for i in inputs
    )


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn if no tensor requires a gradient."""
    if not any(i.requires_grad for i in inputs if isinstance(i, Tensor)):
        _warn_program("None of the inputs have requires_grad=True. Gradients will be None")


def checkpoint_sequential(
    functions: Module | Sequence[Callable[..., Any]],
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    **kwargs: Any,
) -> Any:
    """Run functions one after another, all but the last of `segments` equal parts checkpointed.

    Args:
        functions: a Sequential, or functions of one argument.
        segments: into how many parts to divide them.
        input: the argument of the first.
        use_reentrant, preserve_rng_state: see checkpoint.

    Example:
        >>> model = rushlight.nn.Sequential(*(rushlight.nn.Linear(2, 2) for _ in range(4)))
        >>> checkpoint_sequential(model, 2, rushlight.ones(1, 2), use_reentrant=False).shape
        torch.Size([1, 2])
    """
    if use_reentrant is None:
        _warn_program(
            "checkpoint_sequential: the use_reentrant parameter should be passed explicitly, False "
            "being recommended; without"
            " it, it is True.",
        )
        use_reentrant = True
    preserve_rng_state = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    functions = (
        list(functions.children())
        if isinstance(functions, rushlight.nn.Sequential)
        else list(functions)
    )

    def run(part):
        def forward(x):
            for function in part:
                x = function(x)
            return x

        return forward

    size = max(len(functions) // segments, 1)
    last = size * (min(segments, len(functions)) - 1)
    for start in range(0, last, size):
        input = checkpoint(
            run(functions[start : start + size]),
            input,
            use_reentrant=use_reentrant,
            preserve_rng_state=preserve_rng_state,
        )
    return run(functions[last:])(input)


class DefaultDeviceType:
    """The kind of device whose random numbers are preserved where the arguments name none."""

    _type = "cuda"

    @staticmethod
    def set_device_type(device: Device = "cuda") -> None:
        """Set it."""
        DefaultDeviceType._type = device

    @staticmethod
    def get_device_type() -> str:
        """What was set."""
        return DefaultDeviceType._type


def __getattr__(name: str) -> Any:
    if name == "SAC_IGNORED_OPS":  # what selective checkpointing neither keeps nor repeats
        return {rushlight.ops.aten.detach.default}
    raise AttributeError(f"module 'rushlight.utils.checkpoint' has no attribute {name!r}")


globals().update(
    _absent.refused({"GraphExecGroup": "backward runs as one pass, whatever it repeats"})
)

__all__ = [
    "CheckpointError", "CheckpointFunction", "CheckpointPolicy", "DefaultDeviceType",
    "SelectiveCheckpointContext", "check_backward_validity", "checkpoint",
    "checkpoint_sequential", "create_selective_checkpoint_contexts", "detach_variable",
    "noop_context_fn",
    "set_checkpoint_debug_enabled", "set_checkpoint_early_stop",
]  # fmt: skip

set_module(
    __name__, CheckpointPolicy, SelectiveCheckpointContext, create_selective_checkpoint_contexts
)
