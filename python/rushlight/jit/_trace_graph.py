"""What a program computes, as TorchScript's tracer writes it: `jit._get_trace_graph`.

Libraries that count operations read such graphs: nodes with kinds like `aten::linear`, values with
the sizes they had, and the names of the modules that computed them. The graph is made of what was
recorded as for `rushlight.export`; it is there to be read, not to be run.
"""

from __future__ import annotations

import contextlib
import operator
from typing import Any

import rushlight
from rushlight import _C, Tensor
from rushlight.export import _record, _table
from rushlight.export._trace import names_of_inputs, record
from rushlight.fx import Node as _Recorded
from rushlight.jit._tracer import TraceRecorder
from rushlight.utils._pytree import tree_flatten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_states: list[TracingState] = []  # of the traces that are under way


class TracingState:
    """A trace that is under way: the names of the modules that are being called."""

    def __init__(self) -> None:
        self.scopes: list[str] = []

    def push_scope(self, name: str) -> None:
        """A module of this name is called."""
        self.scopes.append(name)

    def pop_scope(self) -> None:
        """The innermost of them has returned."""
        self.scopes.pop()

    def current_scope(self) -> str:
        """The names, from the outermost on."""
        return "/".join(self.scopes)


def tracing_state() -> TracingState | None:
    """The trace that is under way, or None."""
    return _states[-1] if _states else None


_C._get_tracing_state = tracing_state


# Functions written in Python that are one operation there: (name, arguments) of a call.
_WHOLE = {
    "einsum": lambda equation, *operands: ("einsum", [equation, operands]),
    "tensordot": lambda a, b, dims=2: ("tensordot", [a, b, dims]),
    "cdist": lambda x1, x2, p=2.0, *rest: ("cdist", [x1, x2, p]),
    "scaled_dot_product_attention": lambda *args: ("scaled_dot_product_attention", args),
}  # fmt: skip


class _ScopedRecorder(TraceRecorder):
    """Notes the modules that are being called."""

    def create(self, target, args, kwargs, result):
        node = super().create(target, args, kwargs, result)
        node.meta["scope"] = _states[-1].current_scope()
        return node

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", "") in _WHOLE and func not in self._running:
            result = func(*args, **(kwargs or {}))
            node = self.create(func, args, kwargs or {}, result)
            node.meta["whole"] = _WHOLE[func.__name__]
            return result
        return super().__torch_function__(func, types, args, kwargs)

    def _item(self, func, name, x):
        return self.value_of(func, (x,), {}, f"{name}() of a tensor gives the program a value", "")


class Type:
    """The type of a value: a tensor of a dtype and sizes, a number, a list."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def kind(self) -> str:
        """As TorchScript calls it: "TensorType", "IntType", "ListType" ..."""
        names = {Tensor: "Tensor", bool: "Bool", int: "Int", float: "Float", complex: "Complex",
                 str: "String", list: "List", tuple: "Tuple", type(None): "None",
                 rushlight.device: "DeviceObj", rushlight.dtype: "Int"}  # fmt: skip
        for kind, name in names.items():
            if isinstance(self._value, kind):
                return f"{name}Type"
        return "AnyType"

    def sizes(self) -> list[int] | None:
        """The sizes of a tensor."""
        return list(self._value.shape) if isinstance(self._value, Tensor) else None

    def strides(self) -> list[int] | None:
        """The strides of a tensor."""
        return list(self._value.stride()) if isinstance(self._value, Tensor) else None

    def dim(self) -> int | None:
        """The number of dims of a tensor."""
        return self._value.dim() if isinstance(self._value, Tensor) else None

    def dtype(self) -> Any:
        """The dtype of a tensor."""
        return self._value.dtype if isinstance(self._value, Tensor) else None

    def scalarType(self) -> str | None:
        """The dtype's name in TorchScript: "Float", "Long" ..."""
        if not isinstance(self._value, Tensor):
            return None
        name = self._value.type().rpartition(".")[2].removesuffix("Tensor")
        return {"": "Float"}.get(name, name)

    def isSubtypeOf(self, other: Any) -> bool:
        """Is it of the other's kind?"""
        return self.kind() == other.kind()

    def __repr__(self) -> str:
        if not isinstance(self._value, Tensor):
            return self.kind().removesuffix("Type")
        return f"{self.scalarType()}({', '.join(map(str, self._value.shape))})"

    str = annotation_str = __repr__


