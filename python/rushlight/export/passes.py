"""Passes over programs: dead code, constants, fusion, a plan of memory.

Those on graphs change them in place; those on programs return a new one and leave the old as it is.
"""

from __future__ import annotations

import copy
import operator
from dataclasses import dataclass, field

import rushlight
from rushlight import Tensor
from rushlight.export import _record
from rushlight.export._table import is_operation, operation
from rushlight.export.exported_program import (
    ExportedProgram,
    changes_statistics,
    guards_of,
    is_pure,
    signature_of,
)
from rushlight.fx import GraphModule, Node
from rushlight.fx.node import map_aggregate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight.export.exported_program import ExportedProgram
    from rushlight.fx import Graph

# Operations that draw from the generator: never the same twice.
_RANDOM = (
    "rand",
    "dropout",
    "bernoulli",
    "binomial",
    "cauchy",
    "exponential",
    "geometric",
    "log_normal",
    "multinomial",
    "normal",
    "poisson",
    "uniform",
    "gamma",
    "rrelu",
)
_LARGEST_CONSTANT = 1 << 20  # elements; larger ones are cheaper to compute than to keep


def eliminate_dead_code(graph: Graph) -> bool:
    """Remove what nothing uses: all but inputs, outputs, guards and changes in place.

    Returns:
        How many nodes went.
    """
    count = 0
    for node in reversed(list(graph.nodes)):
        if not node.users and is_pure(node):
            graph.erase_node(node)
            count += 1
    return count


# ---- copies


def copied(program: ExportedProgram) -> ExportedProgram:
    """The program with a graph of its own; parameters are shared."""
    graph = copy.deepcopy(program.graph)
    root = {
        n.target: getattr(program.graph_module, n.target) for n in graph.nodes if n.op == "get_attr"
    }
    for old, new in zip(program.graph.nodes, graph.nodes):
        new.meta = dict(old.meta)
    made = ExportedProgram(
        GraphModule(root, graph), program.graph_signature, dict(program.state_dict),
        dict(program.constants), program.in_spec, program.out_spec, program.input_guards,
        dict(program.range_constraints), program.example_inputs,
    )  # fmt: skip
    made.takes_lists, made.training = program.takes_lists, program.training
    made._module_calls = program._module_calls
    return made


def finish(program: ExportedProgram) -> ExportedProgram:
    """Bring a program whose graph was changed up to date: its code and its signature."""
    graph = program.graph
    used = {n.meta["target"] for n in graph.nodes
            if n.op == "placeholder" and n.meta["kind"] != "input"}  # fmt: skip
    program.state_dict = {k: v for k, v in program.state_dict.items() if k in used}
    program.constants = {k: v for k, v in program.constants.items() if k in used}
    program.graph_signature = signature_of(graph, set(program.constants))
    program.input_guards = guards_of(graph)
    graph.lint()
    program.graph_module.recompile()
    return program


def drop_unused_tensors(program: ExportedProgram) -> ExportedProgram:
    """Remove the parameters, buffers and constants that nothing uses any more."""
    for node in list(program.graph.nodes):
        if node.op == "placeholder" and node.meta["kind"] != "input" and not node.users:
            program.graph.erase_node(node)


def _new_constant(program, name, value):
    """A further constant of the program: its placeholder."""
    graph = program.graph
    count = len(program.constants)
    while f"{name}_{count}" in program.constants:
        count += 1
    target = f"{name}_{count}"
    first = next(n for n in graph.nodes if n.op != "placeholder" or n.meta["kind"] == "input")
    with graph.inserting_before(first):
        node = graph.placeholder(f"c_{target}")
    node.target = node.name
    node.meta.update(val=value, kind="constant", target=target)
    program.constants[target] = value
    return node


# ---- constants


