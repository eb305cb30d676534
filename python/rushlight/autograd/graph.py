"""Looking into the graph and at the tensors it has saved."""

from __future__ import annotations

import collections
import contextlib
import threading
import weakref
from typing import NamedTuple

import rushlight
from rushlight import _C, _absent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence
    from typing import Any

    from typing_extensions import Self

    from rushlight import Tensor
    from rushlight.utils.hooks import RemovableHandle

Node = _C.Node


class GradientEdge(NamedTuple):
    """Where a gradient enters a node: it can stand for a tensor in `grad`.

    `node` is the producer, or the accumulator of a leaf, `output_nr` which of its outputs is meant.
    """

    node: Node
    output_nr: int
    ownership_token: Any = None


_InputMetadata: type[Any] = collections.namedtuple("_InputMetadata", ["shape", "dtype", "device"])


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Return the `GradientEdge` at which the gradient of `tensor` arrives."""
    if not tensor.requires_grad:
        raise RuntimeError(
            "get_gradient_edge: a tensor that does not require gradients has no gradient edge"
        )
    if tensor.grad_fn is not None:
        return GradientEdge(tensor.grad_fn, tensor.output_nr)
    with rushlight.enable_grad():
        accumulator = tensor.view_as(tensor).grad_fn.next_functions[0][0]
    return GradientEdge(accumulator, tensor.output_nr)


class saved_tensors_hooks:
    """Choose how the tensors that ops save for backward are stored.

    Args:
        pack_hook: called with each tensor that is saved; what it returns is kept in its place. It
            must not change the tensor.
        unpack_hook: called with what was kept, must return a tensor of equal value.

    Example:
        >>> with saved_tensors_hooks(lambda x: x.half(), lambda x: x.float()):
        ...     y = model(x)
    """

    def __init__(
        self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]
    ) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        _C.push_saved_tensors_hooks(self.pack_hook, self.unpack_hook)

    def __exit__(self, *error: object) -> None:
        _C.pop_saved_tensors_hooks()


class save_on_cpu(saved_tensors_hooks):
    """Keep saved tensors in the memory of the CPU and bring them back for backward.

    Args:
        pin_memory: keep them in page-locked memory, from which they come back asynchronously;
            without an accelerator there is none, and it changes nothing.
        device_type: kind of accelerator that the tensors come from.
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(tensor):
            if not (pin_memory and rushlight.accelerator.is_available()):
                return tensor.device, tensor.cpu()
            kept = rushlight.empty(
                tensor.size(), dtype=tensor.dtype, layout=tensor.layout, pin_memory=True
            )
            kept.copy_(tensor)
            return tensor.device, kept

        def unpack(packed):
            device, tensor = packed
            return tensor.to(device, non_blocking=pin_memory)

        super().__init__(pack, unpack)


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Generator[None, None, None]:
    """Make the use of `saved_tensors_hooks` an error with the given text."""
    before = _C.saved_tensors_hooks_disabled()
    _C.disable_saved_tensors_hooks(error_message)
    try:
        yield
    finally:
        if before is None:
            _C.enable_saved_tensors_hooks()
        else:
            _C.disable_saved_tensors_hooks(before)


_mutation_allowed = threading.local()