class Value:
    """What a node computes, or an input of the graph."""

    def __init__(self, name: str, value: Any, node: Node | None) -> None:
        self._name, self._value, self._node = name, value, node

    def debugName(self) -> str:
        """The name, without a sign before it."""
        return self._name

    def type(self) -> Type:
        """Its type."""
        return Type(self._value)

    def isCompleteTensor(self) -> bool:
        """Is it a tensor, of which all sizes are known?"""
        return isinstance(self._value, Tensor)

    def node(self) -> Node | None:
        """The node that computes it; that of inputs is of kind "prim::Param"."""
        return self._node

    def toIValue(self) -> Any:
        """The value of a constant, None of anything else."""
        if self._node is not None and self._node.kind() == "prim::Constant":
            return self._value
        return None

    def __repr__(self) -> str:
        return f"{self._name} : {self.type()}"


class Node:
    """A call of an operation."""

    def __init__(self, kind: str, scope: str, inputs: list[Value], where: str = "") -> None:
        self._kind, self._scope, self._inputs, self._where = kind, scope, inputs, where
        self._outputs: list[Value] = []

    def kind(self) -> str:
        """The operation: "aten::linear", "prim::Constant" ..."""
        return self._kind

    def scopeName(self) -> str:
        """The names of the modules that called it, from the outermost on, with "/" between them."""
        return self._scope

    def inputs(self) -> Iterator[Value]:
        """Its arguments."""
        return iter(self._inputs)

    def outputs(self) -> Iterator[Value]:
        """Its results."""
        return iter(self._outputs)

    def inputsSize(self) -> int:
        """The number of arguments."""
        return len(self._inputs)

    def outputsSize(self) -> int:
        """The number of results."""
        return len(self._outputs)

    def output(self) -> Value:
        """The one result."""
        (value,) = self._outputs
        return value

    def sourceRange(self) -> str:
        """The line of the program."""
        return self._where

    def pyname(self) -> str:
        """The name of the function of a "prim::PythonOp"."""
        return self._kind.rpartition("::")[2]

    def __repr__(self) -> str:
        results = ", ".join(f"%{value!r}" for value in self._outputs)
        arguments = ", ".join(f"%{value.debugName()}" for value in self._inputs)
        constant = ""
        if self._kind == "prim::Constant" and self._outputs[0].toIValue() is not None:
            constant = f"[value={self._outputs[0].toIValue()!r}]"
        scope = f", scope: {self._scope}" if self._scope else ""
        return f"{results} = {self._kind}{constant}({arguments}){scope}"


class TraceGraph:
    """The nodes of a trace, in order."""

    def __init__(self) -> None:
        self._nodes: list[Node] = []
        self._inputs: list[Value] = []
        self._outputs: list[Value] = []
        self._count = 0

    def nodes(self) -> Iterator[Node]:
        """All nodes but those of inputs."""
        return iter(self._nodes)

    def inputs(self) -> Iterator[Value]:
        """The inputs of the program, then its parameters and buffers."""
        return iter(self._inputs)

    def outputs(self) -> Iterator[Value]:
        """What the program returns."""
        return iter(self._outputs)

    def findAllNodes(self, kind: str, recurse: bool = True) -> list[Node]:
        """The nodes of a kind."""
        return [node for node in self._nodes if node.kind() == kind]

    def add(self, kind: str, scope: str, inputs: list[Value], values: Any, where: str = "") -> Node:
        """Append a node that computes `values`."""
        node = Node(kind, scope, inputs, where)
        node._outputs = [Value(self.new_name(), value, node) for value in values]
        self._nodes.append(node)
        return node

    def add_input(self, name: str, value: Any, path: str = "") -> Value:
        """Append an input; a parameter's or buffer's node has its path in the module as scope."""
        node = Node("prim::Param", path, [])
        made = Value(name, value, node)
        node._outputs = [made]
        self._inputs.append(made)
        return made

    def new_name(self) -> str:
        """A name that no value has."""
        self._count += 1
        return str(self._count)

    def __repr__(self) -> str:
        inputs = ",\n      ".join(f"%{value!r}" for value in self._inputs)
        lines = "\n".join(f"  {node!r}" for node in self._nodes)
        results = ", ".join(f"%{value.debugName()}" for value in self._outputs)
        return f"graph({inputs}):\n{lines}\n  return ({results})\n"

    __str__ = __repr__