def _is_fixed(node):
    """Does the node compute the same in each run, from operands that are known?"""
    if node.op != "call_function" or not is_pure(node):
        return False
    if is_operation(node.target):
        return not any(word in node.target.key for word in _RANDOM)
    return node.target in _record.pure_functions()


def _needs_no_input(node: Node) -> bool:
    """Is what the node computes the same in each run, as neither inputs nor random numbers have a
    part in it, and nothing changes it in place?"""
    found, left = {node}, [node]
    while left:
        one = left.pop()
        if not _is_fixed(one) or _is_written(one):
            return False
        for source in one.all_input_nodes:
            if source not in found:
                found.add(source)
                left.append(source)
    return True


def _is_written(node):
    """Does something write to the node's elements, by it or by a view of it?"""
    for user in node.users:
        if is_operation(user.target):
            if user.target.row.is_inplace and user.args[:1] == (node,):
                return True
            if changes_statistics(user) and node in (
                _argument(user, "running_mean"), _argument(user, "running_var"),
            ):  # fmt: skip
                return True
            if user.args[:1] == (node,) and _may_show(user) and _is_written(user):
                return True
        elif user.target is operator.getitem and _is_written(user):
            return True
    return False


# Composites that may return their input, or a view of it.
_MAY_SHOW = set(
    """
    adjoint broadcast_to cast_double cast_float cast_half cast_int cast_long chunk contiguous cpu
    detach dsplit expand_as flatten hsplit moveaxis movedim narrow positive ravel real reshape
    reshape_as resolve_conj split squeeze swapaxes swapdims t tensor_split to type_as unflatten
    unsafe_chunk unsafe_split view_as vsplit
    """.split()
)


def _may_show(node):
    """May the result lie in the memory of the first argument?"""
    row = node.target.row
    return row.kind == "view" or row.key.partition(".")[0] in _MAY_SHOW


def fold_constants(program: ExportedProgram) -> ExportedProgram:
    """Compute once what does not depend on inputs, parameters and buffers.

    Returns:
        A new program.

    Example:
        >>> class Net(torch.nn.Module):
        ...     def forward(self, x):
        ...         return x + torch.arange(3) * 2
        >>> program = torch.export.export(Net(), (torch.zeros(3),))
        >>> [n.name for n in fold_constants(program).graph.nodes if n.op == "call_function"]
        ['add']
    """
    program = copied(program)
    graph, known = program.graph, {}
    for node in graph.nodes:
        if node.op == "placeholder":
            if node.meta["kind"] == "constant" and not _is_written(node):
                known[node] = program.constants[node.meta["target"]]
        elif _is_fixed(node) and all(n in known for n in node.all_input_nodes):
            args, kwargs = _values(node.args, known), _values(node.kwargs, known)
            with rushlight.no_grad():
                known[node] = node.target(*args, **kwargs)
    for node, value in list(known.items()):
        if node.op == "placeholder" or not isinstance(value, Tensor) or _is_written(node):
            continue
        if value.numel() > _LARGEST_CONSTANT or all(u in known for u in node.users):
            continue
        if is_operation(node.target) and _may_show(node):
            value = value.clone()  # elements of its own
        node.replace_all_uses_with(_new_constant(program, "folded", value))
    eliminate_dead_code(graph)
    drop_unused_tensors(program)
    return finish(program)


def _values(tree, known):
    if isinstance(tree, Node):
        return known[tree]
    if isinstance(tree, (list, tuple)):
        return [_values(v, known) for v in tree]
    if isinstance(tree, dict):
        return {k: _values(v, known) for k, v in tree.items()}
    return tree


# ---- fusion


def _only_use(node):
    """What alone uses the elements; questions about the shape have the same answers afterwards."""
    asked = (_record.dim(), _record.shape(), _record.sym_size())
    users = [u for u in node.users if u.target not in asked]
    return users[0] if len(users) == 1 else None


def _is_call(node, *keys):
    return node is not None and is_operation(node.target) and node.target.key in keys


