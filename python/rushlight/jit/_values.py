"""What the compiler knows of values that a program computes: the node, and the type."""

import operator

import rushlight
from rushlight.export import _table
from rushlight.export._lifting import constant_position
from rushlight.fx import Graph


class NotSupportedError(RuntimeError):
    """What torch raises where `script` does not compile something."""

    __module__ = "rushlight.jit.frontend"


class CompilationError(NotSupportedError):
    """A construct that `jit.script` does not compile."""


class Computed:
    """A value that a graph computes. kind: Tensor, int, float, bool, list, tensors, dtype, device.

    A list has ints or values of kind `item`; tensors is a list of tensors.
    """

    def __init__(self, builder, node, kind, item=None):
        self.builder, self.node, self.kind, self.item = builder, node, kind, item

    def __repr__(self):
        return f"<{self.kind} {self.node.name}>"


class Shape:
    """The shape of a tensor whose number of dims is not known."""

    def __init__(self, tensor):
        self.tensor = tensor


class Kinds:
    """What the table asks of arguments, when only their kinds are known."""

    @staticmethod
    def is_tensor(v):
        return isinstance(v, rushlight.Tensor) or (isinstance(v, Computed) and v.kind == "Tensor")

    @staticmethod
    def is_int(v):
        return (isinstance(v, int) and not isinstance(v, bool)) or (
            isinstance(v, Computed) and v.kind == "int"
        )

    @staticmethod
    def is_number(v):
        return isinstance(v, (bool, int, float, complex)) or (
            isinstance(v, Computed) and v.kind in ("int", "float", "bool")
        )

    @staticmethod
    def is_real(v):
        return Kinds.is_number(v) and not isinstance(v, complex)

    @staticmethod
    def is_bool(v):
        return isinstance(v, bool) or (isinstance(v, Computed) and v.kind == "bool")

    is_scalar = is_number


def fits_as_list(p, v):
    """Is a computed list what a parameter takes?"""
    if not isinstance(v, Computed):
        return False
    if p.kind == "IntList":
        return v.kind == "list" and v.item == "int"
    if p.kind == "TensorList":
        return v.kind == "tensors"
    return (p.kind == "DType" and v.kind == "dtype") or (p.kind == "Device" and v.kind == "device")


class Builder:
    """One graph in the making; `outer` is the one around it."""

    def __init__(self, outer=None):
        self.graph = Graph()
        self.outer = outer
        self.modules = outer.modules if outer else {}
        self.captured = {}  # node of the outer graph -> placeholder here
        self.constants = outer.constants if outer else {}  # id -> (node of the main graph, tensor)
        self.lifted = outer.lifted if outer else {}  # id -> (name, kind, tensor)

    def main(self):
        """The outermost builder."""
        return self.outer.main() if self.outer else self

    def placeholder(self, name, **meta):
        """One more input, behind the others."""
        places = [n for n in self.graph.nodes if n.op == "placeholder"]
        first = next(iter(self.graph.nodes), None)
        if places:
            place = self.graph.inserting_after(places[-1])
        elif first is not None:
            place = self.graph.inserting_before(first)
        else:
            place = self.graph.inserting_before()
        with place:
            node = self.graph.placeholder(name)
        node.target = node.name
        node.meta.update(kind="operand", **meta)
        return node

    def capture(self, node):
        """The placeholder for a node of the graph around."""
        if node not in self.captured:
            self.captured[node] = self.placeholder(node.name)
        return self.captured[node]

    def attach(self, name, module):
        """The node of a branch or the body of a loop."""
        path = f"{name}_{len(self.modules)}"
        self.modules[path] = module
        return self.graph.get_attr(path)

    def lower(self, v):
        """The value as an argument of a node of this graph."""
        if isinstance(v, Computed):
            if v.builder is self:
                return v.node
            if self.outer is None:
                raise CompilationError("jit.script: a value is used outside of its loop or branch")
            return self.capture(self.outer.lower(v))
        if isinstance(v, Shape):
            return self.lower(v.tensor.builder.call_primitive("shape", (v.tensor,)))
        if isinstance(v, rushlight.Tensor):
            return self._tensor(v)
        if isinstance(v, (list, tuple)):
            return [self.lower(one) for one in v]
        if v is None or isinstance(
            v, (bool, int, float, complex, str, rushlight.dtype, rushlight.device,
                rushlight.memory_format, rushlight.layout),
        ):  # fmt: skip
            return v
        raise CompilationError(f"jit.script: a {type(v).__name__} cannot be a value of a graph")

    def _tensor(self, t):
        if self.outer is not None:
            return self.capture(self.outer._tensor(t))
        if id(t) not in self.constants:
            name, kind = self.lifted.get(id(t), (f"constant_{len(self.constants)}", "constant"))[:2]
            prefix = {"parameter": "p_", "buffer": "b_", "constant": "c_"}[kind]
            with constant_position(self.graph):
                node = self.graph.placeholder(prefix + name.replace(".", "_"))
            node.target = node.name
            node.meta.update(kind=kind, target=name, val=t)
            self.constants[id(t)] = (node, t)
        return self.constants[id(t)][0]

    def node(self, target, args, kwargs=None):
        """A call node."""
        return self.graph.call_function(
            target, tuple(self.lower(a) for a in args),
            {k: self.lower(v) for k, v in (kwargs or {}).items()},
        )  # fmt: skip

    def call_primitive(self, name, args, kind=None, item=None):
        """A call of an operation on numbers or of graphs."""
        from rushlight.export import _record

        kinds = {"shape": ("list", "int"), "dim": ("int", None), "sym_size": ("int", None),
                 "truth": ("bool", None), "dtype_of": ("dtype", None),
                 "device_of": ("device", None)}  # fmt: skip
        kind, item = (kind, item) if kind else kinds[name]
        return Computed(self, self.node(_record.PRIMITIVES[name](), args), kind, item)

    def call_operation(self, name, args, kwargs):
        """A call of a Python function of the table; None if no operation fits."""
        args = tuple(self._listed(a) for a in args)
        kwargs = {k: self._listed(v) for k, v in kwargs.items() if k != "out" or v is not None}
        found = _table.resolve(name, args, kwargs, Kinds, fits_as_list)
        if found is None:
            return None
        row, values = found
        args, kwargs = _table.arguments(row, values)
        node = self.node(_table.operation(row.key), args, kwargs)
        return self.result(node, row.returns)

    def _listed(self, v):
        return self.call_primitive("shape", (v.tensor,)) if isinstance(v, Shape) else v

    def result(self, node, returns):
        """What a node of an operation gives."""
        if returns == ("Tensor",) or returns == ("out",):
            return Computed(self, node, "Tensor")
        if returns == ("list[Tensor]",):
            return Computed(self, node, "tensors")
        if returns in (("bool",), ("int",), ("float",)):
            return Computed(self, node, returns[0])
        if returns == ("None",):
            return None
        if returns == ("dtype",):
            return Computed(self, node, "dtype")
        parts = tuple(self.item(node, i, "Tensor") for i in range(len(returns)))
        name = node.target.key.partition(".")[0].rstrip("_")
        kind = getattr(rushlight.return_types, name, None)
        return parts if kind is None else kind(parts)

    def item(self, node, index, kind, item=None):
        """node[index]."""
        args = (node, index if isinstance(index, int) else self.lower(index))
        return Computed(self, self.graph.call_function(operator.getitem, args), kind, item)