# ---- from operations of the table to those of TorchScript


def _convolution(a):
    transposed = "output_padding" in a
    padded = a["output_padding"] if transposed else [0] * len(a["stride"])
    return "_convolution", [
        a["input"], a["weight"], a["bias"], a["stride"], a["padding"], a["dilation"], transposed,
        padded, a["groups"], False, False, True, True,
    ]  # fmt: skip


def _named_convolution(a):
    names = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
    return "_convolution_mode", [a[name] for name in names]


def _batch_norm(a):
    names = ("input", "weight", "bias", "running_mean", "running_var", "training", "momentum")
    return "batch_norm", [*(a[name] for name in names), a["eps"], True]


def _embedding(a):
    return "embedding", [
        a["weight"], a["input"], -1 if a["padding_idx"] is None else a["padding_idx"],
        a["scale_grad_by_freq"], a["sparse"],
    ]  # fmt: skip


def _adaptive(kind):
    def pool(a):
        size = a["output_size"]
        dims = len(size) if isinstance(size, (list, tuple)) else a["input"].meta["val"].dim() - 2
        return f"adaptive_{kind}_pool{dims}d", [a["input"], size]

    return pool


def _upsample(a):
    _, size, mode, align_corners, antialias, scales = a.values()
    name = {"linear": "linear1d", "trilinear": "trilinear3d"}.get(mode, f"{mode}{len(size)}d")
    corners = [] if mode.startswith("nearest") else [align_corners]
    arguments = [a["input"], None if scales else size, *corners, scales]
    return (
        f"{'_' * antialias}upsample_{name.replace('-exact', '_exact')}{'_aa' * antialias}",
        arguments,
    )


