"""Recording a call of a script: its graph becomes a part of the one that is recorded, with branches
and loops as they are."""

import operator

from rushlight import _C, Tensor
from rushlight.export import _record
from rushlight.export._inlining import Inlining
from rushlight.export._symbols import hint_of, symbol_of
from rushlight.export._table import is_operation
from rushlight.fx.node import map_aggregate, map_arg
from rushlight.overrides import _get_current_function_mode


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
        return _Recorded(recorder, program).run(program._leaves(args, kwargs))


class _Recorded(Inlining):
    """For each node of a program its value now, too."""

    def __init__(self, recorder, program):
        super().__init__(recorder, program)
        self.values = {}

    def given(self, node, value):
        self.values[node] = map_aggregate(value, hint_of)
        return super().given(node, value)

    def branch(self, node, module):
        self.values[node] = module
        return super().branch(node, module)

    def computed(self, node):
        args, kwargs = map_arg((node.args, node.kwargs), self.values.__getitem__)
        value = self.values[node] = node.target(*args, **kwargs)
        made = super().computed(node)
        made.meta.update(node.meta, val=value, stack_trace=_record._where())
        return made

    def result(self, node):
        value, made = self.values[node], self.nodes[node]
        if isinstance(value, Tensor):
            self.into.note(value, made)
        elif type(value) in (int, float, bool):
            value = symbol_of(self.into, made, value, made.name)
        return value