class _SavedCopy:
    """A tensor that an op has saved."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor: Tensor | None = tensor.clone()

    def get(self) -> Tensor:
        if self.tensor is None:
            raise RuntimeError(
                "allow_mutation_on_saved_tensors: Trying to backward through a graph whose saved "
                "tensors were dropped by clear()"
            )
        return self.tensor


class _SavedCopies:
    """What ops have saved inside of `allow_mutation_on_saved_tensors`."""

    def __init__(self) -> None:
        self._copies: weakref.WeakSet[_SavedCopy] = weakref.WeakSet()

    def pack(self, tensor: Tensor) -> _SavedCopy:
        copy = _SavedCopy(tensor)
        self._copies.add(copy)
        return copy

    def clear(self) -> None:
        """Drop the copies: backward through what was computed so far is no longer possible."""
        for copy in self._copies:
            copy.tensor = None
        self._copies.clear()


@contextlib.contextmanager
def allow_mutation_on_saved_tensors() -> Generator[_SavedCopies, None, None]:
    """Let tensors that ops have saved be changed in place, with the gradients of their old values.

    Each op then saves copies, so expect it to need the memory that sharing would have spared. The
    value of the `with` statement has a method `clear()`, which drops them.

    Example:
        >>> with allow_mutation_on_saved_tensors():
        ...     y = x.exp()
        ...     y = y.mul_(2)
        >>> y.sum().backward()
    """
    if getattr(_mutation_allowed, "active", False):
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    _mutation_allowed.active = True
    copies = _SavedCopies()
    try:
        with saved_tensors_hooks(copies.pack, _SavedCopy.get):
            yield copies
    finally:
        _mutation_allowed.active = False


class _MultiHandle:
    """Removes a group of hooks."""

    def __init__(self, handles: tuple[RemovableHandle, ...]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def register_multi_grad_hook(
    tensors: Sequence[Tensor],
    fn: Callable[[Sequence[Tensor | None]], None] | Callable[[Tensor], None],
    *,
    mode: str = "all",
) -> RemovableHandle:
    """Register a hook on the gradients of several tensors.

    Args:
        tensors: tensors that require gradients; in mode "any" those that do not are left out.
        fn: in mode "all" called once per backward pass with the list of gradients, None for tensors
            that the pass does not reach, when the last of them is known; in mode "any" called with
            the first gradient alone.
        mode: "all" or "any".

    Returns:
        A handle whose `remove()` takes the hook away.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    tensors = tuple(tensors)
    if mode == "any":
        hook = _first_only(fn)
        return _MultiHandle(t.register_hook(hook) for t in tensors if t.requires_grad)
    nodes = [get_gradient_edge(tensor).node for tensor in tensors]
    collect = _Collector(fn, nodes, threading.Lock())
    return _MultiHandle(
        tensor.register_hook(collect.hook(position)) for position, tensor in enumerate(tensors)
    )


def _first_only(fn):
    """Calls fn in a backward pass once, also if passes within that pass call it meanwhile."""
    seen = threading.local()  # a pass runs on the thread that asked for it

    def hook(gradient):
        task = _C.current_graph_task_id()
        passes = seen.__dict__.setdefault("passes", collections.deque(maxlen=1000))
        while passes and passes[-1] > task:  # within this one, and at an end
            passes.pop()
        if passes and passes[-1] == task:
            return
        passes.append(task)
        fn(gradient)

    return hook


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Note that the elements of a tensor, or of several, were changed in place from outside: what
    has saved them for backward then refuses to use them.
    """
    for t in (tensor,) if isinstance(tensor, rushlight.Tensor) else tensor:
        if t.is_inference():  # nothing saves it for backward, so that it has no version
            continue
        t.detach().as_strided((0,), (1,)).zero_()


class _Collector:
    """Gathers the gradients of one backward pass until all that will come have come."""

    def __init__(self, fn: Callable[..., Any], nodes: Sequence[Any], lock: Any) -> None:
        self._fn = fn
        self._nodes = nodes
        self._lock = lock
        self._passes = {}  # graph task -> (gradients so far, how many are still to come)

    def hook(self, position: int) -> Callable[..., Any]:
        def collect(gradient):
            task = _C.current_graph_task_id()
            with self._lock:
                if task not in self._passes:
                    here = self._nodes[position]
                    expected = sum(
                        node is here or _C.will_engine_execute_node(node) for node in self._nodes
                    )
                    self._passes[task] = [[None] * len(self._nodes), expected]
                entry = self._passes[task]
                entry[0][position] = gradient
                entry[1] -= 1
                complete = entry[1] == 0
                if complete:
                    del self._passes[task]
            if complete:
                self._fn(entry[0])

        return collect


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Whether to warn of gradients that come on another stream than their leaf's: the engine works
    on one stream, so that none does.
    """


globals().update(
    _absent.refused(
        {
            "region_activation_memory_budget": "nothing is compiled; utils.checkpoint keeps memory "
            "within bounds",
            "set_override_stale_capture_stream": "backward runs on the stream that calls it",
        }
    )
)
