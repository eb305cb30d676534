"""Which nodes a backend can compute, as objects that are asked."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import rushlight
from rushlight.fx.node import Node
from rushlight.fx.passes.shape_prop import TensorMetadata
from rushlight.fx.passes.tools_common import CALLABLE_NODE_OPS, get_node_target
from rushlight.nn import Module

__all__ = [
    "OpSupports",
    "OperatorSupport",
    "OperatorSupportBase",
    "any_chain",
    "chain",
    "create_op_support",
]

TargetTypeName = str
# Dtypes for each positional argument, None for any, and for those by name.
SupportedArgumentDTypes = (
    tuple[Sequence[Sequence[rushlight.dtype]], dict[str, Sequence[rushlight.dtype]]] | None
)
SupportDict = Mapping[TargetTypeName, SupportedArgumentDTypes]
IsNodeSupported = Callable[[Mapping[str, Module], Node], bool]


class OperatorSupportBase(abc.ABC):
    """Says which nodes can be computed."""

    @abc.abstractmethod
    def is_node_supported(self, submodules: Mapping[str, Module], node: Node) -> bool:
        """Can the node be computed?

        Args:
            submodules: {path: module}, as `dict(module.named_modules())`.
            node: the node.
        """
        raise NotImplementedError


class OperatorSupport(OperatorSupportBase):
    """Calls can be computed that a dict has, if the dtypes of their arguments are as it says.

    Args:
        support_dict: {`get_node_target` of a node: None, or a pair of the dtypes for each
            positional argument (None for any) and {name: dtypes}}.
    """

    _support_dict: SupportDict

    def __init__(self, support_dict: SupportDict | None = None) -> None:
        self._support_dict = support_dict or {}

    def is_node_supported(self, submodules: Mapping[str, Module], node: Node) -> bool:
        if node.op not in CALLABLE_NODE_OPS:
            return True
        target = get_node_target(submodules, node)
        if target not in self._support_dict:
            return False
        dtypes = self._support_dict[target]
        if dtypes is None:
            return True
        positional, by_name = dtypes
        given = [*zip(node.args, positional)]
        given += [(node.kwargs[name], d) for name, d in by_name.items() if name in node.kwargs]
        return all(
            wanted is None or not isinstance(value, Node) or _get_arg_dtype(value) in wanted
            for value, wanted in given
        )


def _get_arg_dtype(arg: Node) -> Any:
    """The dtype that `ShapeProp` noted; of what is no tensor, its type."""
    meta = arg.meta.get("tensor_meta")
    return meta.dtype if isinstance(meta, TensorMetadata) else arg.meta["type"]


def create_op_support(is_node_supported: IsNodeSupported) -> OperatorSupportBase:
    """An object that asks a function of (submodules, node)."""

    class FunctionalOperatorSupport(OperatorSupportBase):
        def is_node_supported(self, submodules: Mapping[str, Module], node: Node) -> bool:
            return is_node_supported(submodules, node)

    return FunctionalOperatorSupport()


def chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """What all of several can compute."""
    return create_op_support(
        lambda submodules, node: all(s.is_node_supported(submodules, node) for s in op_support)
    )


def any_chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """What one of several can compute."""
    return create_op_support(
        lambda submodules, node: any(s.is_node_supported(submodules, node) for s in op_support)
    )


class OpSupports:
    """Answers to be combined by `chain`."""

    @classmethod
    def decline_if_input_dtype(cls, dtype: rushlight.dtype) -> OperatorSupportBase:
        """All nodes without an argument of the dtype."""
        return create_op_support(
            lambda submodules, node: all(_get_arg_dtype(n) != dtype for n in node.all_input_nodes)
        )

    @classmethod
    def decline_if_node_in_names(cls, disallow_set: set[str]) -> OperatorSupportBase:
        """All nodes but those of the names."""
        return create_op_support(lambda submodules, node: node.name not in disallow_set)
