"""Tracing below autograd: `make_fx` records the operations of `torch.ops.aten` that a run does.

The function runs on its example inputs while a dispatch mode records each operation as a node,
those of its backward passes too. Which node stands for a tensor is noted by the tensor's identity,
and by where its elements are: what backward saved comes back as another object. All results are
kept alive until the end, so that neither is used twice.
"""

from __future__ import annotations

import contextlib
import inspect
import operator

import rushlight
from rushlight import Tensor, _absent
from rushlight.fx import Graph, GraphModule, Interpreter, Proxy, Tracer
from rushlight.fx._pytree_codegen import PytreeCodeGen, PytreeInfo
from rushlight.fx.passes.shape_prop import _extract_tensor_metadata
from rushlight.nn import Module, Parameter
from rushlight.overrides import TorchFunctionMode
from rushlight.utils._python_dispatch import (
    TorchDispatchMode,
    _disable_current_modes,
    _get_current_dispatch_mode_stack,
)
from rushlight.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from rushlight.fx import Node
    from rushlight.library._operator import OpOverload


py_sym_types: tuple[type, ...] = (rushlight.SymInt, rushlight.SymFloat, rushlight.SymBool)


class PythonKeyTracer(Tracer):
    """Holds the graph; what a function uses beside its inputs becomes an attribute of `root`."""

    root: Module
    graph: Graph

    def __init__(self) -> None:
        super().__init__(autowrap_modules=())
        self.root = Module()
        self.graph = Graph(tracer_cls=type(self))
        self._paths, self._constants = {}, {}

    def _attribute_of(self, tensor: Tensor) -> Node:
        known = self._constants.get(id(tensor))
        if known is None:
            kind = "_param_constant" if isinstance(tensor, Parameter) else "_tensor_constant"
            path = self.get_fresh_qualname(kind)
            setattr(self.root, path, tensor)
            known = self._constants[id(tensor)] = path, tensor  # alive, so that its id is its own
        node = self.create_node("get_attr", known[0], (), {})
        node.meta["val"] = _like(tensor)
        return node


def _like(value):
    """What is known of a result without its elements."""
    with rushlight.no_grad():
        return tree_map(lambda v: v.detach().to("meta") if isinstance(v, Tensor) else v, value)


def _keys(tensor):
    """What a tensor is found by: its identity, and where its elements are, if it has any."""
    yield id(tensor)
    if tensor.numel() and tensor.layout is rushlight.strided and not tensor.is_meta:
        yield tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype


