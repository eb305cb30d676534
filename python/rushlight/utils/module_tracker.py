"""Which modules are running."""

from __future__ import annotations

import weakref

import rushlight
from rushlight import Tensor
from rushlight.autograd.graph import register_multi_grad_hook
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
        is_bw: did the backward pass of a module begin, and no other module's forward since then?

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
    is_bw: bool

    def __init__(self) -> None:
        self.parents, self.is_bw = {"Global"}, False
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

    def _name(self, module):
        name = self._names.get(module)
        if name is None:
            name = self._names[module] = type(module).__name__
        for child, inner in module.named_children():
            self._names.setdefault(inner, f"{name}.{child}")
        return name

    def _begin(self, module, inputs):
        name = self._name(module)
        self.parents.add(name)
        self.is_bw = False
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
        self.parents.add(name)
        self.is_bw = True


def _with_gradients(values):
    return [t for t in tree_leaves(values) if isinstance(t, Tensor) and t.requires_grad]
