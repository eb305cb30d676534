"""Computing once what depends on attributes of a module alone."""

from __future__ import annotations

import operator
import re

import rushlight
from rushlight import nn
from rushlight.fx._symbolic_trace import symbolic_trace
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import map_arg
from rushlight.fx.passes.split_module import split_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight.fx.node import Node

__all__ = ["FoldedGraphModule", "get_unique_attr_name_in_module", "split_const_subgraphs"]


class FoldedGraphModule(GraphModule):
    """A module that computes some of its attributes when it is called first.

    Args:
        root, graph: see `GraphModule`.
        const_subgraph: graph without arguments that computes the attributes; None for none.
        fx_const_folded_attrs_name: where its result goes: a parameter, or a list of parameters.
        device_for_folded_attrs: where numbers go that it returns.
    """

    has_folding_been_run: bool

    def __init__(
        self,
        root: nn.Module,
        graph: Graph,
        const_subgraph: Graph | None = None,
        fx_const_folded_attrs_name: str | None = None,
        device_for_folded_attrs: str = "cuda",
    ) -> None:
        super().__init__(root, graph)
        self.const_subgraph_module: GraphModule | None = None
        if const_subgraph is not None:
            self.const_subgraph_module = GraphModule(root, const_subgraph)
        self.has_folding_been_run = False
        self.fx_const_folded_attrs_name = fx_const_folded_attrs_name
        self.device_for_folded_attrs = device_for_folded_attrs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.has_folding_been_run:
            self.run_folding()
        return super().__call__(*args, **kwargs)

    def _parameter(self, value):
        if isinstance(value, int):
            tensor = rushlight.tensor([float(value)], device=self.device_for_folded_attrs)
            return nn.Parameter(tensor, requires_grad=False)
        return nn.Parameter(value.detach().clone(), requires_grad=value.requires_grad)

    def run_folding(self) -> None:
        """Compute the attributes.

        Raises: AssertionError if that was done before.
        """
        if self.const_subgraph_module is None or self.fx_const_folded_attrs_name is None:
            return
        if self.has_folding_been_run:
            raise AssertionError("run_folding: the attributes are computed already")
        self.has_folding_been_run = True
        found = self.const_subgraph_module()
        if isinstance(found, tuple):
            value = nn.ParameterList([self._parameter(v) for v in found])
        else:
            value = self._parameter(found)
        setattr(self, self.fx_const_folded_attrs_name, value)


def get_unique_attr_name_in_module(mod_traced: GraphModule, name: str) -> str:
    """A name like another one that the module has no attribute of."""
    name = re.sub("[^0-9a-zA-Z_]+", "_", name)
    if name[0].isdigit():
        name = f"_{name}"
    while hasattr(mod_traced, name):
        numbered = re.fullmatch(r"(.*)_(\d+)", name)
        name = f"{numbered[1]}_{int(numbered[2]) + 1}" if numbered else f"{name}_1"
    return name


def _is_impure(module, node):
    if node.is_impure():
        return True
    if node.op != "call_module":
        return False
    called = module.get_submodule(node.target)
    return isinstance(called, GraphModule) and any(
        _is_impure(called, n)
        for n in called.graph.nodes
        if n.op in ("call_function", "call_module")
    )


def _constant_nodes(module, skipped):
    """The nodes that depend on attributes alone, and whether they compute something."""
    found = set()
    for node in module.graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        depends = node.op != "get_attr" and not found.issuperset(node.all_input_nodes)
        if not depends and not (skipped and skipped(node)) and not _is_impure(module, node):
            found.add(node)
    return found, any(node.op != "get_attr" for node in found)


def _inline_module(gm, path):
    """Put the nodes of a graph module that is called in the place of the call."""
    inner = gm.get_submodule(path)
    call = next(n for n in gm.graph.nodes if n.op == "call_module" and n.target == path)
    given, values = list(call.args), {}
    for node in inner.graph.nodes:
        if node.op == "placeholder":
            by_name = node.name in call.kwargs
            values[node] = call.kwargs[node.name] if by_name else given.pop(0)
        elif node.op == "output":
            result = map_arg(node.args[0], values.__getitem__)
        else:
            with gm.graph.inserting_before(call):
                values[node] = gm.graph.node_copy(node, values.__getitem__)
    for user in list(call.users):
        if isinstance(result, (tuple, list)) and user.op == "call_function":
            user.replace_all_uses_with(result[user.args[1]])
            gm.graph.erase_node(user)
    if call.users:
        call.replace_all_uses_with(result)
    gm.graph.erase_node(call)


def split_const_subgraphs(
    module: nn.Module | GraphModule,
    skip_folding_node_fn: Callable[[Node], bool] | None = None,
    device_for_folded_attrs: str = "cpu",
) -> FoldedGraphModule:
    """Take out what depends on attributes alone, to be computed once, when the module is called
    first.

    Args:
        module: the module, which stays as it is.
        skip_folding_node_fn: nodes for which it is true are computed in each call.
        device_for_folded_attrs: where numbers go that are computed so.
    """
    traced = module if isinstance(module, GraphModule) else symbolic_trace(module)
    constant, computes = _constant_nodes(traced, skip_folding_node_fn)
    if not computes:
        return FoldedGraphModule(traced, traced.graph)
    split = split_module(traced, module, lambda node: int(node not in constant))
    folded, rest = split.submod_0, getattr(split, "submod_1", None)
    for part in (rest, folded):
        for node in part.graph.nodes if part is not None else ():
            if node.op == "call_module":
                setattr(split, node.target, getattr(part, node.target))
    call = next(n for n in split.graph.nodes if n.target == "submod_0")
    root = GraphModule(split, folded.graph)
    for given, node in zip(call.args, root.graph.find_nodes(op="placeholder")):
        with root.graph.inserting_before(node):
            fetched = root.graph.create_node("get_attr", given.target)
        fetched.meta = dict(node.meta)
        node.replace_all_uses_with(fetched)
        root.graph.erase_node(node)
    values = root.graph.output_node().args[0]
    several = isinstance(values, tuple)
    name = get_unique_attr_name_in_module(traced, "_FX_CONST_FOLDED_ATTRS")
    empty = nn.ParameterList() if several else nn.Parameter(rushlight.empty(0))
    setattr(split, name, empty)
    with split.graph.inserting_before(call):
        attributes = split.graph.get_attr(name)
    attributes.meta = dict(call.meta if several else values.meta)
    for user in call.users if several else ():
        if user.target is operator.getitem:
            user.meta.update(values[user.args[1]].meta)
    call.replace_all_uses_with(attributes)
    if rest is not None:
        _inline_module(split, "submod_1")
    split.graph.eliminate_dead_code()
    return FoldedGraphModule(split, split.graph, root.graph, name, device_for_folded_attrs)
