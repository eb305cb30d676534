"""Recording a run for `jit.trace`: what the program reads of a tensor's elements is a constant."""

import operator

from rushlight._ignored import warn_program
from rushlight.export import _record


class TracerWarning(Warning):
    """A traced program looks at the elements of a tensor: the graph keeps what it has seen."""

    @staticmethod
    def ignore_lib_warnings():
        """Let the warnings of torch's own code be silent: rushlight's gives none."""


class TraceRecorder(_record.Recorder):
    """Records a run as `export` does, but warns where that refuses to look at elements."""

    reads = False  # elements, so that what was made of them may be a constant

    def fix(self, symbol):
        """The graph keeps what the program makes of the number: it has to be the same again."""
        text = f"{symbol.expression} == {symbol.hint}"
        if text not in self.guards:
            self.guard(operator.eq, symbol, symbol.hint, True)

    def value_of(self, func, args, kwargs, what, instead):
        warn_program(
            f"jit.trace: {what}: the graph goes on as with this input, whatever it is given",
            TracerWarning,
        )
        self.reads = True
        return func(*args, **kwargs)

    def same_constant(self, one, other):
        return one is other or (self.reads and one.equal(other))
