"""A program as modules again: those that were exported, each with its own part of the graph.

The nodes of a program note the calls of modules that they come from. Each call becomes a module:
what it uses from outside are its arguments, and what is used outside it returns. Parameters and
buffers belong to the module that had them.
"""

from __future__ import annotations

import abc
import copy
from typing import Any

from rushlight import nn
from rushlight.export._module_calls import leaves_of
from rushlight.export._trace import _same_argument
from rushlight.export.exported_program import ExportedProgram, check_inputs
from rushlight.export.graph_signature import ConstantArgument
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule, _forward_from
from rushlight.fx.node import Node, map_arg
from rushlight.fx.proxy import Proxy
from rushlight.utils._pytree import tree_flatten, tree_unflatten

__all__ = [
    "FlatArgsAdapter",
    "InterpreterModule",
    "InterpreterModuleDispatcher",
    "UnflattenedModule",
    "unflatten",
]


class FlatArgsAdapter(abc.ABC):
    """Turns arguments of another structure into those that a program takes."""

    @abc.abstractmethod
    def adapt(
        self,
        target_spec: Any,
        input_spec: Any,
        input_args: list[Any],
        metadata: dict[str, Any] | None = None,
        obj: Any | None = None,
    ) -> list[Any]:
        """The leaves as the program takes them.

        Args:
            target_spec: the structure that it takes.
            input_spec: the structure that is given.
            input_args: the leaves that are given.
            metadata: `meta` of the program's graph module.
            obj: the positional arguments.
        """

    def get_flat_arg_paths(self) -> list[str]:
        """Names of the leaves, for messages."""
        return []


class _Generated(nn.Module):
    """A module that runs the code of a graph, with what it has at the time."""

    graph: Graph
    _ty: str | None = None

    def type_name(self) -> str | None:
        """The type of the module that was exported."""
        return self._ty

    def finalize(self) -> None:
        """Generate the code of the graph."""
        self.graph.owning_module = self
        self.graph.lint()
        self.__dict__["_run"] = _forward_from(self.graph.python_code("self"))

    def print_readable(self, print_output: bool = True) -> str:
        """Print, and return, the code as a class with the classes of modules inside."""
        owner = GraphModule(self, copy.deepcopy(self.graph), type(self).__name__)
        return owner.print_readable(print_output)


class InterpreterModule(_Generated):
    """One module of a program.

    Args:
        graph: its part of the graph.
        ty: the type of the module that was exported, as text.
    """

    def __init__(self, graph: Graph, ty: str | None = None) -> None:
        super().__init__()
        self.graph: Graph = graph
        self._ty = ty
        self._signature: Any = None

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph: on its inputs, or on what the module took if its signature is kept."""
        if self._signature is None:
            names = [n.target for n in self.graph.nodes if n.op == "placeholder"]
            args = (*args, *(kwargs[name] for name in names[len(args) :]))
            return self._run(self, *args)
        leaves, spec = tree_flatten((args, kwargs))
        if spec != self._signature.in_spec:
            raise TypeError(
                f"{self._ty}: expected arguments of the structure {self._signature.in_spec}, got "
                f"{spec}"
            )
        given = [
            leaf
            for leaf, argument in zip(leaves, self._signature.inputs)
            if not isinstance(argument, ConstantArgument)
        ]
        return tree_unflatten(list(self._run(self, *given)), self._signature.out_spec)


class InterpreterModuleDispatcher(nn.Module):
    """A module that was called several times: each call runs the next of its parts.

    Args:
        attrs: names of parameters and buffers that it shows.
        call_modules: the parts.
    """

    def __init__(self, attrs: set[str], call_modules: list[InterpreterModule]) -> None:
        super().__init__()
        if not call_modules:
            raise AssertionError("InterpreterModuleDispatcher: call_modules is empty")
        first = call_modules[0]
        self._modules = first._modules
        for name in attrs:
            setattr(self, name, getattr(first, name))
        self._ty = first._ty
        self.__dict__["_call_modules"] = call_modules
        self._num_calls = 0

    def type_name(self) -> str | None:
        """The type of the module that was exported."""
        return self._ty

    def call_modules(self) -> list[InterpreterModule]:
        """The parts."""
        return self._call_modules

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the next part; after an error, the first one is next."""
        module = self._call_modules[self._num_calls]
        self._num_calls = (self._num_calls + 1) % len(self._call_modules)
        try:
            return module(*args, **kwargs)
        except Exception:
            self._num_calls = 0
            raise

    def print_readable(self, print_output: bool = True) -> str:
        """Print, and return, the code of the parts."""
        return "\n".join(m.print_readable(print_output) for m in self._call_modules)


