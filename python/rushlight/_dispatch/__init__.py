"""Operations below autograd, seen by Python: `__torch_dispatch__` of modes and of classes.

A `__torch_function__` mode, the bridge, stands outside of all others while a dispatch mode is
active; `_lowering` turns what it sees into operations of `torch.ops.aten`, and each of them is one
`call`: autograd records it (`_gradients`), then the modes and the classes of its arguments are
asked, the innermost mode first. With no mode and no such class nothing of this is imported.
"""

from __future__ import annotations

import importlib
import threading

import rushlight
from rushlight import _C, Tensor
from rushlight.overrides import TorchFunctionMode, _remove_mode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from typing_extensions import Self

    from rushlight.library._operator import OpOverload


class _State(threading.local):
    """What each thread has of its own."""

    def __init__(self) -> None:
        self.modes: list[Any] = []  # that are active, the innermost last
        self.bridged = False  # does the bridge stand among the function modes?
        self.recording: Any = None  # the operation whose own run records a node


state = _State()


class _Bridge(TorchFunctionMode):
    """Leads what a program calls to the dispatch modes."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type[Any]],
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        if any(not dispatches(t) for t in types):
            return NotImplemented  # classes that take functions over come first
        from rushlight._dispatch import _lowering

        outer, state.bridged = state.bridged, False
        try:
            return _lowering.run(func, args, kwargs or {})
        finally:
            state.bridged = outer


_bridge = _Bridge()


class active:
    """A context in which these dispatch modes are active, and no others."""

    def __init__(self, modes: Sequence[Any]) -> None:
        self._modes = list(modes)

    def __enter__(self) -> Self:
        self._outer, state.modes = state.modes, self._modes
        self._was_bridged = state.bridged
        set_bridge(bool(self._modes))
        return self

    def __exit__(self, *exception: object) -> None:
        set_bridge(self._was_bridged)
        state.modes = self._outer


def set_bridge(wanted: bool) -> None:
    """Put the bridge below all function modes, or take it away."""
    if wanted == state.bridged:
        return
    if wanted:
        inner = [_C._pop_torch_function_mode() for _ in range(_C._len_torch_function_stack())]
        for mode in (_bridge, *reversed(inner)):
            _C._push_torch_function_mode(mode)
    else:
        _remove_mode(_bridge)
    state.bridged = wanted


def enter(mode: Any) -> None:
    """Make a mode the innermost one."""
    _load()
    state.modes = [*state.modes, mode]
    set_bridge(True)


def _load():
    """Import what runs below modes, which these need not see."""
    importlib.import_module("rushlight.nn")
    importlib.import_module("rushlight.export")
    importlib.import_module("rushlight._dispatch._gradients")
    _C._watch_sums_of_gradients(_sum_of_gradients)
    _C._set_dispatch_of_class(_of_class)


def _sum_of_gradients(a, b):
    """The sum of two gradients, or a copy of one (b is None), as an operation that modes see; None
    where none is to see it.
    """
    args = (a,) if b is None else (a, b)
    of_class = any(dispatches(type(t)) for t in args)
    # The first gradient of a leaf is copied below the modes, but for those that must know it again.
    if not of_class and (not state.modes or (b is None and not _follow_all())):
        return None
    aten = rushlight.ops.aten
    copy = aten.detach.default if of_class and not rushlight.is_grad_enabled() else \
        aten.clone.default  # fmt: skip
    importlib.import_module("rushlight._dispatch._gradients").check_origin(args)
    with active(state.modes):
        total = call(copy if b is None else aten.add.Tensor, args, {})
    if of_class:
        _C._keep_gradients([total])
    return total


def leave() -> None:
    """End the innermost mode."""
    state.modes = state.modes[:-1]
    set_bridge(bool(state.modes))


# ---- classes with __torch_dispatch__


def dispatches(cls: type) -> bool:
    """Has the class a `__torch_dispatch__` of its own?"""
    return cls.__dict__.get("_takes_dispatch", False) or any(
        base.__dict__.get("_takes_dispatch", False) for base in cls.__mro__
    )


def adopt(cls: type) -> None:
    """Have the functions that an instance of the new class is given to arrive here."""
    _load()
    cls._takes_dispatch = True
    own = cls.__dict__.get("__torch_function__")
    if own is None or own is _C._disabled_torch_function_impl:
        cls.__torch_function__ = classmethod(_of_class)


def _of_class(cls, func, types, args=(), kwargs=None):
    if any(not dispatches(t) for t in types):
        return NotImplemented
    from rushlight._dispatch import _lowering

    return _lowering.run(func, args, kwargs or {})


def make_wrapper(
    cls: type[Tensor],
    size: Sequence[int],
    strides: Sequence[int] | None,
    storage_offset: int,
    dtype: Any,
    device: Any,
    requires_grad: bool,
) -> Tensor:
    """A tensor without elements of its own, which says that it is on `device`."""
    dtype = rushlight.get_default_dtype() if dtype is None else dtype
    with _C.DisableTorchFunction():
        if strides is None:
            data = rushlight.empty(tuple(size), dtype=dtype, device="meta")
        else:
            data = rushlight.empty_strided(tuple(size), tuple(strides), dtype=dtype, device="meta")
        if storage_offset:
            total = storage_offset + data.untyped_storage().nbytes() // data.element_size()
            whole = rushlight.empty(total, dtype=dtype, device="meta")
            data = whole.as_strided(data.shape, data.stride(), storage_offset)
        made = Tensor._make_subclass(cls, data, requires_grad)
    made.__dict__["_wrapper_device"] = rushlight.device("cpu" if device is None else device)
    return made


# ---- one operation


def tensors_of(values: Any) -> Iterator[Tensor]:
    """The tensors among values, in lists of them too."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_of(value)


