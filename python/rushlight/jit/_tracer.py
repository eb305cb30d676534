"""Recording a run for `jit.trace`: what the program reads of a tensor's elements is a constant."""

import operator

from rushlight._ignored import warn_program
from rushlight.export import _record
from rushlight.export._symbols import symbol_of

# Operations whose number of results depends on a size, and which programs unpack or go through.
_COUNTED = {"unbind", "split", "chunk", "unsafe_split", "unsafe_chunk"}


class TracerWarning(Warning):
    """A traced program looks at the elements of a tensor: the graph keeps what it has seen."""

    @staticmethod
    def ignore_lib_warnings():
        """Let the warnings of torch's own code be silent: rushlight's gives none."""


class TraceRecorder(_record.Recorder):
    """Records a run as `export` does, but warns where that refuses to look at elements."""

    reads = False  # elements, so that what was made of them may be a constant
    takes_inputs = True  # where the program names them another way, they are inputs too

    def fix(self, symbol):
        """The graph keeps what the program makes of the number: it has to be the same again."""
        text = f"{symbol.expression} == {symbol.hint}"
        if text not in self.guards:
            self.guard(operator.eq, symbol, symbol.hint, True)

    def create(self, target, args, kwargs, result):
        node = super().create(target, args, kwargs, result)
        if self.dynamic and getattr(getattr(target, "row", None), "key", None) in _COUNTED:
            count = self.graph.call_function(_record.length(), (node,))
            count.meta.update(val=len(result), stack_trace=node.meta["stack_trace"])
            self.fix(symbol_of(self, count, len(result), f"len({node.name})"))
        return node

    def value_of(self, func, args, kwargs, what, instead):
        warn_program(
            f"jit.trace: {what}: the graph goes on as with this input, whatever it is given",
            TracerWarning,
        )
        self.reads = True
        return func(*args, **kwargs)

    def same_constant(self, one, other):
        return one is other or (self.reads and one.equal(other))
