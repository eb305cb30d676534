"""A program as a list of operations, from which Python code is generated."""

from __future__ import annotations

import contextlib
import enum
import operator
import weakref
from collections import namedtuple

import rushlight
from rushlight._ignored import warn_of, warn_program as _warn_program
from rushlight.fx._names import (
    GLOBALS,
    IN_PLACE_OPERATORS,
    OPERATORS,
    REFLECTED_OPERATORS,
    Namespace,
    is_of_rushlight,
    is_operator,
    name_of_target,
    qualified_name,
)
from rushlight.fx.node import OPS, Node, Target, map_aggregate, map_arg, type_name  # noqa: F401

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from rushlight.fx._symbolic_trace import Tracer
    from rushlight.fx.graph_module import GraphModule
    from rushlight.nn.modules.module import Module

__all__ = ["CodeGen", "Graph", "PythonCode"]

# As torch calls the tables, for tracers of other libraries.
magic_methods: dict[str, str] = OPERATORS
inplace_methods: dict[str, str] = IN_PLACE_OPERATORS
reflectable_magic_methods: dict[str, str] = {name: OPERATORS[name] for name in REFLECTED_OPERATORS}

# src: the source; globals: what it names; lineno_map: index of the node that each line is of.
PythonCode: type[Any] = namedtuple("PythonCode", "src globals lineno_map", defaults=(None,))


class _NodeList:
    """The nodes of a graph in order; erasing them while iterating is safe."""

    def __init__(self, graph: Graph, direction: str = "_next") -> None:
        self.graph = graph
        self.direction = direction

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Any]:
        root, node = self.graph._root, getattr(self.graph._root, self.direction)
        while node is not root:
            if not node._erased:
                yield node
            node = getattr(node, self.direction)  # an erased node keeps its links

    def __call__(self) -> Iterator[Any]:
        """The nodes as TorchScript writes them, of a graph that `jit` made."""
        from rushlight.jit._trace_graph import graph_of

        return graph_of(self.graph).nodes()

    def __reversed__(self) -> _NodeList:
        return _NodeList(self.graph, "_prev" if self.direction == "_next" else "_next")


