"""Two tensors exchanged, for `utils.swap_tensors`."""

from __future__ import annotations

import weakref

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def swap(t1: Any, t2: Any) -> None:
    """See `utils.swap_tensors`."""
    for tensor in (t1, t2):
        if weakref.getweakrefs(tensor):
            raise RuntimeError("Cannot swap t1 and t2 if either of them has weakrefs associated")
        if not tensor.is_leaf:
            raise RuntimeError(
                "Cannot swap t1 and t2 if either of them was computed: they would leave the graph"
            )
    dicts = dict(t1.__dict__), dict(t2.__dict__)
    classes = type(t1), type(t2)
    requires = t1.requires_grad, t2.requires_grad
    grads = t1.grad, t2.grad
    with rushlight.no_grad(), rushlight._C.DisableTorchFunction():  # the elements, of any class
        for tensor in (t1, t2):
            tensor.grad = None
            tensor.requires_grad_(False)
        data = t1.detach(), t2.detach()
        t1.data, t2.data = data[1], data[0]
    for tensor, kind, attributes, needed, grad in zip(
        (t1, t2), classes[::-1], dicts[::-1], requires[::-1], grads[::-1]
    ):
        if type(tensor) is not kind:
            tensor.__class__ = kind
        tensor.__dict__.clear()
        tensor.__dict__.update(attributes)
        tensor.requires_grad_(needed)
        tensor.grad = grad
