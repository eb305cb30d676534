"""One spelling for calls that can be written in several ways."""

from __future__ import annotations

import operator

import rushlight
from rushlight.fx.experimental.schema_type_annotation import AnnotateTypesWithSchema
from rushlight.fx.interpreter import Transformer
from rushlight.fx.node import Node, map_aggregate
from rushlight.fx.operator_schemas import create_type_hint, normalize_function, normalize_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.fx.graph_module import GraphModule
    from rushlight.fx.proxy import Proxy

__all__ = ["NormalizeArgs", "NormalizeOperators"]


class NormalizeArgs(Transformer):
    """Makes a module whose calls have all arguments, with defaults, in their order.

    Args:
        module: the module. The types in `meta["type"]` choose among several signatures.
        normalize_to_only_use_kwargs: give all by name.

    Raises (in `transform`): RuntimeError where several signatures fit.
    """

    def __init__(self, module: GraphModule, normalize_to_only_use_kwargs: bool = True) -> None:
        super().__init__(module)
        self.node_map: dict[Proxy, Node] = {}
        self.normalize_to_only_use_kwargs = normalize_to_only_use_kwargs

    def run_node(self, n: Node) -> Any:
        args, kwargs = self.fetch_args_kwargs_from_env(n)

        def type_of(value):
            return value.meta.get("type") if isinstance(value, Node) else type(value)

        if n.op == "call_function":
            kinds = tuple(create_type_hint(kind) for kind in map_aggregate(n.args, type_of))
            named = {name: type_of(value) for name, value in n.kwargs.items()}
            result = self._call(n.target, args, kwargs, kinds, named)
        else:
            result = super().run_node(n)
        if n.op != "output":
            self.node_map[result] = n
            result.node.meta, result.node.type = n.meta, n.type
        return result

    def _call(self, target, args, kwargs, kinds, named):
        found = normalize_function(
            target, args, kwargs, kinds, named, self.normalize_to_only_use_kwargs
        )
        return super().call_function(target, *(found or (args, kwargs)))

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Proxy:
        """Record the call of a layer."""
        found = normalize_module(
            self.module, target, args, kwargs, self.normalize_to_only_use_kwargs
        )
        return super().call_module(target, *(found or (args, kwargs)))


class NormalizeOperators(AnnotateTypesWithSchema):
    """Makes a module in which `torch.add` and others of two operands are operators."""

    binary_magic_method_remap: dict[Any, Any] = {
        getattr(rushlight, name): getattr(operator, sign)
        for name, sign in (
            ("add", "add"), ("mul", "mul"), ("sub", "sub"), ("div", "truediv"),
            ("floor_divide", "floordiv"), ("remainder", "mod"), ("eq", "eq"), ("ne", "ne"),
            ("lt", "lt"), ("le", "le"), ("gt", "gt"), ("ge", "ge"),
        )
    }  # fmt: skip

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Proxy:
        """Record the call of a function; one with further arguments stays as it is."""
        if target in self.binary_magic_method_remap and len(args) == 2 and not kwargs:
            target = self.binary_magic_method_remap[target]
        return super().call_function(target, args, kwargs)
