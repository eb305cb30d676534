"""Running a graph node by node, and rewriting it while it runs."""

from __future__ import annotations

from rushlight.fx import _symbolic_trace, traceback
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import map_aggregate, map_arg
from rushlight.fx.proxy import Proxy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from rushlight.fx.node import Node, Target
    from rushlight.nn.modules.module import Module

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Runs a module's graph; subclasses change what is done for each kind of node.

    Args:
        module: a `GraphModule`, or a module whose attributes `graph` names.
        garbage_collect_values: drop values after their last use.
        graph: the graph, if not the module's.

    Example:
        >>> traced = torch.fx.symbolic_trace(lambda x: x.relu() + 1)
        >>> torch.fx.Interpreter(traced).run(torch.tensor(2.0))
        tensor(3.)
    """

    def __init__(
        self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None
    ) -> None:
        self.module = module
        self.submodules: dict[Any, Any] = dict(module.named_modules())
        self.graph: Any = module.graph if graph is None else graph
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.env = {}
        self._freed_by = {}
        if garbage_collect_values:
            seen = set()
            for node in reversed(self.graph.nodes):
                for used in node.all_input_nodes:
                    if used not in seen:
                        seen.add(used)
                        self._freed_by.setdefault(node, []).append(used)

    @property
    def name(self) -> Any:
        return type(self).__name__

    def run(
        self,
        *args: Any,
        initial_env: dict[Node, Any] | None = None,
        enable_io_processing: bool = True,
    ) -> Any:
        """Run the graph on arguments and return its output.

        Args:
            initial_env: dict of nodes whose values are known and not computed.
        """
        self.env: dict[Node, Any] = dict(initial_env or {})
        if enable_io_processing:
            args = self.graph.process_inputs(*args)
        self.args_iter = iter(args)
        try:
            for node in self.graph.nodes:
                if node in self.env:
                    continue
                try:
                    self.env[node] = self.run_node(node)
                except Exception as error:
                    if hasattr(error, "add_note") and self.extra_traceback:
                        error.add_note(f"While executing {node.format_node()}")
                    raise
                for used in self._freed_by.get(node, ()):
                    self.env.pop(used, None)
                if node.op == "output":
                    output = self.env[node]
                    return self.graph.process_outputs(output) if enable_io_processing else output
        finally:
            self.args_iter: Iterator[Any] = iter(())
        return None

    def boxed_run(self, args_list: list[Any]) -> Any:
        """Run on a list of arguments, which is emptied, so that they can be freed."""
        args = list(args_list)
        args_list.clear()
        return self.run(*args)

    def run_node(self, n: Node) -> Any:
        """Run one node, given the values of its arguments."""
        with traceback.set_current_meta(n, f"Interpreter_{type(self).__name__}"):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: Target, args: Any, kwargs: dict[str, Any]) -> Any:
        """Return the next argument, or the default."""
        if target.startswith("**"):
            return next(self.args_iter, {})
        if target.startswith("*"):
            return list(self.args_iter)
        for value in self.args_iter:
            return value
        if args:
            return args[0]
        raise RuntimeError(
            f"Expected positional argument for parameter {target}, but one was not passed in!"
        )

    def get_attr(self, target: Target, args: Any, kwargs: dict[str, Any]) -> Any:
        """Return an attribute of the module."""
        return self.fetch_attr(target)

    def call_function(self, target: Target, args: Any, kwargs: dict[str, Any]) -> Any:
        """Return the result of a function."""
        return target(*args, **kwargs)

    def call_method(self, target: Target, args: Any, kwargs: dict[str, Any]) -> Any:
        """Return the result of a method of the first argument."""
        receiver, *rest = args
        return getattr(receiver, target)(*rest, **kwargs)

    def call_module(self, target: Target, args: Any, kwargs: dict[str, Any]) -> Any:
        """Return the result of a submodule."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: Target, args: Any, kwargs: dict[str, Any]) -> Any:
        """Return the output."""
        return args[0]

    def fetch_attr(self, target: str) -> Any:
        """Return the attribute at a dotted path."""
        value = self.module
        for i, name in enumerate(target.split("."), 1):
            if not hasattr(value, name):
                missing = ".".join(target.split(".")[:i])
                raise RuntimeError(f"Node referenced nonexistent target {missing}")
            value = getattr(value, name)
        return value

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return a node's arguments with values for nodes."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        """Return a structure with values for the nodes in it."""

        def value_of(node):
            if node not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {node}! Run Graph.lint()"
                )
            return self.env[node]

        return map_arg(args, value_of)


class Transformer(Interpreter):
    """An interpreter on proxies: makes a new graph module, with what subclasses do instead.

    Example:
        >>> class Sigmoid(torch.fx.Transformer):
        ...     def call_function(self, target, args, kwargs):
        ...         return super().call_function(torch.sigmoid, args, kwargs)
        >>> traced = torch.fx.symbolic_trace(lambda x: torch.relu(x))
        >>> Sigmoid(traced).transform()(torch.tensor(0.0))
        tensor(0.5000)
    """

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph: Graph = Graph()
        self.new_graph._codegen = module.graph._codegen

        class TransformerTracer(_symbolic_trace.Tracer):
            def __init__(self, graph):
                super().__init__()
                self.graph: Any = graph

            def is_leaf_module(self, _, __):
                return True

        self.tracer: Any = TransformerTracer(self.new_graph)
        self.tracer.root = module
        self.tracer._paths, self.tracer._constants = {}, {}

    def placeholder(self, target: Target, args: Any, kwargs: dict[str, Any]) -> Proxy:
        """Return the proxy of a new placeholder."""
        node = self.new_graph.placeholder(target, default_value=args[0] if args else ...)
        return Proxy(node, self.tracer)

    def get_attr(self, target: Target, args: Any, kwargs: dict[str, Any]) -> Proxy:
        """Return the proxy of the attribute."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Target, args: Any, kwargs: dict[str, Any]) -> Any:
        """Record the call of a submodule."""
        return self.tracer.call_module(self.fetch_attr(target), None, args, kwargs)

    def call_function(self, target: Target, args: Any, kwargs: dict[str, Any]) -> Any:
        """Record the call of a function."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """Run, and return the new module."""
        with traceback.preserve_node_meta():
            result = super().run(enable_io_processing=False)
        if result is not None:
            output = self.new_graph.output(_nodes_for_proxies(result))
            output.meta.update(self.graph.output_node().meta)
        return GraphModule(self.module, self.new_graph)


def _nodes_for_proxies(value):
    """Return a structure with the nodes of the proxies in it."""
    return map_aggregate(value, lambda v: v.node if isinstance(v, Proxy) else v)
