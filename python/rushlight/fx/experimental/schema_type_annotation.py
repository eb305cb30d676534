"""Types of nodes, as the functions and layers that they call say."""

from __future__ import annotations

import inspect

import rushlight
from rushlight import Tensor, nn
from rushlight.fx.interpreter import Transformer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.fx.graph_module import GraphModule
    from rushlight.fx.proxy import Proxy

__all__ = ["AnnotateTypesWithSchema"]

_TYPES = {"Tensor": Tensor, "int": int, "float": float, "bool": bool, "str": str}


def _returned(function):
    """The annotation of what a function returns, or None."""
    try:
        kind = inspect.signature(function).return_annotation
    except (TypeError, ValueError):
        return None
    if isinstance(kind, str):
        kind = _TYPES.get(kind, inspect.Signature.empty)
    return None if kind is inspect.Signature.empty else kind


def _type_of(value):
    """The annotation of an attribute's value."""
    if isinstance(value, Tensor):
        return Tensor
    return type(value) if isinstance(value, (int, float, bool, str, complex)) else None


class AnnotateTypesWithSchema(Transformer):
    """Makes a module whose nodes have types, those that had none.

    Args:
        module: the module.
        annotate_functionals: by annotations of `torch.nn.functional`.
        annotate_modules: by annotations of the layers of `torch.nn`.
        annotate_get_attrs: by the attributes themselves.
    """

    annotate_modules: bool
    annotate_get_attrs: bool

    def __init__(
        self,
        module: GraphModule,
        annotate_functionals: bool = True,
        annotate_modules: bool = True,
        annotate_get_attrs: bool = True,
    ) -> None:
        super().__init__(module)
        self.annotate_functionals = annotate_functionals
        self.annotate_modules, self.annotate_get_attrs = annotate_modules, annotate_get_attrs

    @staticmethod
    def _annotated(proxy, kind):
        proxy.node.type = proxy.node.type or kind
        return proxy

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Proxy:
        """Record the call of a function."""
        kind = None
        home = getattr(target, "__module__", None)
        if self.annotate_functionals and home == nn.functional.__name__:
            kind = _returned(target)
            if kind is None and isinstance(target, rushlight._C.function):
                kind = Tensor  # operations of the table
        return self._annotated(super().call_function(target, args, kwargs), kind)

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Proxy:
        """Record the call of a layer."""
        module, kind = self.fetch_attr(target), None
        if self.annotate_modules and getattr(nn, type(module).__name__, None) is type(module):
            kind = _returned(module.forward)
        return self._annotated(super().call_module(target, args, kwargs), kind)

    def get_attr(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Proxy:
        """Record the fetching of an attribute."""
        proxy = super().get_attr(target, args, kwargs)
        return self._annotated(
            proxy, _type_of(self.fetch_attr(target)) if self.annotate_get_attrs else None
        )