def _classes(args, kwargs):
    """Those that dispatch among the classes of the arguments, subclasses first."""
    found = []
    for tensor in tensors_of((*args, *kwargs.values())):
        kind = type(tensor)
        if kind is not Tensor and kind not in found and dispatches(kind):
            place = next((i for i, c in enumerate(found) if issubclass(kind, c)), len(found))
            found.insert(place, kind)
    return tuple(found)


def call(op: OpOverload, args: Any, kwargs: Any) -> Any:
    """An operation as a program calls it: recorded where a gradient is needed, then dispatched."""
    from rushlight._dispatch import _gradients

    if state.recording is op or not _C._records():  # its mode calls it
        return below(op, args, kwargs)
    tensors = tensors_of((*args, *kwargs.values()))
    is_recorded = any(_requires_grad(t) for t in tensors) and not _gradients.is_constant(op)
    follows = is_recorded and _follow_all() and not is_in_place(op)
    # What has no history yet may get one later, by way of a view that is made now.
    if not _classes(args, kwargs) and not follows and _gradients.records_itself(op):
        outer, state.recording = state.recording, op
        try:
            return below(op, args, kwargs)
        finally:
            state.recording = outer
    return (_gradients.record if is_recorded else below)(op, args, kwargs)


def _follow_all():
    """Is there a mode that must see backward of each operation, of views too?"""
    return any(getattr(mode, "follows_all", False) for mode in state.modes)


def _requires_grad(tensor):
    with _C.DisableTorchFunction():
        return tensor.requires_grad


def below(op: OpOverload, args: Any, kwargs: Any) -> Any:
    """Ask the modes, then the classes of the arguments, and at last compute it."""
    types = _classes(args, kwargs)
    modes = state.modes
    for place in range(len(modes) - 1, -1, -1):
        with active(modes[:place]), rushlight.no_grad():
            result = modes[place].__torch_dispatch__(op, types, tuple(args), kwargs)
        if result is not NotImplemented:
            return _answer(op, args, result)
    for kind in types:
        with active(()), rushlight.no_grad():
            result = kind.__torch_dispatch__(op, types, tuple(args), kwargs)
        if result is not NotImplemented:
            return _answer(op, args, result)
    if types or modes:
        asked = [type(mode).__name__ for mode in modes] + [kind.__name__ for kind in types]
        raise TypeError(
            f"Multiple dispatch failed for '{op}'; all __torch_dispatch__ handlers returned "
            f"NotImplemented: {', '.join(asked)}"
        )
    return compute(op, args, kwargs)


def is_in_place(op: OpOverload) -> bool:
    """Does it write its first argument?"""
    return op._opname.endswith("_") and not op._opname.startswith("_")


def _answer(op, args, result):
    """What `__torch_dispatch__` returned; an operation in place has its argument for a result."""
    if isinstance(result, Tensor) and args and isinstance(args[0], Tensor) and is_in_place(op):
        return args[0]
    return result


def compute(op: OpOverload, args: Any, kwargs: Any) -> Any:
    """What the operation gives, without asking anybody."""
    with _C.DisableTorchFunction():
        function = getattr(op, "_function", op)
        if state.recording is op:
            state.recording = None  # what it is made of is recorded with it
            try:
                with rushlight.enable_grad():
                    return function(*args, **kwargs)
            finally:
                state.recording = op
        return function(*args, **kwargs)