def _argument(node, name, default=None):
    place = node.target.row.index(name)
    if 0 <= place < len(node.args):
        return node.args[place]
    return node.kwargs.get(name, default)


def fuse_linear_activation(program: ExportedProgram) -> ExportedProgram:
    """Replace a linear layer and the relu behind it by one operation, which gives the same bits.

    Returns:
        A new program.
    """
    program = copied(program)
    graph = program.graph
    for node in list(graph.nodes):
        after = _only_use(node)
        if not (_is_call(node, "linear") and _is_call(after, "relu", "relu_")):
            continue
        bias = _argument(node, "bias")
        if bias is None:
            continue
        with graph.inserting_before(after):
            args = (_argument(node, "input"), _argument(node, "weight"), bias, True)
            fused = graph.call_function(operation("linear.rectified"), args, name="linear_relu")
        fused.meta.update(after.meta)
        after.replace_all_uses_with(fused)
        graph.erase_node(after)
        if not node.users:
            graph.erase_node(node)
    return finish(program)


def fuse_conv_batch_norm(program: ExportedProgram) -> ExportedProgram:
    """Put batch norms of inference into the weights of the convolutions in front of them.

    Values change by rounding; the new weights are constants.

    Returns:
        A new program.
    """
    program = copied(program)
    graph = program.graph
    for node in list(graph.nodes):
        norm = _only_use(node)
        if not _is_call(node, "conv1d", "conv2d", "conv3d") or not _is_call(norm, "batch_norm"):
            continue
        names = ("running_mean", "running_var", "weight", "bias")
        operands = [_argument(node, "weight"), _argument(node, "bias")]
        operands += [_argument(norm, name) for name in names]
        lifted = all(n is None or (n.op == "placeholder" and n.meta["kind"] != "input")
                     for n in operands)  # fmt: skip
        if _argument(norm, "training", False) or not lifted or None in operands[2:4]:
            continue
        values = [None if n is None else _value_of(program, n) for n in operands]
        weight, bias = _folded(*values, _argument(norm, "eps", 1e-5))
        args = dict(enumerate(node.args))
        args[node.target.row.index("weight")] = _new_constant(program, "fused_weight", weight)
        args[node.target.row.index("bias")] = _new_constant(program, "fused_bias", bias)
        kwargs = {k: v for k, v in node.kwargs.items() if k not in ("weight", "bias")}
        node.args, node.kwargs = tuple(args[i] for i in sorted(args)), kwargs
        norm.replace_all_uses_with(node)
        graph.erase_node(norm)
    drop_unused_tensors(program)
    return finish(program)


def _value_of(program, placeholder):
    name = placeholder.meta["target"]
    return (program.state_dict if name in program.state_dict else program.constants)[name].detach()


def _folded(weight, bias, mean, variance, scale, shift, eps):
    with rushlight.no_grad():
        factor = (variance + eps).rsqrt()
        if scale is not None:
            factor = factor * scale
        bias = -mean if bias is None else bias - mean
        bias = bias * factor
        if shift is not None:
            bias = bias + shift
        return weight * factor.reshape(-1, *[1] * (weight.dim() - 1)), bias


# ---- memory


@dataclass
class MemoryPlan:
    """Where the values that a program computes can lie in one block of memory.

    Values whose lives do not overlap share bytes. Views lie where what they show lies.
    """

    offsets: dict[str, int] = field(default_factory=dict)  # name of a node -> offset
    sizes: dict[str, int] = field(default_factory=dict)  # name of a node -> bytes
    total: int = 0  # the block
    without_reuse: int = 0

    def __str__(self) -> str:
        rows = [f"{name}: {self.sizes[name]} bytes at {at}" for name, at in self.offsets.items()]
        rows.append(f"{self.total} bytes in all, {self.without_reuse} without reuse")
        return "\n".join(rows)


_ALIGNMENT = 64