class Graph:
    """A list of nodes: placeholders, then operations, then one output.

    Args:
        owning_module: module whose attributes the nodes name.

    Example:
        >>> graph = torch.fx.Graph()
        >>> x = graph.placeholder("x")
        >>> y = graph.call_function(torch.relu, (x,))
        >>> _ = graph.output(y)
        >>> print(graph)
        graph():
            %x : [num_users=1] = placeholder[target=x]
            %relu : [num_users=1] = call_function[target=torch.relu](args = (%x,), kwargs = {})
            return relu
    """

    def __init__(
        self,
        owning_module: GraphModule | None = None,
        tracer_cls: type[Tracer] | None = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:
        self._root = Node(self, "", "root", "", (), {})  # before the first, after the last
        self._len = 0
        self._insert = self._root.prepend
        self._namespace = Namespace()
        self._owner = None
        self._tracer_cls, self._tracer_extras = tracer_cls, tracer_extras
        self._codegen = CodeGen()
        self.owning_module = owning_module

    @property
    def owning_module(self) -> GraphModule | None:
        """The module whose attributes the nodes name; where it is gone, one with the same
        parameters, buffers and modules.
        """
        if self._owner is None:
            return None
        return self._owner() or _module_with(*self._members)

    @owning_module.setter
    def owning_module(self, module: Module) -> GraphModule | None:
        self._owner = self._members = None
        if module is not None:
            self._owner = weakref.ref(module)  # it holds this graph
            self._members = module._parameters, module._buffers, module._modules

    @property
    def nodes(self) -> _NodeList:
        """The nodes, in order."""
        return _NodeList(self)

    def output_node(self) -> Node:
        """Return the output."""
        node = self._root._prev
        if node is self._root or node.op != "output":
            raise RuntimeError("the graph has no output")
        return node

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Any]:
        """Return the nodes of an op and, for calls of a function, target."""
        return [
            node
            for node in self.nodes
            if node.op == op and (target is None or node.target is target or node.target == target)
        ]

    # -- making nodes ----------------------------------------------------------------------------

    def create_node(
        self,
        op: str,
        target: Target,
        args: Any = None,
        kwargs: Any = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Insert a node at the current place, by default the end.

        Args:
            op, target, args, kwargs: see `Node`.
            name: wish for its name, which is made unique.
            type_expr: annotation of its value.
        """
        args, kwargs = () if args is None else args, {} if kwargs is None else kwargs
        _check_node(op, target, args, kwargs)
        for used in _nodes_in((args, kwargs)):
            if used.graph is not self:
                raise RuntimeError(f"create_node: argument {used.name} belongs to another graph")
        name = self._namespace.create_name(name or name_of_target(target))
        node = Node(self, name, op, target, args, kwargs, type_expr)
        self._namespace.associate(name, node)
        self._insert(node)
        self._len += 1
        for hook in getattr(self.owning_module, "_create_node_hooks", ()):
            hook(node)
        return node

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        """Insert an argument of the function, before the current place."""
        args = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """Insert the fetching of a module's attribute, such as "layer1.weight"."""
        owner = self.owning_module
        if owner is not None and not _has_attribute(owner, qualified_name):
            _warn_program(
                f"get_attr: {qualified_name!r} is not an attribute of the owning module, yet",
            )
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self, module_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None
    ) -> Node:
        """Insert a call of a submodule."""
        owner = self.owning_module
        if owner is not None and not _has_attribute(owner, module_name):
            _warn_program(
                f"call_module: {module_name!r} is not a module of the owning module, yet",
            )
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self, method_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None
    ) -> Node:
        """Insert a call of a method of args[0]."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: Any = None,
        kwargs: Any = None,
        type_expr: Any = None,
        name: str | None = None,
    ) -> Node:
        """Insert a call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def create_size_node(self, tensor_node: Node, dim: int) -> Node:
        """Insert what asks for a node's size along a dim."""
        size = rushlight.ops.aten.sym_size.int
        return self._asked(size, tensor_node, (dim,), lambda t: t.size(dim))

    def create_stride_node(self, tensor_node: Node, dim: int) -> Node:
        """Insert what asks for a node's stride along a dim."""
        stride = rushlight.ops.aten.sym_stride.int
        return self._asked(stride, tensor_node, (dim,), lambda t: t.stride(dim))

    def create_storage_offset_node(self, tensor_node: Node) -> Node:
        """Insert what asks where in its storage a node's first element is."""
        offset = rushlight.ops.aten.sym_storage_offset.default
        return self._asked(offset, tensor_node, (), lambda t: t.storage_offset())

    def _asked(self, question, tensor_node, args, answer):
        """A node that asks a tensor something, with the answer for the example noted."""
        node = self.call_function(question, (tensor_node, *args))
        for key in ("val", "example_value"):
            example = tensor_node.meta.get(key)
            if example is not None:
                node.meta[key] = answer(example)
                break
        return node

    def materialize_symints(self, values: Sequence[int]) -> list[int]:
        """Return sizes as what nodes take for arguments: themselves, as all of them are known.

        Raises:
            TypeError: one is no int.
        """
        for value in values:
            if not isinstance(value, int):
                raise TypeError(f"materialize_symints: expected an int, got {type(value).__name__}")
        return list(values)

    def materialize_symint(self, value: int) -> int:
        """Return a size as what nodes take for an argument; see `materialize_symints`."""
        return self.materialize_symints([value])[0]

    def output(self, result: Any, type_expr: Any = None) -> Node:
        """Insert what the function returns: a node, or a structure of nodes."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Any = lambda node: node) -> Node:
        """Insert a copy of another graph's node, with `arg_transform` of the nodes it uses."""
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        new = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        new.meta = dict(node.meta)
        return new

    def graph_copy(
        self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False
    ) -> Any:
        """Insert copies of all nodes of graph `g` but its output.

        Args:
            val_map: dict of g's nodes and ours; nodes that it holds are not copied, the others are
                added.

        Returns:
            What stands for g's output here; with `return_output_node`, a pair with the node itself.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Graph:
        new = Graph(tracer_cls=self._tracer_cls)
        new._codegen = self._codegen
        mapped = {}
        result = new.graph_copy(self, mapped, return_output_node=True)
        if isinstance(result, tuple):
            value, old = result
            output = new.output(value, type_expr=old.type)
            output.meta = dict(old.meta)
        return new

    # -- changing the graph ----------------------------------------------------------------------

    def erase_node(self, to_erase: Node) -> None:
        """Remove a node that nothing uses."""
        if to_erase.users:
            raise RuntimeError(
                f"erase_node: {to_erase} is to be erased, but it still had {len(to_erase.users)} "
                f"users in the graph: {', '.join(map(str, to_erase.users))}"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"erase_node: {to_erase} belongs to another graph")
        if to_erase._erased:
            _warn_program(f"erase_node: {to_erase} was erased before")
            return
        for hook in getattr(self.owning_module, "_erase_node_hooks", ()):
            hook(to_erase)
        before, after = to_erase._prev, to_erase._next
        to_erase._remove_from_list()
        to_erase._prev, to_erase._next = before, after  # for an iteration that stands here
        to_erase.args, to_erase.kwargs = (), {}
        to_erase._erased = True
        self._namespace.forget(to_erase)
        self._len -= 1

    def inserting_before(self, n: Node | None = None) -> Any:
        """Let new nodes come before `n`, for a `with` block or from now on; None is the start."""
        if n is None:
            return self.inserting_after(self._root)
        return self._inserting(n, n.prepend)

    def inserting_after(self, n: Node | None = None) -> Any:
        """Let new nodes come after `n`, for a `with` block or from now on; None is the end."""
        if n is None:
            return self.inserting_before(self._root)
        last = n

        def insert(node):
            nonlocal last
            last.append(node)
            last = node

        return self._inserting(n, insert)

    def _inserting(self, n, insert):
        if n.graph is not self:
            raise ValueError(f"node {n} belongs to another graph")
        previous, self._insert = self._insert, insert

        @contextlib.contextmanager
        def until_exit():
            try:
                yield
            finally:
                self._insert = previous

        return until_exit()

    def process_inputs(self, *args: Any) -> Any:
        """Return the arguments as placeholders take them."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """Return the output as the caller takes it."""
        return self._codegen.process_outputs(out)

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Erase nodes that nothing uses and that do nothing else.

        Args:
            is_impure_node: function that tells which nodes do something else, by default
                `Node.is_impure`.

        Returns:
            Whether there were any.
        """
        self.lint()
        is_impure = is_impure_node or Node.is_impure
        before = len(self.nodes)
        for node in list(reversed(self.nodes)):
            kept = node.op in ("placeholder", "output") or is_impure(node)
            if not kept and not node.users:
                self.erase_node(node)
        return len(self.nodes) < before

    def lint(self) -> None:
        """Raise RuntimeError if the graph is not well formed: order, names, targets."""
        seen, names = set(), set()
        for node in self.nodes:
            where = f"lint: node {node.name}"
            if node.graph is not self:
                raise RuntimeError(f"{where} belongs to another graph")
            if node.name in names:
                raise RuntimeError(f"{where}: another one has this name")
            for used in node.all_input_nodes:
                if used.graph is not self:
                    raise RuntimeError(f"{where}: its argument {used} belongs to another graph")
                if used not in seen:
                    raise RuntimeError(f"{where} uses {used} before it is defined")
            seen.add(node)
            names.add(node.name)
        owner = self.owning_module
        for node in self.nodes if owner is not None else ():
            if node.op in ("get_attr", "call_module"):
                if not _has_attribute(owner, node.target):
                    raise RuntimeError(
                        f"lint: node {node.name}: {node.target!r} is not an attribute of "
                        f"{type(owner).__name__}"
                    )

    # -- text ------------------------------------------------------------------------------------

    def python_code(
        self,
        root_module: str,
        *,
        verbose: bool = False,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
    ) -> Any:
        """Return the graph as the source of a function `forward`, with the globals it needs.

        Args:
            root_module: the name by which the code knows the module, as "self".
            verbose: put types and shapes that passes noted behind the lines.
        """
        warn_of(
            "Graph.python_code", "notes about values are their types and shapes, without colours",
            include_stride=include_stride, include_device=include_device, colored=colored,
        )  # fmt: skip
        return self._codegen._gen_python_code(self.nodes, root_module, verbose=verbose)

    def print_tabular(self) -> None:
        """Print the nodes as a table."""
        header = ("opcode", "name", "target", "args", "kwargs")
        rows = [tuple(map(str, (n.op, n.name, n.target, n.args, n.kwargs))) for n in self.nodes]
        widths = [max(map(len, column)) for column in zip(header, *rows)]
        for row in (header, tuple("-" * w for w in widths), *rows):
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())

    def __str__(self) -> str:
        return "\n    ".join(["graph():", *(node.format_node() for node in self.nodes)])

    __repr__: Any = object.__repr__

    def on_generate_code(self, make_transformer: Callable[..., Any]) -> Any:
        """Let `make_transformer(current)` change the lines of code, from now on or in `with`.

        The transformer takes and returns the list of the body's lines; `current` may be None.
        """
        previous = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(previous)

        @contextlib.contextmanager
        def until_exit():
            try:
                yield
            finally:
                self._codegen._body_transformer = previous

        return until_exit()

    def set_codegen(self, codegen: CodeGen) -> None:
        """Let another object generate the code."""
        self._codegen = codegen

    # -- pickling: nodes refer to others by name, so that a long chain is no deep recursion -------

    def __reduce__(self) -> tuple[Any, ...]:
        rows = []
        for n in self.nodes:
            args, kwargs = map_arg(n.args, _Reference), map_arg(n.kwargs, _Reference)
            is_wrapped = n.meta.get("is_wrapped", False)
            rows.append((n.op, n.name, n.target, args, kwargs, n.type, is_wrapped))
        return _graph_from_rows, (type(self), rows, self._codegen)


