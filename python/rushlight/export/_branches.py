"""Recording cond, while_loop and scan: their functions become graphs, arguments of a node.

What a function uses of the program around it becomes a further operand of all graphs of the call.
"""

import operator

import rushlight
from rushlight import Tensor
from rushlight.export import _record
from rushlight.export._higher_order import higher_order
from rushlight.export._symbols import hint_of, is_symbol, symbol_of
from rushlight.fx import GraphModule
from rushlight.utils._pytree import tree_flatten, tree_unflatten


class _Branch:
    """The recording of one function on stand-ins for its operands."""

    def __init__(self, outer, function, operands, spec, what):
        self.recorder = _record.Recorder(dynamic=outer.dynamic, outer=outer)
        self.explicit = []
        inputs = []
        for i, value in enumerate(operands):
            node = self.recorder.new_placeholder(f"arg{i}", value)
            self.explicit.append(node)
            if isinstance(value, Tensor):
                value = value.detach().clone() if not value.requires_grad else value.clone()
                self.recorder.note(value, node)
            elif is_symbol(value) or (type(value) in (int, float)):
                value = symbol_of(self.recorder, node, hint_of(value), node.name)
            inputs.append(value)
        self.inputs = inputs
        versions = [v._version for v in inputs if isinstance(v, Tensor)]
        with self.recorder:
            result = function(*tree_unflatten(inputs, spec))
        self.results, self.spec = tree_flatten(result)
        for value in self.results:
            if not isinstance(value, Tensor) and not is_symbol(value) and type(value) not in (
                int, float, bool,
            ):  # fmt: skip
                raise _record.UnsupportedOperation(
                    f"export: {what}: a function returns a {type(value).__name__}"
                )
        if versions != [v._version for v in inputs if isinstance(v, Tensor)]:
            raise _record.UnsupportedOperation(
                f"export: {what}: a function changes an operand in place"
            )
        self.lowered = [self.recorder.lower(v) for v in self.results]

    def finish(self, captured, outer, name):
        """The node of the graph in the graph around, with all the captured operands."""
        graph = self.recorder.graph
        own = self.recorder.captured()
        places = [
            own[node] if node in own else self.recorder.new_placeholder(node.name, value)
            for node, value in captured
        ]
        first = next(iter(graph.nodes), None)
        for node in reversed([*self.explicit, *places]):
            if node is not first:
                first.prepend(node)
                first = node
        graph.output(tuple(self.lowered))
        from rushlight.export import passes

        passes.eliminate_dead_code(graph)
        return outer.attach(name, GraphModule(self.recorder.modules, graph))


def _captured(branches):
    found = {}
    for branch in branches:
        for outer, inner in branch.recorder.captured().items():
            found.setdefault(outer, inner.meta["val"])
    return list(found.items())


def _emit(outer, name, graphs, args, results):
    """The node of the call, and the results noted as its items."""
    node = outer.graph.call_function(higher_order(name), (*graphs, *args))
    node.meta.update(val=None, stack_trace=_record._where())
    found = []
    for i, value in enumerate(results):
        part = outer.graph.call_function(operator.getitem, (node, i))
        part.meta.update(val=hint_of(value), stack_trace=node.meta["stack_trace"])
        if isinstance(value, Tensor):
            value = value.detach().clone()  # one of the graph around, whatever it was inside
            outer.note(value, part)
        else:
            value = symbol_of(outer, part, hint_of(value), part.name)
        found.append(value)
    return found


def _kinds(values):
    return [(v.dtype, v.dim()) if isinstance(v, Tensor) else type(hint_of(v)) for v in values]


def _agree(what, left, right):
    if _kinds(left) != _kinds(right):
        raise _record.UnsupportedOperation(
            f"export: {what}: {_kinds(left)} and {_kinds(right)} are of different kinds "
            f"({_record._where()})"
        )


