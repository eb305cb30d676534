"""Questions about nodes of graphs, and small changes of them."""

from __future__ import annotations

import builtins
from typing import NamedTuple

import rushlight
from rushlight import nn
from rushlight.ao.quantization.fx import _refusal
from rushlight.ao.quantization.fx.prepare import ObservedGraphModuleAttrs
from rushlight.ao.quantization.utils import _assert_and_get_unique_device
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class NodeInfo(NamedTuple):
    """What a node does: its kind, and what it calls."""

    op: str
    target: Any


EMPTY_ARG_DICT: dict[Any, Any] = {}
NON_QUANTIZABLE_WEIGHT_OPS: set[Callable[..., Any]] = {
    nn.functional.layer_norm, nn.functional.group_norm, nn.functional.instance_norm
}  # fmt: skip


def all_node_args_except_first(node: Node) -> list[int]:
    """Return the places of all arguments but the first."""
    return list(range(1, len(node.args)))


def return_arg_list(arg_indices: list[int]) -> Callable[[Node], list[int]]:
    """Return a function that gives those of the places that a node has."""
    return lambda node: [place for place in arg_indices if place < len(node.args)]


# Which arguments are numbers or masks, and of which kind: they are not observed.
NON_OBSERVABLE_ARG_DICT: dict[Any, dict[Any, Callable[[Node], list[int]]]] = {
    NodeInfo("call_method", "masked_fill"): {
        rushlight.bool: return_arg_list([1]), float: return_arg_list([2])
    },
    **{
        NodeInfo("call_method", name): {int: all_node_args_except_first}
        for name in ("permute", "repeat", "reshape", "size", "transpose", "view")
    },
    NodeInfo("call_function", rushlight.transpose): {int: all_node_args_except_first},
    NodeInfo("call_method", "unsqueeze"): {int: return_arg_list([1])},
    NodeInfo("call_method", "unsqueeze_"): {int: return_arg_list([1])},
    NodeInfo("call_function", rushlight.unsqueeze): {int: return_arg_list([1])},
}  # fmt: skip


def get_non_observable_arg_indexes_and_types(
    node: Node,
) -> dict[Any, Callable[[Node], list[int]]]:
    """Return which arguments of a node are not observed, by kind."""
    return NON_OBSERVABLE_ARG_DICT.get(NodeInfo(node.op, node.target), EMPTY_ARG_DICT)


def all_node_args_have_no_tensors(
    node: Node, modules: dict[str, nn.Module], cache: dict[Node, bool]
) -> bool:
    """Tell whether a node computes with numbers alone, as of sizes.

    Args:
        modules: the modules of the model by name.
        cache: answers by node.
    """
    if node not in cache:
        if node.op in ("placeholder", "get_attr"):
            cache[node] = False
        elif node.op == "call_module":
            from rushlight.ao.quantization.observer import _is_activation_post_process

            observed = _is_activation_post_process(modules[str(node.target)])
            first = node.args[0] if node.args else None
            cache[node] = bool(
                observed and isinstance(first, Node)
                and all_node_args_have_no_tensors(first, modules, cache)
            )  # fmt: skip
        elif node.op == "call_function" and node.target is builtins.getattr:
            cache[node] = node.args[1] in ("ndim", "shape")
        elif node.op == "call_method" and node.target == "size":
            cache[node] = True
        else:
            inputs = node.all_input_nodes
            cache[node] = all(all_node_args_have_no_tensors(n, modules, cache) for n in inputs)
    return cache[node]


def assert_and_get_unique_device(module: nn.Module) -> Any:
    """Return the device of a module's parameters, None where it has none."""
    return _assert_and_get_unique_device(module)


def node_arg_is_weight(node: Node, arg: Any) -> bool:
    """Tell whether an argument of a product or norm is its weight."""
    return _is_argument(node, arg, "weight")


def node_arg_is_bias(node: Node, arg: Any) -> bool:
    """Tell whether an argument of a product or norm is its bias."""
    return _is_argument(node, arg, "bias")


def _is_argument(node, arg, name):
    from rushlight.ao.quantization.backend_config import get_native_backend_config

    if node.kwargs.get(name) is arg and arg is not None:
        return True
    for config in get_native_backend_config().configs:
        if config.pattern is node.target and node.op == "call_function":
            place = config._input_type_to_index.get(name, len(node.args))
            return place < len(node.args) and node.args[place] is arg
    return False