def _module_with(parameters, buffers, modules):
    module = rushlight.nn.Module()
    module.__dict__.update(_parameters=parameters, _buffers=buffers, _modules=modules)
    return module


class _Reference:
    def __init__(self, node: Any) -> None:
        self.name = node.name


def _graph_from_rows(kind, rows, codegen):
    graph, nodes = kind(), {}
    graph.set_codegen(codegen)

    def resolved(value):
        return nodes[value.name] if isinstance(value, _Reference) else value

    for op, name, target, args, kwargs, annotation, is_wrapped in rows:
        args, kwargs = map_aggregate(args, resolved), map_aggregate(kwargs, resolved)
        nodes[name] = node = graph.create_node(op, target, args, kwargs, name, annotation)
        if is_wrapped:
            node.meta["is_wrapped"] = True
    return graph


def _check_node(op, target, args, kwargs):
    """AssertionErrors, as in torch; `Node` checks further."""
    wrong = None
    if op not in OPS:
        wrong = f"op must be one of {', '.join(OPS)}, got {op!r}"
    elif not isinstance(args, tuple):
        wrong = f"args must be a tuple, got {type(args).__name__}"
    elif not isinstance(kwargs, dict):
        wrong = f"kwargs must be a dict, got {type(kwargs).__name__}"
    elif not isinstance(target, str) and not callable(target):
        wrong = f"the target must be a str or callable, got {type(target).__name__}"
    if wrong:
        raise AssertionError(f"create_node: {wrong}")