class ProxyTorchDispatchMode(TorchDispatchMode):
    """Records each operation as a node of the tracer's graph, and does it.

    Args:
        tracer: holds the graph.
        decompositions: {operation: function that does it by others}.
        refuse_values: raise where an element decides what the program does.
    """

    follows_all: bool = True  # backward of views too
    tracer: PythonKeyTracer

    def __init__(
        self,
        tracer: PythonKeyTracer,
        decompositions: Mapping[OpOverload, Callable[..., Any]] | None = None,
        refuse_values: bool = True,
    ) -> None:
        super().__init__()
        self.tracer = tracer
        self._decompositions, self._refuse_values = decompositions or {}, refuse_values
        self._nodes: dict[Any, Node] = {}
        self._alive: list[Tensor] = []

    def note(self, tensor: Tensor, node: Node) -> None:
        """Let the node stand for the tensor."""
        self._alive.append(tensor)
        for key in _keys(tensor):
            self._nodes[key] = node

    def node_of(self, value: Any) -> Any:
        """The node that stands for a tensor; other values as they are."""
        if isinstance(value, Tensor):
            for key in _keys(value):
                if key in self._nodes:
                    return Proxy(self._nodes[key], self.tracer)
        return value

    def check_gradients(self, found: Any) -> None:
        """Raise where a gradient came about by what the mode does not see."""
        unknown = [t for t in found if isinstance(t, Tensor) and self.node_of(t) is t]
        if unknown:
            raise NotImplementedError(
                f"make_fx: a gradient of shape {tuple(unknown[0].shape)} was computed by a node "
                "that cannot be traced: of an operation in place, or of what was computed before"
            )

    def gradients_of_leaves(self) -> list[Tensor]:
        """What backward has left at the tensors that are traced, and at constants."""
        constants = [tensor for _, tensor in self.tracer._constants.values()]
        leaves = [t for t in (*self._alive, *constants) if t.is_leaf and t.grad is not None]
        return [leaf.grad for leaf in leaves]

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type[Any]],
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func in self._decompositions:
            with self:
                result = self._decompositions[func](*args, **kwargs)
            if result is not NotImplemented:
                return result
        if func is rushlight.ops.aten.lift_fresh.default:
            func = rushlight.ops.aten.lift_fresh_copy.default
        name = getattr(func, "_opname", "")
        if name in _ASK_FOR_VALUES:
            return self._value(func, args, kwargs)
        given = tree_map(self.node_of, (args, kwargs))
        result = func(*args, **kwargs)
        node = self.tracer.create_proxy("call_function", func, *given, name or None).node
        self._note_results(result, node)
        if name.endswith("_") and not name.startswith("_") and isinstance(args[0], Tensor):
            self.note(args[0], node)
        return result

    def _value(self, func, args, kwargs):
        traced = [v for v in tree_leaves((args, kwargs)) if self.node_of(v) is not v]
        if traced and self._refuse_values:
            raise RuntimeError(
                f"make_fx: {func} asks for the elements of a tensor that is traced: what the "
                "program does with them would be in the graph as it was for this input alone. "
                "Compute with the tensor itself, or pass _error_on_data_dependent_ops=False."
            )
        return func(*args, **kwargs)

    def _note_results(self, result, node):
        node.meta["val"] = _like(result)
        if isinstance(result, Tensor):
            node.meta["tensor_meta"] = _extract_tensor_metadata(result)
            self.note(result, node)
        elif isinstance(result, (tuple, list)):
            for place, one in enumerate(result):
                if one is not None:
                    call = (operator.getitem, (Proxy(node, self.tracer), place), {})
                    self._note_results(one, self.tracer.create_proxy("call_function", *call).node)


class _CheckedGradients(TorchFunctionMode):
    """Looks at what `autograd.grad` and `backward` give."""

    def __init__(self, mode: ProxyTorchDispatchMode) -> None:
        super().__init__()
        self._mode = mode

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        if name == "grad" and isinstance(result, tuple):
            self._mode.check_gradients(result)
        elif name == "backward":
            self._mode.check_gradients(self._mode.gradients_of_leaves())
        return result


_ASK_FOR_VALUES = {"_local_scalar_dense", "equal", "is_nonzero"}


def make_fx(
    f: Callable[..., Any],
    decomposition_table: Mapping[OpOverload, Callable[..., Any]] | None = None,
    tracing_mode: str = "real",
    _allow_non_fake_inputs: bool = False,
    *,
    pre_dispatch: bool = False,
    record_module_stack: bool = False,
    _allow_fake_constant: bool = False,
    _error_on_data_dependent_ops: bool = True,
    record_stack_traces: bool = False,
    proxy_module_inputs: bool = False,
    _disable_torch_fn_metadata_mode: bool = False,
) -> Callable[..., GraphModule]:
    """A function that runs `f` on its arguments and returns the operations as a `GraphModule`.

    Args:
        f: a function or a module. Gradients that it takes are in the graph, as are the operations
            that `torch.func` makes of it.
        decomposition_table: {operation: function}: what an operation is recorded as, instead.
        tracing_mode: "real": `f` runs on the arguments themselves.
        record_stack_traces: note at each node the line of the program that it comes from.

    Raises:
        RuntimeError: the program asks for an element of a tensor that is traced.

    Example:
        >>> make_fx = torch.fx.experimental.proxy_tensor.make_fx
        >>> print(make_fx(lambda x: x.sin() + 1)(torch.ones(2)).code.strip())
        def forward(self, x_1):
            sin = torch.ops.aten.sin.default(x_1);  x_1 = None
            add = torch.ops.aten.add.Tensor(sin, 1);  sin = None
            return add
    """
    if tracing_mode not in ("real", "fake", "symbolic"):
        raise AssertionError(
            f"make_fx: tracing_mode must be real/fake/symbolic, got {tracing_mode}"
        )
    if tracing_mode != "real":
        raise NotImplementedError(
            f"make_fx: tracing_mode={tracing_mode!r}: there are no fake tensors; trace with "
            'tracing_mode="real", or export with dynamic shapes by torch.export.export'
        )
    refused = {
        "pre_dispatch": pre_dispatch, "record_module_stack": record_module_stack,
        "proxy_module_inputs": proxy_module_inputs,
        "_allow_non_fake_inputs": _allow_non_fake_inputs,
        "_allow_fake_constant": _allow_fake_constant,
    }  # fmt: skip
    for name, value in refused.items():
        if value:
            raise NotImplementedError(f"make_fx: {name}=True is not supported")
    del _disable_torch_fn_metadata_mode  # no such metadata is noted

    def trace(*args: Any) -> GraphModule:
        tracer = PythonKeyTracer()
        tracer.record_stack_traces = record_stack_traces
        mode = ProxyTorchDispatchMode(tracer, decomposition_table, _error_on_data_dependent_ops)
        return _trace(f, args, mode)

    return trace