def get_custom_module_class_keys(custom_module_mapping: dict[Any, dict[Any, Any]]) -> list[Any]:
    """Return all classes of a mapping by QuantType and class."""
    return [kind for classes in custom_module_mapping.values() for kind in classes]


def get_new_attr_name_with_prefix(prefix: str) -> Callable[[nn.Module], str]:
    """Return a function that gives a name with this prefix that a module does not have."""
    prefix = prefix.replace(".", "_")

    def name_for(module):
        count = 0
        while hasattr(module, f"{prefix}{count}"):
            count += 1
        return f"{prefix}{count}"

    return name_for


def create_getattr_from_value(
    module: nn.Module, graph: Graph, prefix: str, value: Any, device: Any = None
) -> Node:
    """Register a value as a buffer, and return the node that reads it."""
    name = get_new_attr_name_with_prefix(prefix)(module)
    device = device if device is not None else assert_and_get_unique_device(module)
    module.register_buffer(name, rushlight.as_tensor(value, device=device).clone().detach())
    return graph.get_attr(name)


def create_node_from_old_node_preserve_meta(
    quantized_graph: Graph, create_node_args: tuple[Any, ...], old_node: Node
) -> Node:
    """Insert a node with another node's `meta`."""
    node = quantized_graph.create_node(*create_node_args)
    node.meta = dict(old_node.meta)
    return node


def collect_producer_nodes(node: Node) -> list[Node] | None:
    """Return the nodes that a node's value is made of, itself first; None with an input of the
    model.
    """
    found, waiting = [node], [node]
    while waiting:
        for source in waiting.pop().all_input_nodes:
            if source.op == "placeholder":
                return None
            found.append(source)
            if not (source.op == "call_function" and source.target is builtins.getattr):
                waiting.append(source)
    return found


def graph_module_from_producer_nodes(root: GraphModule, producer_nodes: list[Node]) -> GraphModule:
    """Return a graph module of what `collect_producer_nodes` returned."""
    if not producer_nodes:
        raise AssertionError("graph_module_from_producer_nodes: there are no nodes")
    graph, copied = Graph(), {}
    for node in reversed(list(dict.fromkeys(producer_nodes))):
        copied[node] = graph.node_copy(node, lambda one: copied[one])
    graph.output(copied[producer_nodes[0]])
    return GraphModule(root, graph)


def get_skipped_module_name_and_classes(
    prepare_custom_config: Any, is_standalone_module: bool
) -> tuple[list[str], list[type]]:
    """Return the names and classes of modules that are recorded as one node."""
    custom = prepare_custom_config
    names, classes = list(custom.non_traceable_module_names), [*custom.non_traceable_module_classes]
    if not is_standalone_module:
        names += custom.standalone_module_names
        classes += custom.standalone_module_classes
        classes += get_custom_module_class_keys(custom.float_to_observed_mapping)
    return names, classes


def maybe_get_next_module(
    node: Node,
    modules: dict[str, nn.Module],
    target_module_type: type[nn.Module] | None = None,
    target_functional_type: Any = None,
) -> Node | None:
    """Return the first user of a node that calls a module of this class, or this function."""
    for user in node.users:
        if user.op == "call_module" and target_module_type is not None:
            if isinstance(modules[str(user.target)], target_module_type):
                return user
        elif user.op == "call_function" and user.target is target_functional_type:
            return user
    return None


get_linear_prepack_op_for_dtype: Any = _refusal.refused(
    __name__, "get_linear_prepack_op_for_dtype", "convert_fx"
)
get_qconv_prepack_op: Any = _refusal.refused(__name__, "get_qconv_prepack_op", "convert_fx")

__all__ = [
    "EMPTY_ARG_DICT", "NON_OBSERVABLE_ARG_DICT", "NON_QUANTIZABLE_WEIGHT_OPS", "NodeInfo",
    "ObservedGraphModuleAttrs", "all_node_args_except_first", "all_node_args_have_no_tensors",
    "assert_and_get_unique_device", "collect_producer_nodes", "create_getattr_from_value",
    "create_node_from_old_node_preserve_meta", "get_custom_module_class_keys",
    "get_linear_prepack_op_for_dtype", "get_new_attr_name_with_prefix",
    "get_non_observable_arg_indexes_and_types", "get_qconv_prepack_op",
    "get_skipped_module_name_and_classes", "graph_module_from_producer_nodes",
    "maybe_get_next_module", "node_arg_is_bias", "node_arg_is_weight", "return_arg_list",
]  # fmt: skip