def _nodes_in(value):
    found = []
    map_arg(value, found.append)
    return found


def _has_attribute(module, path):
    for name in path.split("."):
        if not hasattr(module, name):
            return False
        module = getattr(module, name)
    return True


# ---- code ----------------------------------------------------------------------------------------


class _Source(str):
    """Written code, which a code generator of a program may put into its own by `repr` or `str`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class CodeGen:
    """Makes Python source of nodes, a line each."""

    def __init__(self) -> None:
        self._body_transformer = None

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """Return the line that begins the function."""
        if not free_vars or free_vars[0] != "self":
            free_vars = ["self", *free_vars]
        return f"def forward({', '.join(free_vars)}){maybe_return_annotation}:"

    def generate_output(self, output_args: Any) -> str:
        """Return the line that ends it, given the written output."""
        return f"return {output_args}"

    def process_inputs(self, *args: Any) -> Any:
        """Return what the function is called with as its placeholders take it."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """Return the output as the function returns it."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Return further globals that the code needs, as (name, value) pairs."""
        return []

    def _gen_python_code(self, nodes, root_module, *, verbose=False):
        names, found = Namespace(), {**GLOBALS, **dict(self.additional_globals())}

        def global_name(hint, value):
            """A name for a global of the code, which is entered among them."""
            named = hasattr(value, "__name__")  # an annotation, as TensorType((2, 3)), is not
            if named and is_of_rushlight(value) and value is not rushlight.device:
                return qualified_name(value)
            name = hint.replace(".", "_")
            if found.get(name, value) is value:
                names.associate(name, value)
            else:
                name = names.create_name(name, value)
            found[name] = value
            return name

        for name, value in found.items():
            names.associate(name, value)

        nodes = list(nodes)
        last_use = {}  # the node after which a value is not needed, and what it frees
        users_last = {}
        for node in reversed(nodes):
            for used in node.all_input_nodes:
                if used not in last_use:
                    last_use[used] = node
                    users_last.setdefault(node, []).append(used)

        def written(value):
            return _written(value, global_name)

        body, parameters, annotation, lines, wrapped = [], [], "", {}, {}
        for index, node in enumerate(nodes):
            # What is freed comes in the order in which it appears, the reverse of how it was found.
            freed = users_last.get(node, []) if node.op != "placeholder" else []
            if not node.users and node.op not in ("placeholder", "output"):
                freed = [*freed, node]
            freed = "".join(f"{n.name} = " for n in freed if n.op != "output")
            freed = f";  {freed}None" if freed else ""
            kind = ""
            if node.type is not None:
                kind = f" : {_written_annotation(node.type, global_name)}"
            noted = _noted(node) if verbose else ""
            lines[len(body)] = index
            if node.op == "placeholder":
                default = f" = {written(node.args[0])}" if node.args else ""
                parameters.append(f"{node.target}{kind}{default}")
                name = node.target.replace("*", "")
                if name != node.name:
                    body.append(f"{node.name} = {name}{noted}")
                continue
            if node.op == "output":
                if node.type is not None:
                    annotation = f" -> {kind.removeprefix(' : ')}"
                body.append(self.generate_output(_Source(written(node.args[0]))))
                continue
            expression, in_place = _expression(node, root_module, global_name, written)
            if node.op == "call_function" and node.meta.get("is_wrapped"):
                name = global_name(qualified_name(node.target), node.target)
                wrapped[f'torch.fx._symbolic_trace.wrap("{name}")'] = None
            if in_place:
                body.append(f"{expression};  {node.name} = {written(node.args[0])}{freed}{noted}")
            else:
                body.append(f"{node.name}{kind} = {expression}{freed}{noted}")
        if not body:
            body.append("pass")
        if self._body_transformer is not None:
            body = [line + "\n" for line in body]
            body = "".join(self._body_transformer(body)).splitlines()
        header = self.gen_fn_def(parameters, annotation)
        body = [f"    {line}" for line in body]
        source = "\n".join(["", *(wrapped or [""]), "", header, *body, "    "])
        return PythonCode(source, found, lines)