def _trace(f, args, mode):
    """Run f on args in the mode, and make a module of what was recorded."""
    tracer, graph = mode.tracer, mode.tracer.graph
    leaves, in_spec = tree_flatten(args)
    names = _names_of(f, args)
    for name, argument in zip(names, args):
        for leaf in tree_leaves(argument):
            _placeholder(mode, name, leaf)
    with mode, _CheckedGradients(mode):
        result = f(*args)
    are_leaves = all(child.is_leaf() for child in in_spec.children())
    if not are_leaves:
        outputs, out_spec = tree_flatten(result)
        graph.set_codegen(PytreeCodeGen(PytreeInfo(names, in_spec, out_spec)))
        result = outputs
    result = tree_map(mode.node_of, result)
    graph.output(tracer.create_arg(result))
    name = getattr(f, "__name__", type(f).__name__) if not isinstance(f, Module) else "<lambda>"
    return GraphModule(tracer.root, graph, name)


def _names_of(f, args):
    """What the parameters are called that take the arguments."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if hasattr(inspect.unwrap(f), "__code__"):
        parameters = list(inspect.signature(f).parameters.values())
        if all(p.kind in kinds for p in parameters) and len(parameters) >= len(args):
            return [p.name for p in parameters[: len(args)]]
    return [f"arg{place}" for place in range(len(args))]


def _placeholder(mode, name, leaf):
    graph = mode.tracer.graph
    node = graph.placeholder(name)
    count = 1
    while any(n is not node and n.name == f"{name}_{count}" for n in graph.nodes):
        count += 1
    node.name = node.target = f"{name}_{count}"
    if isinstance(leaf, Tensor):
        node.meta["val"], node.meta["tensor_meta"] = _like(leaf), _extract_tensor_metadata(leaf)
        mode.note(leaf, node)


def get_isolated_graphmodule(
    func: Callable[..., Any], args: Any, kwargs: Any, tracing_mode: str = "real"
) -> GraphModule:
    """The graph of a call, whatever is being traced around it."""
    flat, spec = tree_flatten((args, kwargs))

    def wrapped(flat: list[Any]) -> Any:
        given, named = tree_unflatten(flat, spec)
        return func(*given, **named)

    with disable_proxy_modes_tracing():
        return make_fx(wrapped, tracing_mode=tracing_mode)(flat)


def get_innermost_proxy_mode() -> ProxyTorchDispatchMode | None:
    """The mode that traces, the innermost of several: None where nothing is traced."""
    modes = _get_current_dispatch_mode_stack()
    return next((m for m in reversed(modes) if isinstance(m, ProxyTorchDispatchMode)), None)


get_proxy_mode = get_innermost_proxy_mode


@contextlib.contextmanager
def disable_proxy_modes_tracing() -> Iterator[None]:
    """A context in which nothing is traced."""
    with _disable_current_modes():
        yield


def dispatch_trace(
    root: Module | Callable[..., Any], tracer: Tracer, concrete_args: Any = None
) -> GraphModule:
    """Record a module or function by a tracer, and return a module with its graph.

    Args:
        root: the module or function.
        tracer: records it, and has the attributes that the graph names.
        concrete_args: values of arguments that are to be constants, by name.
    """
    graph = tracer.trace(root, concrete_args or None)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)


class DecompositionInterpreter(Interpreter):
    """Runs a graph and records into another one the operations that it does.

    Args:
        module: the module with the graph.
        new_graph: where they are recorded; it names attributes of `module`.
        decomposition_table: {operation: function}: what an operation is recorded as, instead.
        garbage_collect_values, graph: see `Interpreter`.
    """

    tracer: Any
    mode: Any

    def __init__(
        self,
        module: GraphModule,
        new_graph: Graph,
        decomposition_table: Mapping[OpOverload, Callable[..., Any]] | None = None,
        garbage_collect_values: bool = True,
        graph: Graph | None = None,
    ) -> None:
        super().__init__(module, garbage_collect_values, graph)
        self.new_graph = new_graph
        self.tracer = PythonKeyTracer()
        self.tracer.root, self.tracer.graph = module, new_graph
        self.decomposition_table: Any = decomposition_table or {}
        self.mode = ProxyTorchDispatchMode(self.tracer, self.decomposition_table)

    def _noted(self, value, node):
        if isinstance(value, Tensor):
            node.meta["val"] = _like(value)
            self.mode.note(value, node)
        return value

    def placeholder(self, target: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Return the next argument, recorded as one."""
        node = self.new_graph.placeholder(target)
        return self._noted(super().placeholder(target, args, kwargs), node)

    def get_attr(self, target: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Return an attribute of the module, recorded as one."""
        node = self.new_graph.get_attr(target)
        return self._noted(super().get_attr(target, args, kwargs), node)

    def output(self, target: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Return the output, and record it."""
        result = super().output(target, args, kwargs)
        self.new_graph.output(self.tracer.create_arg(tree_map(self.mode.node_of, result)))
        return result

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Run on arguments, and return the output."""
        with self.mode:
            return super().run(*args, **kwargs)


class _SelectiveInterpreter(Interpreter):
    """Does some nodes by decompositions, and the others as they are."""

    def __init__(self, module: GraphModule, chosen: Any, table: Any) -> None:
        super().__init__(module)
        self._chosen, self._table = chosen, table

    def run_node(self, n: Node) -> Any:
        if n.op == "call_function" and n.target in self._table and self._chosen(n):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            result = self._table[n.target](*args, **kwargs)
            if result is not NotImplemented:
                return result
        return super().run_node(n)


def selective_decompose(
    joint_gm: GraphModule,
    *args: Any,
    decomposition: Mapping[OpOverload, Callable[..., Any]] | None,
    should_decompose: Callable[[Node], bool],
    trace_joint_graph: bool,
) -> GraphModule:
    """Record a graph again, with some of its operations done by others.

    Args:
        joint_gm: the module with the graph.
        args: an example.
        decomposition: {operation: function that does it by others}.
        should_decompose: which nodes.
        trace_joint_graph: whether `args` are a list of inputs and one of gradients, whose
            placeholders are named so.
    """

    def run(*given: Any) -> Any:
        flat = tree_leaves(given) if trace_joint_graph else given
        table = decomposition or {}
        return _SelectiveInterpreter(joint_gm, should_decompose, table).run(*flat)

    if trace_joint_graph:

        def joint(primals: list[Any], tangents: list[Any]) -> Any:
            return run(primals, tangents)

        return make_fx(joint)(*args)
    return make_fx(run)(*args)


@contextlib.contextmanager
def maybe_enable_thunkify() -> Iterator[None]:
    """A context as any other: sizes are numbers, and none is computed later than asked for."""
    yield


@contextlib.contextmanager
def maybe_disable_thunkify() -> Iterator[None]:
    """A context as any other: sizes are numbers, and none is computed later than asked for."""
    yield


_ABSENT = _absent.refused(
    {
        "handle_sym_dispatch": "numbers are not dispatched to modes: make_fx records sizes as "
        "they are, and torch.export.export those that may change"
    }
)
globals().update(_ABSENT)

__all__ = [
    "DecompositionInterpreter",
    "ProxyTorchDispatchMode",
    "PythonKeyTracer",
    "disable_proxy_modes_tracing",
    "dispatch_trace",
    "get_innermost_proxy_mode",
    "get_isolated_graphmodule",
    "get_proxy_mode",
    "make_fx",
    "maybe_disable_thunkify",
    "maybe_enable_thunkify",
    "py_sym_types",
    "selective_decompose",
    *_ABSENT,
]
