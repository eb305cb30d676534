"""Operations in terms of others: `ExportedProgram.run_decompositions`."""

from __future__ import annotations

import copy
import functools
import inspect

import rushlight
from rushlight.export import _table, passes
from rushlight.export._record import Recorder, UnsupportedOperation
from rushlight.export.exported_program import ExportedProgram, guards_of, signature_of
from rushlight.fx import GraphModule
from rushlight.fx.node import map_arg

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def _linear(input, weight, bias=None):
    y = input @ weight.t()
    return y if bias is None else y + bias


def _silu(input, inplace=False):
    return input * rushlight.sigmoid(input)


def _layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    dims = list(range(-len(normalized_shape), 0))
    centred = input - input.mean(dims, keepdim=True)
    y = centred * rushlight.rsqrt((centred * centred).mean(dims, keepdim=True) + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def _batch_norm(
    input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5
):
    if training:
        return NotImplemented  # it changes the running statistics
    shape = [1, -1, *[1] * (input.dim() - 2)]
    y = (input - running_mean.reshape(shape)) * rushlight.rsqrt(running_var.reshape(shape) + eps)
    y = y if weight is None else y * weight.reshape(shape)
    return y if bias is None else y + bias.reshape(shape)


def _softmax(input, dim, dtype=None):
    x = input if dtype is None else input.to(dtype)
    e = rushlight.exp(x - x.amax(dim, keepdim=True))
    return e / e.sum(dim, keepdim=True)


def _attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
):
    if dropout_p or enable_gqa:
        return NotImplemented
    scores = query @ key.transpose(-2, -1) * (query.size(-1) ** -0.5 if scale is None else scale)
    if is_causal:
        shape = (query.size(-2), key.size(-2))
        attn_mask = rushlight.ones(shape, dtype=rushlight.bool, device=query.device).tril()
    if attn_mask is not None and attn_mask.dtype is rushlight.bool:
        scores = scores.masked_fill(attn_mask.logical_not(), float("-inf"))
    elif attn_mask is not None:
        scores = scores + attn_mask
    return _softmax(scores, -1) @ value


def _dropout(input, p=0.5, training=True, inplace=False):
    return NotImplemented if training or inplace else input.clone()


_WRITTEN = {
    "linear": _linear, "functional_silu": _silu, "layer_norm": _layer_norm,
    "batch_norm": _batch_norm, "softmax": _softmax, "scaled_dot_product_attention": _attention,
    "functional_dropout": _dropout,
}  # fmt: skip


def _of_the_table(name):
    """What the table itself says that an operation is made of."""
    from rushlight.func._batching import _bodies

    def body(*args, **kwargs):
        for signature, function in _bodies._bodies(name):
            try:
                signature.bind(*args, **kwargs)
            except TypeError:
                continue
            return function(*args, **kwargs)
        return NotImplemented

    return body


@functools.cache
def default_table() -> dict[Any, Callable[..., Any]]:
    """{operation: function}; a function that returns NotImplemented leaves the call as it is."""
    from rushlight._op_rules import BODIES

    table = {_table.operation(key): function for key, function in _WRITTEN.items()}
    for name in BODIES:
        if name in _table.schemas() and _table._has_name(name):
            table.setdefault(_table.operation(name), _of_the_table(name))
    return table


def run(
    program: ExportedProgram, table: dict[Any, Callable[..., Any]] | None = None
) -> ExportedProgram:
    """The program with the operations of a table replaced."""
    table = default_table() if table is None else dict(table)
    for target, function in table.items():
        if not callable(function):
            raise TypeError(f"run_decompositions: {target} has {function!r}, which is no function")
    recorder = Recorder(dynamic=bool(program.range_constraints))
    graph, values, numbers = recorder.graph, {}, {}
    for node in program.graph.nodes:
        if node.op == "placeholder":
            new = graph.placeholder(node.name)
            new.target = new.name
            new.meta.update(node.meta)
            value = node.meta["val"]
            if isinstance(value, rushlight.Tensor):
                recorder.note(value, new)
            values[node] = new
        elif node.op == "output":
            graph.output(map_arg(node.args[0], lambda n: values[n]))
        elif node.target in table and _expand(recorder, table[node.target], node, values, numbers):
            pass
        else:
            values[node] = graph.node_copy(node, lambda n: values[n])
            if isinstance(node.meta.get("val"), rushlight.Tensor):
                recorder.note(node.meta["val"], values[node])
    root = {n.target: getattr(program.graph_module, n.target)
            for n in graph.nodes if n.op == "get_attr"}  # fmt: skip
    passes.eliminate_dead_code(graph)
    constants = dict(program.constants)
    constants |= {n.meta["target"]: value for n, value in recorder.constants}
    made = ExportedProgram(
        GraphModule(root, graph), signature_of(graph, set(constants)), dict(program.state_dict),
        constants, program.in_spec, program.out_spec, guards_of(graph),
        dict(program.range_constraints), program.example_inputs,
    )  # fmt: skip
    made.takes_lists, made.training = program.takes_lists, program.training
    made._module_calls = _renamed(program._module_calls, values)
    return made


def _renamed(entries, values):
    """The calls of modules, with the names that nodes have now."""
    names = {old.name: new.name for old, new in values.items()}
    entries = copy.deepcopy(entries)
    for entry in entries or ():
        signature = entry.signature
        for argument in (*signature.inputs, *signature.outputs) if signature else ():
            argument.name = names.get(argument.name, argument.name)
    return entries


def _expand(recorder, function, node, values, numbers):
    """Run a decomposition on the values of the recorded run, and note its result for the node."""
    from rushlight.export._symbols import symbol_of

    def value_of(n):
        value = n.meta.get("val")
        if isinstance(value, rushlight.Tensor) or value is None:
            return value
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return symbol_of(recorder, values[n], value, n.name)
        return value

    args, kwargs = map_arg((node.args, node.kwargs), value_of)
    signature = inspect.signature(function)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"run_decompositions: {node.target}: {error}") from None
    last = recorder.graph._root._prev
    with recorder:
        result = function(*args, **kwargs)
    if result is NotImplemented:
        return False
    made = recorder.graph._root._prev
    while made is not last:  # they are of the module that the operation was of
        if made.op != "placeholder" and "nn_module_stack" in node.meta:
            made.meta["nn_module_stack"] = node.meta["nn_module_stack"]
        made = made._prev
    if not isinstance(result, rushlight.Tensor):
        raise UnsupportedOperation(
            f"run_decompositions: the function for {node.target} returns a "
            f"{type(result).__name__}; only one tensor can be replaced"
        )
    values[node] = recorder.node_of(result)
    value = node.meta["val"]  # what follows was recorded on this one
    recorder.note(value, values[node])
    return True