def _fits(table, node):
    """Has it as many operands as the operator? Else a call shows what is wrong with it."""
    return not node.kwargs and len(node.args) == table[node.target.__name__].count("{}")


def _expression(node, root_module, global_name, written):
    """(the node's value as source, whether it is a statement that works in place)."""
    args, kwargs = node.args, node.kwargs
    if node.op == "get_attr":
        return _path(root_module, node.target), False
    listed = ", ".join(
        [*map(written, args), *(f"{key} = {written(value)}" for key, value in kwargs.items())]
    )
    if node.op == "call_module":
        return f"{_path(root_module, node.target)}({listed})", False
    if node.op == "call_method":
        rest = ", ".join(
            [*map(written, args[1:]), *(f"{k} = {written(v)}" for k, v in kwargs.items())]
        )
        return f"{_receiver(args[0], written)}.{node.target}({rest})", False
    if is_operator(node.target) and _fits(OPERATORS, node):
        operands = [written(a) for a in args]
        if node.target is operator.pow and operands[0].startswith("-"):
            operands[0] = f"({operands[0]})"
        return OPERATORS[node.target.__name__].format(*operands), False
    if is_operator(node.target, IN_PLACE_OPERATORS) and _fits(IN_PLACE_OPERATORS, node):
        return IN_PLACE_OPERATORS[node.target.__name__].format(*map(written, args)), True
    if node.target is getattr and len(args) == 2 and str(args[1]).isidentifier() and not kwargs:
        return f"{_receiver(args[0], written)}.{args[1]}", False
    function = global_name(qualified_name(node.target), node.target)
    return f"{function}({listed})", False