_OTHER_ARGUMENTS = {
    "adaptive_avg_pool_kernel": _adaptive("avg"),
    "adaptive_max_pool_kernel": _adaptive("max"),
    "interpolate_kernel": _upsample,
    **{f"conv{n}d": _convolution for n in (1, 2, 3)},
    **{f"conv{n}d.named": _named_convolution for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": _convolution for n in (1, 2, 3)},
    "batch_norm": _batch_norm,
    "functional_embedding": _embedding,
    "layer_norm": lambda a: ("layer_norm", [*a.values(), True]),
    "group_norm": lambda a: ("group_norm", [*a.values(), True]),
    "cross_entropy": lambda a: (
        "cross_entropy_loss",
        [a["input"], a["target"], a["weight"], a["reduction"], a["ignore_index"],
         a["label_smoothing"]],
    ),
}  # fmt: skip


def _as_traced(row, values):
    """(name, arguments) of a call."""
    arguments = {p.name: values.get(p.name, p.default) for p in row.parameters}
    if row.key in _OTHER_ARGUMENTS:
        return _OTHER_ARGUMENTS[row.key](arguments)
    name = row.key.partition(".")[0]
    if name.startswith("functional_"):
        name = name.removeprefix("functional_")
        name += "_" * bool(arguments.pop("inplace", False))
    elif name.startswith("cast_"):
        name = "to"
    name = name.removesuffix("_kernel")
    return name, [value for value in arguments.values() if value is not _table.MISSING]


def _from_recording(recorded, graph, values):
    """Append, and return, the node of a recorded call; `values` has those of the nodes before."""
    scope, where = recorded.meta.get("scope", ""), recorded.meta.get("stack_trace", "")

    def value_of(argument):
        if isinstance(argument, _Recorded):
            return values[argument]
        if isinstance(argument, (list, tuple)) and any(isinstance(a, _Recorded) for a in argument):
            parts = [value_of(a) for a in argument]
            made = [a.meta["val"] if isinstance(a, _Recorded) else a for a in argument]
            return graph.add("prim::ListConstruct", scope, parts, [made], where).output()
        constant = list(argument) if isinstance(argument, tuple) else argument
        return graph.add("prim::Constant", scope, [], [constant], where).output()

    target, result = recorded.target, recorded.meta["val"]
    row = getattr(target, "row", None)
    if "whole" in recorded.meta:
        name, arguments = recorded.meta["whole"](*recorded.args, **recorded.kwargs)
        kind = f"aten::{name}"
    elif row is not None:
        names = [p.name for p in row.parameters]
        name, arguments = _as_traced(row, {**dict(zip(names, recorded.args)), **recorded.kwargs})
        kind = f"aten::{name}"
    else:
        arguments = [*recorded.args, *recorded.kwargs.values()]
        kind = target.name().partition(".")[0] if hasattr(target, "name") else (
            f"aten::{getattr(target, '__name__', target)}"
        )  # fmt: skip
    is_list = row is not None and row.returns == ("list[Tensor]",)
    results = result if isinstance(result, tuple) and not is_list else [result]
    return graph.add(kind, scope, [value_of(a) for a in arguments], results, where)


def graph_of(recorded: Any) -> TraceGraph:
    """Return a recorded graph, whose nodes know what they computed, as TorchScript writes it."""
    graph, values = TraceGraph(), {}
    first = [n for n in recorded.nodes if n.op == "placeholder" and n.meta.get("kind") == "input"]
    others = [n for n in recorded.nodes if n.op in ("placeholder", "get_attr") and n not in first]
    for node in (*first, *others):
        path = "" if node in first else node.meta.get("target", "")
        values[node] = graph.add_input(node.name, node.meta.get("val"), path)
    for node in recorded.nodes:
        if node.op == "output":
            graph._outputs = [values[n] for n in node.all_input_nodes]
        elif node.op != "call_function" or node.target is _record.assertion():
            continue
        elif node.target is operator.getitem:
            values[node] = _part(graph, values[node.args[0]], node)
        else:
            made = _from_recording(node, graph, values)
            values[node] = made.output() if made.outputsSize() == 1 else made
    return graph


def _part(graph, whole, node):
    """The value of one of several results."""
    if isinstance(whole, Node):
        return whole._outputs[node.args[1]]
    scope = node.meta.get("scope", "")
    return graph.add("prim::ListUnpack", scope, [whole], [node.meta["val"]]).output()


@contextlib.contextmanager
def _tracing():
    _states.append(TracingState())
    try:
        yield
    finally:
        _states.pop()


def get_trace_graph(
    f: Any,
    args: Any = (),
    kwargs: Any = None,
    strict: bool = True,
    _force_outplace: bool = False,
    return_inputs: bool = False,
    _return_inputs_states: bool = False,
) -> tuple[Any, ...]:
    """Run a module or function and return (graph, result) of the run.

    Args:
        f: the module or function.
        args: its arguments, a tuple, or the only one.
        kwargs: its keyword arguments.
        strict: refuse results other than tensors, numbers and containers of these; always done.
        _force_outplace: refused if True.
        return_inputs: return the inputs too.
        _return_inputs_states: refused if True.
    """
    if _force_outplace or _return_inputs_states or not strict:
        raise NotImplementedError(
            "_get_trace_graph: strict=False, _force_outplace and _return_inputs_states are not here"
        )
    args = args if isinstance(args, tuple) else (args,)
    leaves, spec = tree_flatten((args, dict(kwargs or {})))
    module = f if isinstance(f, rushlight.nn.Module) else rushlight.nn.Module()
    signature = f.forward if module is f else f
    names = names_of_inputs(signature, args, kwargs or {})
    kept = {}

    def function(*args, **kwargs):
        kept["result"] = f(*args, **kwargs)
        return kept["result"]

    with _tracing():
        recording = record(module, function, leaves, spec, names, [None] * len(leaves), False,
                           _ScopedRecorder())  # fmt: skip
    graph = graph_of(recording.graph)
    return (graph, kept["result"], args) if return_inputs else (graph, kept["result"])
