"""Noting the shapes and dtypes of all values, by running on an example."""

from __future__ import annotations

from typing import Any, NamedTuple

import rushlight
from rushlight.fx.interpreter import Interpreter
from rushlight.fx.node import map_aggregate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight import Tensor
    from rushlight.fx.graph_module import GraphModule
    from rushlight.fx.node import Node

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """What is known of a tensor without its elements."""

    shape: rushlight.Size
    dtype: rushlight.dtype
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: Any
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(result, include_contiguity=True):
    memory_format = None
    formats = [rushlight.contiguous_format]
    if result.dim() == 4:
        formats.append(rushlight.channels_last)
    if result.dim() == 5:
        formats.append(rushlight.channels_last_3d)
    for candidate in formats if include_contiguity else ():
        if result.is_contiguous(memory_format=candidate):
            memory_format = candidate
            break
    return TensorMetadata(
        result.shape, result.dtype, result.requires_grad, result.stride(), memory_format, False, {}
    )


class ShapeProp(Interpreter):
    """Runs a graph and notes `meta["tensor_meta"]` and `meta["type"]` of its nodes.

    Example:
        >>> traced = torch.fx.symbolic_trace(nn.Linear(4, 2))
        >>> _ = torch.fx.passes.shape_prop.ShapeProp(traced).propagate(torch.rand(3, 4))
        >>> [tuple(node.meta["tensor_meta"].shape) for node in traced.graph.nodes][-1]
        (3, 2)
    """

    def __init__(self, gm: GraphModule, fake_mode: Any = None) -> None:
        if fake_mode is not None:
            raise NotImplementedError(
                "ShapeProp: there are no fake modes; propagate tensors on the meta device"
            )
        super().__init__(gm)

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        found = []

        def note(value):
            if not isinstance(value, rushlight.Tensor):
                return value
            found.append(value)
            return _extract_tensor_metadata(value)

        meta = map_aggregate(result, note)
        if found:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Tensor:
        """Run on the example and return the output."""
        return self.run(*args)
