"""Recording a call of a script: its graph becomes a part of the one that is recorded, with branches
and loops as they are."""

import operator

from rushlight import _C, Tensor
from rushlight.export import _record
from rushlight.export._symbols import hint_of, symbol_of
from rushlight.export._table import is_operation
from rushlight.fx.node import map_aggregate, map_arg
from rushlight.overrides import _get_current_function_mode
from rushlight.utils._pytree import tree_flatten, tree_unflatten


def recorder_of(program):
    """The recorder that is entered, if the program does what its operations alone do not show."""
    mode = _get_current_function_mode()
    if not isinstance(mode, _record.Recorder):
        return None
    calls = [n.target for n in program.graph.nodes if n.op in ("call_function", "get_attr")]
    plain = all(is_operation(t) or t is operator.getitem for t in calls)
    return None if plain else mode


def call(recorder, program, args, kwargs):
    """Compute and record what a program computes."""
    with _C.DisableTorchFunction():
        program.flat_inputs(*map_aggregate((tuple(args), kwargs), hint_of))
        return _Inlining(recorder, program).run(args, kwargs)


class _Inlining:
    """For each node of a program its value now, and the node that stands for it."""

    def __init__(self, recorder, program):
        self.recorder, self.program = recorder, program
        self.values, self.nodes = {}, {}

    def run(self, args, kwargs):
        lists = (lambda v: isinstance(v, list)) if self.program.takes_lists else None
        leaves = iter(tree_flatten((tuple(args), kwargs), lists)[0])
        for node in self.program.graph.nodes:
            if node.op == "output":
                results = [self.result(value) for value in node.args[0]]
                return tree_unflatten(results, self.program.out_spec)
            if node.op == "placeholder":
                given = node.meta["kind"] == "input"
                value = next(leaves) if given else self.program._lifted_value(node)
                self.values[node] = map_aggregate(value, hint_of)
                self.nodes[node] = self.recorder.lower(value)
            elif node.op == "get_attr":
                self.values[node] = module = getattr(self.program.graph_module, node.target)
                kind = node.target.rpartition("_")[0]
                path = f"{kind}_{len(self.recorder.modules)}"
                self.recorder.modules[path] = module
                self.recorder.subgraphs.append(module.graph)
                self.nodes[node] = self.recorder.graph.get_attr(path)
            else:
                self.compute(node)

    def compute(self, node):
        args, kwargs = map_arg((node.args, node.kwargs), self.values.__getitem__)
        value = node.target(*args, **kwargs)
        args, kwargs = map_arg((node.args, node.kwargs), self.nodes.__getitem__)
        made = self.recorder.graph.call_function(node.target, tuple(args), dict(kwargs))
        made.meta.update(node.meta, val=value, stack_trace=_record._where())
        self.values[node], self.nodes[node] = value, made

    def result(self, output):
        """A value of the program as who called it has it."""
        if output not in self.nodes:
            return output
        value, node = self.values[output], self.nodes[output]
        if isinstance(value, Tensor):
            self.recorder.note(value, node)
        elif type(value) in (int, float, bool):
            value = symbol_of(self.recorder, node, value, node.name)
        return value