def _is_number(node):
    return node.op == "call_function" and isinstance(node.meta.get("val"), (int, float))


def _base(name):
    return name.partition("@")[0]


def _accessor(parent, name):
    """The name under which a module is called by another one."""
    prefix = f"{_base(parent)}." if parent else ""
    return name.removeprefix(prefix)


class _Builder:
    """Makes the modules of a program."""

    def __init__(self, program: ExportedProgram) -> None:
        self.program = program
        self.signatures = {
            e.fqn: e.signature for e in program.module_call_graph if e.fqn and e.signature
        }
        self.kept = {_base(name) for name in self.signatures}
        self.calls: dict[str, list[InterpreterModule]] = {}  # of modules with signatures
        self.known: dict[str, list[tuple[str, Any]]] = {}  # path -> (name, module) of its calls
        self.copies: dict[int, Any] = {}  # tensors of the program, each copied once
        self.nodes = {n.name: n for n in program.graph.nodes}
        output = program.graph.output_node()
        self.returned = set(output.all_input_nodes)

    def _named(self, argument):
        if argument.name not in self.nodes:
            raise NotImplementedError(
                f"unflatten: {argument.name!r}, which a module takes or returns whose signature is "
                "kept, was taken out of the program by a pass"
            )
        return self.nodes[argument.name]

    # -- graphs ----------------------------------------------------------------------------------

    def fill(self, module: Any, name: str, nodes: list[Node], depth: int) -> list[Node]:
        """Give a module the graph of its nodes; return those that it has from outside."""
        graph, values, inputs = module.graph, {}, []
        signature = self.signatures.get(name)
        if signature is not None:
            for argument in signature.inputs:
                if not isinstance(argument, ConstantArgument):
                    self._input(graph, values, inputs, self._named(argument))

        def value_of(node):
            if node not in values:
                if self._is_own(name, node):
                    values[node] = self._attribute(module, name, node)
                elif signature is not None and _is_number(node):
                    # The caller gives what the signature names: sizes are computed again.
                    values[node] = graph.node_copy(node, value_of)
                else:
                    self._input(graph, values, inputs, node)
            return values[node]

        for child, part in _parts(nodes, depth):
            if child is None:
                (node,) = part
                if node.op == "get_attr":
                    setattr(module, node.target, getattr(self.program.graph_module, node.target))
                values[node] = graph.node_copy(node, value_of)
            else:
                self._call(module, name, child, part, depth, values, value_of)
        self._output(graph, nodes, signature, values, value_of)
        return inputs

    def _input(self, graph, values, inputs, node):
        with _behind(graph, "placeholder"):
            values[node] = graph.placeholder(node.name)
        values[node].meta = dict(node.meta)
        inputs.append(node)

    def _is_own(self, name, node):
        """Is it a parameter, buffer or constant of the module, or of one inside?"""
        kind = node.meta.get("kind", "input") if node.op == "placeholder" else "input"
        if kind not in ("parameter", "buffer", "constant"):
            return False
        return not name or node.meta["target"].startswith(f"{_base(name)}.")

    def _attribute(self, module, name, node):
        path = node.meta["target"].removeprefix(f"{_base(name)}." if name else "")
        self.assign(module, path, self.program._lifted_value(node), node.meta["kind"])
        with _behind(module.graph, "placeholder", "get_attr"):
            made = module.graph.get_attr(path)
        made.meta = dict(node.meta)
        return made

    def _output(self, graph, nodes, signature, values, value_of):
        if signature is not None:
            graph.output(
                tuple(
                    a.value if isinstance(a, ConstantArgument) else value_of(self._named(a))
                    for a in signature.outputs
                )
            )
            return
        results = self.results(nodes)
        graph.output(values[results[0]] if len(results) == 1 else
                     tuple(values[n] for n in results))  # fmt: skip

    def results(self, nodes: list[Node]) -> list[Node]:
        """The nodes that others use."""
        inside = set(nodes)
        return [n for n in nodes if n in self.returned or any(u not in inside for u in n.users)]

    # -- calls -----------------------------------------------------------------------------------

    def _call(self, parent, parent_name, child, part, depth, values, value_of):
        kind = part[0].meta["nn_module_stack"][child][1]
        made = InterpreterModule(Graph(), kind)
        made._signature = self.signatures.get(child)
        inputs = self.fill(made, child, part, depth + 1)
        target = self._installed(parent, parent_name, child, made)
        if made._signature is None:
            call = parent.graph.call_module(target, tuple(map(value_of, inputs)))
            results = self.results(part)
            single = len(results) == 1
        else:
            call, results = self._call_by_signature(parent, target, made._signature, value_of)
            single = False
        for place, node in enumerate(results):
            if node is not None and node not in values:
                values[node] = call if single else Proxy(call)[place].node

    def _call_by_signature(self, parent, target, signature, value_of):

        def given(argument):
            constant = isinstance(argument, ConstantArgument)
            return argument.value if constant else value_of(self._named(argument))

        args, kwargs = tree_unflatten(list(map(given, signature.inputs)), signature.in_spec)
        call = parent.graph.call_module(target, args, kwargs)
        leaves = parent.graph.call_function(leaves_of, (call,))
        results = [
            None if isinstance(a, ConstantArgument) else self._named(a) for a in signature.outputs
        ]
        return leaves, results

    def _installed(self, parent, parent_name, child, made):
        """The name by which the parent calls a module: that of an equal one, if there is one."""
        path = _base(child)
        target = _accessor(parent_name, child)
        made.finalize()
        if path in self.kept:
            self.calls.setdefault(path, []).append(made)
            _install(parent, _base(target), made, replace=False)
            return _base(target)
        for other, module in self.known.get(path, ()):
            if _is_same(module.graph, made.graph):
                target = _accessor(parent_name, other)
                _install(parent, target, module, replace=False)
                return target
        self.known.setdefault(path, []).append((child, made))
        _install(parent, target, made)
        return target

    def dispatch(self, root: nn.Module) -> None:
        """Let modules with signatures that were called several times run one part after another."""
        for path, parts in self.calls.items():
            if len(parts) > 1:
                attributes = {*parts[0]._parameters, *parts[0]._buffers}
                _install(root, path, InterpreterModuleDispatcher(attributes, parts))

    # -- attributes ------------------------------------------------------------------------------

    def assign(self, module: nn.Module, path: str, value: Any, kind: str) -> None:
        """Give a module a copy of a tensor of the program at a dotted path."""
        if id(value) not in self.copies:
            made = value.detach().clone()
            if isinstance(value, nn.Parameter):
                made = nn.Parameter(made, requires_grad=value.requires_grad)
            self.copies[id(value)] = made
        made = self.copies[id(value)]
        *prefix, name = path.split(".")
        for part in prefix:
            if part not in module._modules:
                module.add_module(part, nn.Module())
            module = module._modules[part]
        if isinstance(made, nn.Parameter):
            module.register_parameter(name, made)
        elif kind == "constant" or "." in name:
            setattr(module, name, made)
        elif name not in module._buffers:
            module.register_buffer(name, made)

    def assign_all(self, root: nn.Module) -> None:
        """Give the module all parameters and buffers of the program, used or not."""
        signature = self.program.graph_signature
        hidden = set(signature.non_persistent_buffers)
        for name, value in self.program.state_dict.items():
            self.assign(root, name, value, "buffer")
        for name in hidden:
            self.assign(root, name, self.program.constants[name], "buffer")
            owner, _, last = name.rpartition(".")
            root.get_submodule(owner)._non_persistent_buffers_set.add(last)