def _receiver(value, written):
    text = written(value)
    return text if isinstance(value, Node) else f"({text})"


def _path(root, target):
    """root.a.b, with getattr for what is no identifier, such as the index of a Sequential."""
    text = root
    for name in target.split("."):
        text = f"{text}.{name}" if name.isidentifier() else f'getattr({text}, "{name}")'
    return text


def _written(value, global_name):
    """The source of an argument."""
    again = _written
    if isinstance(value, Node):
        return value.name
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        name = global_name(type(value).__name__, type(value))
        return f"{name}({', '.join(again(v, global_name) for v in value)})"
    if isinstance(value, rushlight.Size):
        found = global_name("torch", rushlight.Size)
        return f"{found}([{', '.join(again(v, global_name) for v in value)}])"
    if isinstance(value, tuple):
        inner = ", ".join(again(v, global_name) for v in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, list):
        return f"[{', '.join(again(v, global_name) for v in value)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {again(v, global_name)}" for k, v in value.items()) + "}"
    if isinstance(value, slice):
        parts = ", ".join(again(v, global_name) for v in (value.start, value.stop, value.step))
        return f"slice({parts})"
    if isinstance(value, enum.Enum):
        return f"{global_name(type(value).__name__, type(value))}.{value.name}"
    if isinstance(value, rushlight.device):
        return repr(value)
    if callable(value) and hasattr(value, "__name__"):
        return global_name(qualified_name(value), value)
    return repr(value)


def _written_annotation(kind, global_name):
    if isinstance(kind, type) and kind not in (type(None), rushlight.Tensor):
        return global_name(type_name(kind), kind)
    if isinstance(kind, type):
        return type_name(kind) if kind is rushlight.Tensor else "NoneType"
    return repr(kind) if isinstance(kind, str) else global_name("annotation", kind)


def _noted(node):
    """A comment with the shape and dtype that a pass noted."""
    meta = node.meta.get("tensor_meta")
    if not hasattr(meta, "shape"):
        return ""
    return f"  # {str(meta.dtype).removeprefix('torch.')}{list(meta.shape)}"
