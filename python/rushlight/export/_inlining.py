"""A program's graph as a part of another one."""

from rushlight.fx.node import map_arg
from rushlight.utils._pytree import tree_unflatten


class Inlining:
    """For each node of a program's graph the node of another that stands for it.

    Args:
        into: what makes the other graph: a recorder, or a builder of the compiler of scripts.
    """

    def __init__(self, into, program):
        self.into, self.program, self.nodes = into, program, {}

    def run(self, leaves):
        """What the program returns for its flat inputs."""
        leaves = iter(leaves)
        for node in self.program.graph.nodes:
            if node.op == "output":
                results = [self.result(v) if v in self.nodes else v for v in node.args[0]]
                return tree_unflatten(results, self.program.out_spec)
            if node.op == "placeholder":
                given = node.meta["kind"] == "input"
                made = self.given(node, next(leaves) if given else self.program._lifted_value(node))
            elif node.op == "get_attr":
                made = self.branch(node, getattr(self.program.graph_module, node.target))
            else:
                made = self.computed(node)
            self.nodes[node] = made

    def given(self, node, value):
        return self.into.lower(value)

    def branch(self, node, module):
        return self.into.attach(node.target.rpartition("_")[0], module)

    def computed(self, node):
        args, kwargs = map_arg((node.args, node.kwargs), self.nodes.__getitem__)
        return self.into.graph.call_function(node.target, tuple(args), dict(kwargs))

    def result(self, node):
        """A value that the program returns, as who called it has it."""
        raise NotImplementedError