def _behind(graph, *ops):
    """Let a new node come behind those of some ops at the beginning of a graph."""
    last = None
    for node in graph.nodes:
        if node.op not in ops:
            break
        last = node
    return graph.inserting_before() if last is None else graph.inserting_after(last)


def _is_same(graph, other):
    """Do two graphs do the same calls, with arguments of any names?"""
    pairs = {}
    if len(graph.nodes) != len(other.nodes):
        return False
    for a, b in zip(graph.nodes, other.nodes):
        pairs[a] = b
        if a.op != b.op or (a.op != "placeholder" and a.target != b.target):
            return False
        if not (
            _same_argument(a.args, b.args, pairs) and _same_argument(a.kwargs, b.kwargs, pairs)
        ):
            return False
    return True


def _parts(nodes, depth):
    """The nodes in order, those of one call of a module together: (name of the call, nodes)."""
    found, seen = [], set()
    for node in nodes:
        stack = list(node.meta.get("nn_module_stack", {}))
        child = stack[depth] if depth < len(stack) else None
        if child is not None and found and found[-1][0] == child:
            found[-1][1].append(node)
            continue
        if child in seen:
            raise NotImplementedError(
                f"unflatten: the operations of {child!r} are not together in the program"
            )
        if child is not None:
            seen.add(child)
        found.append((child, [node]))
    return found


def _install(root, path, module, replace=True):
    """Put a module at a dotted path; what was there gives it its own modules and tensors. Without
    `replace`, only what has no program of its own makes room.
    """
    *prefix, name = path.split(".")
    for part in prefix:
        if part not in root._modules:
            root.add_module(part, nn.Module())
        root = root._modules[part]
    before = root._modules.get(name)
    if before is not None and not replace and type(before) is not nn.Module:
        return
    if before is not None:
        for kind in ("_modules", "_parameters", "_buffers"):
            for key, value in getattr(before, kind).items():
                getattr(module, kind).setdefault(key, value)
    root._modules[name] = module