def plan_memory(program: ExportedProgram) -> MemoryPlan:
    """Plan the memory of the values that a program computes.

    Sizes that may change are taken as in the example inputs. Results of operations whose kind is
    not known to make new memory (views, composites that may return their input) live as long as
    what they may show.

    Returns:
        MemoryPlan.
    """
    nodes = [n for n in program.graph.nodes if n.op == "call_function"]
    place = {n: i for i, n in enumerate(nodes)}
    end = len(nodes)
    owner, last = {}, {}
    for node in nodes:
        owner[node] = _owner(node, owner)
    for node in nodes:
        users = [place.get(u, end) for u in node.users]
        root = owner[node]
        last[root] = max([last.get(root, 0), place[node], *users])
    plan, live = MemoryPlan(), []  # live: (offset, end of it, last use)
    for node in nodes:
        value = node.meta.get("val")
        if owner[node] is not node or not isinstance(value, Tensor):
            continue
        size = -(-value.numel() * value.element_size() // _ALIGNMENT) * _ALIGNMENT
        live = sorted(block for block in live if block[2] >= place[node])
        at = 0
        for begin, stop, _ in live:  # the first gap that is large enough
            if begin - at >= size:
                break
            at = max(at, stop)
        live.append((at, at + size, last[node]))
        plan.offsets[node.name], plan.sizes[node.name] = at, size
        plan.total = max(plan.total, at + size)
        plan.without_reuse += size
    return plan


def _owner(node, owner):
    """The node whose memory a node's value may lie in: itself, if it makes a new tensor."""
    if is_operation(node.target):
        row = node.target.row
        may_be_view = row.kind in ("view", "inplace", "composite") or row.is_inplace
    else:
        may_be_view = node.target is operator.getitem
    inputs = [n for n in node.all_input_nodes if n in owner]
    if not may_be_view or not inputs or not _shares(node, inputs[0]):
        return node
    return owner[inputs[0]]


def _shares(node, source):
    """Do the values of the recorded run lie in the same memory, or is that not known?"""
    a, b = node.meta.get("val"), source.meta.get("val")
    if isinstance(b, (tuple, list)) and node.target is operator.getitem:
        return False
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        return True
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


# ---- devices


def move_to_device_pass(
    ep: ExportedProgram, location: rushlight.device | str | dict[str, str]
) -> ExportedProgram:
    """Move a program to a device: parameters, constants, and the devices that operations name.

    Args:
        ep: ExportedProgram, which is changed.
        location: the device, or {device: where what is there goes}.

    Returns:
        `ep`.
    """

    def moved(value):
        if isinstance(value, rushlight.nn.Parameter):
            return rushlight.nn.Parameter(value.detach().to(device_for(value.device)),
                                          value.requires_grad)  # fmt: skip
        return value.to(device_for(value.device)) if isinstance(value, Tensor) else value

    def device_for(device):
        if isinstance(location, dict):
            return location.get(str(device), str(device))
        return str(location)

    ep.state_dict = {name: moved(value) for name, value in ep.state_dict.items()}
    ep.constants = {name: moved(value) for name, value in ep.constants.items()}
    ep.example_inputs = map_aggregate(ep.example_inputs, moved)
    for node in ep.graph.nodes:
        node.args = map_aggregate(node.args, lambda v: _moved_device(v, device_for))
        node.kwargs = map_aggregate(node.kwargs, lambda v: _moved_device(v, device_for))
        if node.op == "placeholder" and node.meta["kind"] in ("parameter", "buffer", "constant"):
            node.meta["val"] = ep._lifted_value(node)
        elif "val" in node.meta:
            node.meta["val"] = map_aggregate(node.meta["val"], moved)
    ep.input_guards = guards_of(ep.graph)
    ep.validate()
    ep.graph_module.recompile()
    return ep


def _moved_device(value, device_for):
    if isinstance(value, rushlight.device):
        return rushlight.device(device_for(value))
    return value