def cond(outer, pred, true_fn, false_fn, operands=()):
    """Record torch.cond."""
    if not isinstance(pred, Tensor) and not is_symbol(pred):
        with outer:
            return (true_fn if pred else false_fn)(*operands)
    flat, spec = tree_flatten(tuple(operands))
    branches = [_Branch(outer, f, flat, spec, "cond") for f in (true_fn, false_fn)]
    if branches[0].spec != branches[1].spec:
        raise _record.UnsupportedOperation(
            f"export: cond: the functions return different structures ({_record._where()})"
        )
    _agree("cond: the results of its functions", *(b.results for b in branches))
    captured = _captured(branches)
    names = ("true_graph", "false_graph")
    graphs = [b.finish(captured, outer, name) for b, name in zip(branches, names)]
    operands = [outer.lower(v) for v in flat] + [node for node, _ in captured]
    chosen = branches[0 if bool(hint_of(pred)) else 1]
    results = _emit(outer, "cond", [outer.lower(pred), *graphs], [operands], chosen.results)
    return tree_unflatten(results, chosen.spec)


def while_loop(outer, cond_fn, body_fn, carried_inputs, additional_inputs=()):
    """Record while_loop."""
    carried, carried_spec = tree_flatten(tuple(carried_inputs))
    more, _ = tree_flatten(tuple(additional_inputs))
    flat, spec = tree_flatten((*carried_inputs, *additional_inputs))
    condition = _Branch(outer, cond_fn, flat, spec, "while_loop")
    if len(condition.results) != 1:
        raise _record.UnsupportedOperation("export: while_loop: cond_fn returns no single value")
    body = _Branch(outer, body_fn, flat, spec, "while_loop")
    _agree("while_loop: the carried values and what body_fn returns", carried, body.results)
    captured = _captured([condition, body])
    graphs = [b.finish(captured, outer, n) for b, n in ((condition, "cond_graph"),
                                                        (body, "body_graph"))]  # fmt: skip
    operands = [outer.lower(v) for v in more] + [node for node, _ in captured]
    values = [hint_of(v) for v in carried]
    extra = [hint_of(v) for v in more] + [hint_of(v) for _, v in captured]
    modules = [outer.modules[g.target] for g in graphs]
    values = higher_order("while_loop")(*modules, values, extra)
    results = _emit(
        outer, "while_loop", graphs, [[outer.lower(v) for v in carried], operands], values
    )
    return tree_unflatten(results, carried_spec)


def scan(outer, combine_fn, init, xs, *, dim=0, reverse=False):
    """Record scan."""
    carried, carried_spec = tree_flatten(init)
    rows, rows_spec = tree_flatten(xs)
    with outer:
        if dim:
            rows = [x.movedim(dim, 0) for x in rows]
        if reverse:
            rows = [x.flip(0) for x in rows]
        slices = [x.select(0, 0) for x in rows]
    flat, spec = tree_flatten((init, tree_unflatten(slices, rows_spec)))
    body = _Branch(outer, combine_fn, flat, spec, "scan")
    if not body.spec.children() or len(body.spec.children()) != 2:
        raise _record.UnsupportedOperation("export: scan: combine_fn must return (carry, output)")
    count = len(carried)
    _agree("scan: the carry and what combine_fn returns", carried, body.results[:count])
    captured = _captured([body])
    graph = body.finish(captured, outer, "scan_graph")
    operands = [node for node, _ in captured]
    with rushlight.no_grad():
        values = higher_order("scan")(
            outer.modules[graph.target], [hint_of(v) for v in carried], rows,
            [hint_of(v) for _, v in captured], count,
        )  # fmt: skip
    args = [[outer.lower(v) for v in carried], [outer.lower(x) for x in rows], operands, count]
    results = _emit(outer, "scan", [graph], args, values)
    outputs = results[count:]
    if reverse:
        with outer:
            outputs = [y.flip(0) for y in outputs]
    return (
        tree_unflatten(results[:count], carried_spec),
        tree_unflatten(outputs, body.spec.children()[1]),
    )


def again(outer, name, *args):
    """Record a node of control flow of a program that runs inside the one that is recorded."""
    if name == "cond":
        pred, true_graph, false_graph, operands = args
        return cond(outer, pred, true_graph, false_graph, operands)
    if name == "while_loop":
        condition, body, carried, operands = args
        return while_loop(outer, lambda *values: condition(*values)[0], body, carried, operands)
    combine, carried, xs, operands, count = args

    def step(carry, slices):
        results = combine(*carry, *slices, *operands)
        return tuple(results[:count]), tuple(results[count:])

    carry, outputs = scan(outer, step, tuple(carried), tuple(xs))
    return (*carry, *outputs)
