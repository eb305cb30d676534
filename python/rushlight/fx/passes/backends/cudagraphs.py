"""Finding the parts of a graph that are computed on CUDA devices alone."""

from __future__ import annotations

import operator

from rushlight import Tensor
from rushlight.fx.node import map_aggregate
from rushlight.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from rushlight.fx.passes.operator_support import OperatorSupport
from rushlight.fx.passes.shape_prop import ShapeProp
from rushlight.fx.passes.tools_common import CALLABLE_NODE_OPS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from rushlight.fx.graph_module import GraphModule
    from rushlight.fx.node import Node
    from rushlight.nn import Module

__all__ = ["CudaGraphsSupport", "partition_cudagraphs"]


class CudaGraphsSupport(OperatorSupport):
    """Calls whose arguments and values, noted in `meta["val"]`, are on CUDA devices."""

    def is_node_supported(self, submodules: Mapping[str, Module], node: Node) -> bool:
        del submodules  # where a module's parameters are, its value tells
        if node.op not in CALLABLE_NODE_OPS:
            return False
        if node.target is operator.getitem:
            return True
        elsewhere = []

        def look(value):
            if isinstance(value, Tensor) and value.device.type != "cuda":
                elsewhere.append(value)

        for one in (*node.all_input_nodes, node):
            map_aggregate(one.meta["val"] if "val" in one.meta else one.meta["fake_result"], look)
        return not elsewhere


class _ValueProp(ShapeProp):
    """Notes the values themselves: the meta device would hide which device they are on."""

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        n.meta["val"] = result
        return result


def partition_cudagraphs(gm: GraphModule, inputs: Sequence[Any]) -> GraphModule:
    """Put calls of modules in the place of what is computed on CUDA devices alone.

    Args:
        gm: the module, which is changed.
        inputs: an example, on which it runs.

    Returns:
        `gm`.
    """
    _ValueProp(gm).propagate(*inputs)
    partitioner = CapabilityBasedPartitioner(
        gm, CudaGraphsSupport(), allows_single_node_partition=True
    )
    partitions = partitioner.propose_partitions()
    for node in gm.graph.nodes:
        node.meta.pop("val", None)  # they would keep the example's values alive
    return partitioner.fuse_partitions(partitions)
