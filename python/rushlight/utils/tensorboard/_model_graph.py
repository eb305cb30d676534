"""A model's operations, as the graph that TensorBoard shows."""

from __future__ import annotations

import contextlib
from typing import Any

from tensorboard.compat.proto.attr_value_pb2 import AttrValue
from tensorboard.compat.proto.config_pb2 import RunMetadata
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.node_def_pb2 import NodeDef
from tensorboard.compat.proto.step_stats_pb2 import DeviceStepStats, StepStats
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.versions_pb2 import VersionDef

import rushlight
from rushlight.jit import _trace_graph
from rushlight.jit._modules import _has_dict
from rushlight.utils._pytree import tree_structure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from rushlight.nn import Module

_CPU = "/device:CPU:0"


def graph(model: Module, args: Any, verbose: bool = False, strict: bool = True) -> Any:
    """(GraphDef, RunMetadata) of a run of the model.

    A node stands for an operation, an input, a parameter or a result. Its name begins with the
    modules that it belongs to, so that TensorBoard can fold them: "Net/Linear[first]/linear_3".

    Args:
        model: the module.
        args: its arguments, a tuple, or the only one.
        verbose: print the graph.
        strict: raise if the result has a dict in it.
    """
    labels = _labels(model)
    with _scopes(model, labels), rushlight.no_grad():
        traced, result = _trace_graph.get_trace_graph(model, args)
    if strict and _has_dict(tree_structure(result)):
        raise RuntimeError(
            "add_graph: the model returns a dict, whose keys the graph does not show; return a "
            "tuple or a NamedTuple, or pass use_strict_trace=False"
        )
    if verbose:
        print(traced)
    stats = RunMetadata(step_stats=StepStats(dev_stats=[DeviceStepStats(device=_CPU)]))
    return GraphDef(node=_nodes(labels, traced), versions=VersionDef(producer=22)), stats


def _labels(model):
    """{path of a module: what the graph calls it with the modules around it}."""
    labels = {"": type(model).__name__}
    for path, module in model.named_modules(remove_duplicate=False):
        if path:
            outer, _, name = path.rpartition(".")
            labels[path] = f"{labels[outer]}/{type(module).__name__}[{name}]"
    return labels


@contextlib.contextmanager
def _scopes(model, labels) -> Iterator[None]:
    """Operations that are recorded here know the module that called them."""

    def enter(label):
        def hook(module, args):
            state = _trace_graph.tracing_state()
            state.push_scope(label.removeprefix(f"{state.current_scope()}/"))

        return hook

    def leave(module, args, output):
        _trace_graph.tracing_state().pop_scope()

    handles = []
    for path, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(enter(labels[path])))
        handles.append(module.register_forward_hook(leave))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _nodes(labels, traced):
    """The NodeDefs of a TraceGraph."""
    names, nodes = {}, []
    for value in traced.inputs():
        owner, _, name = value.node().scopeName().rpartition(".")
        names[value] = f"{labels[owner]}/{name}" if name else f"input/{value.debugName()}"
        nodes.append(_node(names[value], "Parameter" if name else "IO Node", (), [value]))
    for node in traced.nodes():
        if node.kind() == "prim::Constant":
            continue
        first, *others = results = list(node.outputs())
        operation = node.kind().rpartition("::")[2]
        name = f"{node.scopeName() or labels['']}/{operation}_{first.debugName()}"
        names.update({first: name, **{v: f"{name}:{i}" for i, v in enumerate(others, 1)}})
        arguments = list(node.inputs())
        nodes.append(_node(name, node.kind(), _inputs(arguments, names), results, arguments))
    for i, value in enumerate(traced.outputs()):
        nodes.append(_node(f"output/output_{i}", "IO Node", _inputs([value], names), [value]))
    return nodes


def _inputs(arguments, names):
    return [names[a] for a in arguments if a in names]


def _node(name, op, inputs, results, arguments=()):
    """One NodeDef: the shapes of its results, and its arguments that no node computes."""
    constants = [
        f"{i}: {a.toIValue()!r}"
        for i, a in enumerate(arguments)
        if a.node() is not None and a.node().kind() == "prim::Constant"
    ]
    shapes = [
        TensorShapeProto(dim=[TensorShapeProto.Dim(size=n) for n in value.type().sizes()])
        for value in results
        if value.isCompleteTensor()
    ]
    attributes = {"attr": AttrValue(s=f"{{{', '.join(constants)}}}".encode())}
    if shapes:
        attributes["_output_shapes"] = AttrValue(list=AttrValue.ListValue(shape=shapes))
    return NodeDef(name=name, op=op, input=inputs, device=_CPU, attr=attributes)


def graph_of_onnx(path: Any) -> Any:
    """The GraphDef of an ONNX file."""
    try:
        import onnx
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "add_onnx_graph needs the onnx library: pip install onnx"
        ) from error
    found = onnx.load(path).graph
    values = [(v.name, "Parameter") for v in found.initializer]
    values += [(v.name, "IO Node") for v in found.input if (v.name, "Parameter") not in values]
    nodes = [NodeDef(name=name, op=op) for name, op in values]
    places = {
        name: f"{node.output[0]}:{i}"
        for node in found.node
        for i, name in enumerate(node.output)
        if i > 0
    }
    for node in found.node:
        text = ", ".join(onnx.helper.printable_attribute(a) for a in node.attribute)
        nodes.append(
            NodeDef(name=node.output[0], op=node.op_type,
                    input=[places.get(name, name) for name in node.input if name],
                    attr={"attr": AttrValue(s=text.encode())})
        )  # fmt: skip
    nodes += [
        NodeDef(name=f"output/{v.name}", op="IO Node", input=[places.get(v.name, v.name)])
        for v in found.output
    ]
    return GraphDef(node=nodes, versions=VersionDef(producer=22))