class UnflattenedModule(_Generated):
    """A program as a module with the modules that were exported; `unflatten` makes it.

    Args:
        export_module: the program; parameters and buffers are copied.
        flat_args_adapter: see `unflatten`.

    Raises: ValueError for a program from a file, which does not say what each module does.
    """

    def __init__(
        self, export_module: ExportedProgram, flat_args_adapter: FlatArgsAdapter | None = None
    ) -> None:
        super().__init__()
        if export_module._module_calls is None:
            raise ValueError(
                "unflatten: the program does not say which module an operation is of: it was read "
                "from a file, or scripted"
            )
        self.graph: Graph = Graph()
        self.graph_signature: Any = copy.deepcopy(export_module.graph_signature)
        self.module_call_graph: list[Any] = export_module.module_call_graph
        self.range_constraints: dict[str, Any] = export_module.range_constraints
        self.meta: dict[str, Any] = dict(export_module.graph_module.meta)
        self.flat_args_adapter = flat_args_adapter
        self.check_input_constraints: bool = True
        self._guards = export_module.input_guards
        stacks = (n.meta.get("nn_module_stack", {}) for n in export_module.graph.nodes)
        modules = (module for stack in stacks for module in stack.values())
        self._ty = next((kind for path, kind in modules if not path), None)
        builder = _Builder(export_module)
        nodes = [n for n in export_module.graph.nodes if n.op not in ("placeholder", "output")]
        self._fill(builder, export_module, nodes)
        builder.assign_all(self)
        builder.dispatch(self)
        self.finalize()

    def _fill(self, builder, program, nodes):
        """The program's own graph: its placeholders are its inputs, all of them."""
        values = {}
        for node in program.graph.nodes:
            if node.op == "placeholder" and node.meta["kind"] == "input":
                values[node] = self.graph.placeholder(node.name)
                values[node].meta = dict(node.meta)

        def value_of(node):
            if node not in values:
                values[node] = builder._attribute(self, "", node)
            return values[node]

        depth = 1 if any("" in n.meta.get("nn_module_stack", {}) for n in nodes) else 0
        for child, part in _parts(nodes, depth):
            if child is not None:
                builder._call(self, "", child, part, depth, values, value_of)
                continue
            (node,) = part
            if node.op == "get_attr":
                setattr(self, node.target, getattr(program.graph_module, node.target))
            values[node] = self.graph.node_copy(node, value_of)
        self.graph.output(map_arg(program.graph.output_node().args[0], value_of))

    def process_forward_inputs(self, *args: Any, **kwargs: Any) -> list[Any]:
        """The checked arguments as the graph takes them.

        Raises:
            TypeError: they are of another structure, and no adapter was given.
            GuardError: they are not what the program was exported for.
        """
        signature = self.module_call_graph[0].signature
        names = signature.in_spec.children()[1].context
        if set(kwargs) == set(names):
            kwargs = {name: kwargs[name] for name in names}
        leaves, spec = tree_flatten((args, kwargs))
        if spec != signature.in_spec:
            if self.flat_args_adapter is None:
                raise TypeError(
                    f"UnflattenedModule: expected arguments of the structure {signature.in_spec}, "
                    f"got {spec}, and there is no flat_args_adapter"
                )
            leaves = self.flat_args_adapter.adapt(
                target_spec=signature.in_spec, input_spec=spec, input_args=leaves,
                metadata=self.meta, obj=args,
            )  # fmt: skip
            if len(leaves) != signature.in_spec.num_leaves:
                raise TypeError(
                    f"UnflattenedModule: flat_args_adapter gave {len(leaves)} leaves, expected "
                    f"{signature.in_spec.num_leaves}"
                )
        if self.check_input_constraints:
            check_inputs(self._guards, self.range_constraints, leaves)
        return leaves

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program."""
        results = self._run(self, *self.process_forward_inputs(*args, **kwargs))
        return tree_unflatten(list(results), self.module_call_graph[0].signature.out_spec)


def unflatten(
    module: ExportedProgram, flat_args_adapter: FlatArgsAdapter | None = None
) -> UnflattenedModule:
    """Make modules of a program again, as they were exported: they can be looked at, and replaced.

    Args:
        module: the program.
        flat_args_adapter: turns arguments of another structure into those of the program.

    Example:
        >>> net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        >>> program = torch.export.export(net, (torch.ones(1, 2),))
        >>> module = torch.export.unflatten(program)
        >>> [name for name, _ in module.named_children()]
        ['0', '1']
    """
    return UnflattenedModule(module, flat_args_adapter)
