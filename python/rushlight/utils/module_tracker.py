"""Which modules are running."""

from __future__ import annotations

import weakref

import rushlight
from rushlight import Tensor
from rushlight.autograd.graph import register_multi_grad_hook
from rushlight.autograd.variable import Variable
from rushlight.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from rushlight.utils._pytree import tree_leaves

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self

    from rushlight.nn import Module

__all__ = ["ModuleTracker"]


class ModuleTracker:
    """A context that knows which modules are running, forward or backward.

    Attributes:
        parents: their names, from that of the outermost module's class on ("Net.layers.0"), and
            "Global", which is always there.
        is_bw: does a backward pass run in this thread?

    Example:
        >>> import rushlight
        >>> from rushlight.utils.module_tracker import ModuleTracker
        >>> seen = []
        >>> class Shown(rushlight.nn.Module):
        ...     def forward(self, x):
        ...         seen.append(sorted(tracker.parents))
        ...         return x
        >>> with ModuleTracker() as tracker:
        ...     y = rushlight.nn.Sequential(Shown())(rushlight.ones(1))
        >>> seen
        [['Global', 'Sequential', 'Sequential.0']]
    """

    parents: set[str]

    def __init__(self) -> None:
        self.parents = {"Global"}
        self._awaits_end = False  # of the backward pass that runs
        self._names: weakref.WeakKeyDictionary[Module, str] = weakref.WeakKeyDictionary()
        self._hooks: list[Any] = []

    def __enter__(self) -> Self:
        self._hooks = [
            register_module_forward_pre_hook(self._begin),
            register_module_forward_hook(self._end, always_call=True),
        ]
        return self

    def __exit__(self, *exception: object) -> None:
        for hook in self._hooks:
            hook.remove()
        self.parents = {"Global"}

    @property
    def is_bw(self) -> bool:
        """Does a backward pass run in this thread?"""
        return rushlight._C.current_graph_task_id() != -1

    def _name(self, module):
        if module not in self._names:
            for path, inner in module.named_modules(prefix=type(module).__name__):
                self._names.setdefault(inner, path)
        return self._names[module]

    def _begin(self, module, inputs):
        name = self._name(module)
        self.parents.add(name)
        tensors = _with_gradients(inputs)
        if rushlight.is_grad_enabled() and tensors:
            register_multi_grad_hook(tensors, lambda gradients: self.parents.discard(name))

    def _end(self, module, inputs, output):
        name = self._name(module)
        self.parents.discard(name)
        tensors = _with_gradients(output)
        if rushlight.is_grad_enabled() and tensors:
            register_multi_grad_hook(
                tensors, lambda gradient: self._begin_backward(name), mode="any"
            )

    def _begin_backward(self, name):
        if not self._awaits_end:
            self._awaits_end = True
            Variable._execution_engine.queue_callback(self._end_backward)
        self.parents.add(name)

    def _end_backward(self):
        # A module whose inputs need no gradient has not been told that it ended.
        self._awaits_end = False
        self.parents = {"Global"}


def _with_gradients(values):
    return [t for t in tree_leaves(values) if isinstance(t, Tensor) and t.requires_grad]
