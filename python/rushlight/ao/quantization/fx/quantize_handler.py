"""What handles a match of a pattern: how its inputs and result are observed."""

from __future__ import annotations

from rushlight.ao.quantization.backend_config.backend_config import ObservationType
from rushlight.fx.node import Node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight.nn.modules.module import Module


def _first(pattern):
    """The root of a matched pattern: the first argument of the first argument, and so on."""
    while isinstance(pattern, (list, tuple)):
        pattern = pattern[-1]
    return pattern


class QuantizeHandler:
    """A match of a pattern.

    Args:
        node_pattern: the matched nodes, nested tuples with the last one first.
        modules: the modules of the model by name.
        root_node_getter: a function that finds the root among the nodes.
        is_custom_module: the root is a module that stands for another while it is observed.
        is_standalone_module: the root is quantized by itself.
    """

    node_pattern: Any
    modules: Any
    is_custom_module_: bool
    is_standalone_module_: bool

    observation_type = ObservationType.OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT

    def __init__(
        self,
        node_pattern: Any,
        modules: dict[str, Module],
        root_node_getter: Callable[..., Any] | None = None,
        is_custom_module: bool = False,
        is_standalone_module: bool = False,
    ) -> None:
        self.node_pattern, self.modules = node_pattern, modules
        self.root_node: Any = (root_node_getter or _first)(node_pattern)
        self.is_custom_module_, self.is_standalone_module_ = is_custom_module, is_standalone_module
        args = self.root_node.args if isinstance(self.root_node, Node) else ()
        self.num_tensor_args: int = sum(isinstance(arg, Node) for arg in args)

    def is_general_tensor_value_op(self) -> bool:
        """Does the result share its input's observer?"""
        return self.observation_type is ObservationType.OUTPUT_SHARE_OBSERVER_WITH_INPUT

    def is_custom_module(self) -> bool:
        """Does the root stand for another module while it is observed?"""
        return self.is_custom_module_

    def is_standalone_module(self) -> bool:
        """Is the root quantized by itself?"""
        return self.is_standalone_module_


class BinaryOpQuantizeHandler(QuantizeHandler):
    """A match of a sum or product."""


class CatQuantizeHandler(QuantizeHandler):
    """A match of `cat`."""


class ConvReluQuantizeHandler(QuantizeHandler):
    """A match of a convolution."""


class LinearReLUQuantizeHandler(QuantizeHandler):
    """A match of a linear layer."""


class BatchNormQuantizeHandler(QuantizeHandler):
    """A match of a batch norm."""


class EmbeddingQuantizeHandler(QuantizeHandler):
    """A match of an embedding."""


class RNNDynamicQuantizeHandler(QuantizeHandler):
    """A match of a recurrent layer."""


class DefaultNodeQuantizeHandler(QuantizeHandler):
    """A match of what has steps of its own."""


class FixedQParamsOpQuantizeHandler(QuantizeHandler):
    """A match of what has a known range."""


class CopyNodeQuantizeHandler(QuantizeHandler):
    """A match of what has its input's values."""

    observation_type = ObservationType.OUTPUT_SHARE_OBSERVER_WITH_INPUT


class GeneralTensorShapeOpQuantizeHandler(QuantizeHandler):
    """A match of what moves elements."""

    observation_type = ObservationType.OUTPUT_SHARE_OBSERVER_WITH_INPUT


class CustomModuleQuantizeHandler(QuantizeHandler):
    """A match of a module that stands for another while it is observed."""


class StandaloneModuleQuantizeHandler(QuantizeHandler):
    """A match of a module that is quantized by itself."""


__all__ = [
    "BatchNormQuantizeHandler", "BinaryOpQuantizeHandler", "CatQuantizeHandler",
    "ConvReluQuantizeHandler", "CopyNodeQuantizeHandler", "CustomModuleQuantizeHandler",
    "DefaultNodeQuantizeHandler", "EmbeddingQuantizeHandler", "FixedQParamsOpQuantizeHandler",
    "GeneralTensorShapeOpQuantizeHandler", "LinearReLUQuantizeHandler", "QuantizeHandler",
    "RNNDynamicQuantizeHandler", "StandaloneModuleQuantizeHandler",
]  # fmt: skip
