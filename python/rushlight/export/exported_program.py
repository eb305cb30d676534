"""A program as data: a graph of operations of the table, with its parameters and assumptions."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.export import _record
from rushlight.export._table import is_operation
from rushlight.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymIntArgument,
    TensorArgument,
)
from rushlight.fx import Graph, GraphModule, Node
from rushlight.fx.graph import CodeGen
from rushlight.utils._pytree import tree_flatten, tree_unflatten
from rushlight.utils._sympy.numbers import int_oo
from rushlight.utils._sympy.value_ranges import ValueRanges

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from typing_extensions import Self

_KINDS = {
    "input": InputKind.USER_INPUT, "parameter": InputKind.PARAMETER, "buffer": InputKind.BUFFER,
    "constant": InputKind.CONSTANT_TENSOR,
}  # fmt: skip


@dataclass
class ModuleCallSignature:
    """What a module was called with and what it returned, as the graph has it.

    `inputs` and `outputs` are the leaves, as arguments of `graph_signature`; `in_spec` is the
    structure of (args, kwargs), `out_spec` that of the result.
    """

    inputs: list[Any]
    outputs: list[Any]
    in_spec: Any
    out_spec: Any
    forward_arg_names: list[str] | None = None

    def replace_all_uses_with(self, original_node: Node, new_node: Node) -> None:
        """Name another node where one is named."""
        for argument in (*self.inputs, *self.outputs):
            if argument.name == original_node.name:
                argument.name = new_node.name


@dataclass
class ModuleCallEntry:
    """A module of the program by its path, "name@1" for the second call; its signature, if that
    is kept.
    """

    fqn: str
    signature: ModuleCallSignature | None = None


class GuardError(RuntimeError):
    """An input is not what the program was exported for."""


class FixedInputError(GuardError):
    """An input that was fixed when the program was exported has another value."""


def _kind_of(value):
    return "Tensor" if isinstance(value, Tensor) else type(value).__name__


def is_of_kind(value: object, kind: str) -> bool:
    """Is an input what a script takes?"""
    if kind == "tensors":
        return isinstance(value, list) and all(isinstance(v, Tensor) for v in value)
    if kind == "list":
        return isinstance(value, list) and all(type(v) in (int, float, bool) for v in value)
    if kind == "Tensor":
        return isinstance(value, Tensor)
    return type(value).__name__ == kind


class InputGuard:
    """What a program assumes of one input."""

    name: str
    dtype: rushlight.dtype | None
    shape: Sequence[Any] | None
    value: Any
    size: Any
    device: rushlight.device | None

    def __init__(
        self,
        name: str,
        dtype: rushlight.dtype | None = None,
        shape: Sequence[Any] | None = None,
        value: Any = None,
        size: Any = None,
        device: rushlight.device | None = None,
        kind: str | None = None,
    ) -> None:
        self.name, self.dtype, self.shape, self.value = name, dtype, shape, value
        self.size, self.device = size, device
        self.kind: str | None = kind  # of an input of which nothing else is known

    def __repr__(self) -> str:
        if self.kind is not None:
            return f"{self.name}: {self.kind}"
        if self.shape is not None:
            kind = str(self.dtype).rpartition(".")[2]
            return f"{self.name}: {kind}[{', '.join(map(str, self.shape))}]"
        if self.size is not None:
            return f"{self.name}: int = {self.size}"
        return f"{self.name} == {self.value!r}"

    def check(self, value: Any, symbols: dict[str, int]) -> None:
        """Raise GuardError if the value is another; enter the symbols that its sizes give."""
        if self.kind is not None:
            if not is_of_kind(value, self.kind):
                self._fail(f"expected a {self.kind}, got {_kind_of(value)}")
            return
        if self.size is not None:
            if type(value) is not int:
                self._fail(f"expected an int, got {_kind_of(value)}")
            self._match(self.size, value, symbols, "its value")
            return
        if self.shape is None:
            if type(value) is not type(self.value) or value != self.value:
                self._fail(
                    f"expected {self.value!r}, as when it was exported, got {value!r}",
                    FixedInputError,
                )
            return
        if not isinstance(value, Tensor):
            self._fail(f"expected a Tensor, got {_kind_of(value)}")
        if value.dtype is not self.dtype:
            self._fail(f"expected dtype {self.dtype}, got {value.dtype}")
        if value.dim() != len(self.shape):
            self._fail(f"expected {len(self.shape)} dims, got shape {tuple(value.shape)}")
        for dim, (expected, size) in enumerate(zip(self.shape, value.shape)):
            if not isinstance(expected, int):
                self._match(expected, size, symbols, f"dim {dim}")
            elif expected != size:
                self._fail(
                    f"expected size {expected} in dim {dim}, got {size}: the size was fixed when "
                    "the program was exported; dynamic_shapes lets it change"
                )

    def _match(self, expected, size, symbols, where):
        value, rest = divmod(size - expected.offset, expected.factor)
        if rest:
            self._fail(f"expected {expected} in {where}, got {size}")
        known = symbols.setdefault(expected.symbol, (value, self.name))
        if known[0] != value:
            self._fail(
                f"expected {expected} in {where} with {expected.symbol} = {known[0]}, as in "
                f"{known[1]!r}, got {size}"
            )

    def _fail(self, what, kind=GuardError):
        raise kind(f"input {self.name!r}: {what}")


def check_inputs(
    guards: Sequence[InputGuard], ranges: dict[str, Any], values: Sequence[Any]
) -> dict[str, int]:
    """Raise GuardError unless the inputs are what a program was exported for."""
    symbols = {}
    for guard, value in zip(guards, values, strict=True):
        guard.check(value, symbols)
    for name, (value, where) in symbols.items():
        least, most = ranges[name]
        if value < least or (most != int_oo and value > most):
            raise GuardError(
                f"input {where!r}: expected {name} in "
                f"[{least}, {'inf' if most == int_oo else most}], got {value}"
            )


def _as_number(guard, value):
    """The number that a script takes, for a tensor of one."""
    if guard.kind not in ("int", "float") or not isinstance(value, Tensor) or value.dim():
        return value
    if value.is_complex() or (guard.kind == "int" and value.is_floating_point()):
        return value
    return (int if guard.kind == "int" else float)(value.item())


def _arranged_as(value, spec, takes_lists):
    """A tree whose dicts have the order of their keys that a structure has, and whose lists, in
    calls of scripts, are tuples where those are declared."""
    children = spec.children()
    if type(value) is dict and spec.type is dict and value.keys() == set(spec.context):
        return {
            key: _arranged_as(value[key], inner, takes_lists)
            for key, inner in zip(spec.context, children)
        }
    kinds = (tuple, list) if takes_lists and spec.type is tuple else (spec.type,)
    if spec.type in (tuple, list) and type(value) in kinds and len(value) == len(children):
        return spec.type(_arranged_as(v, inner, takes_lists) for v, inner in zip(value, children))
    return value


class _Calls(CodeGen):
    """Code of a graph that takes and returns what the program did, and checks its inputs."""

    def __init__(self, program: Any) -> None:
        super().__init__()
        self.program = program

    def gen_fn_def(self, free_vars: Any, maybe_return_annotation: Any) -> str:
        names = [name for name in free_vars if name != "self"]
        listed = f"{', '.join(names)}, = " if names else ""
        return (
            f"def forward(self, *args, **kwargs):\n    {listed}_program.inputs(self, args, kwargs)"
        )

    def generate_output(self, output_args: Any) -> str:
        return f"return _program.process_outputs({output_args})"

    def additional_globals(self) -> list[tuple[str, Any]]:
        return [("_program", self)]

    def inputs(self, module: Any, args: Any, kwargs: Any) -> list[Any]:
        """The leaves of the arguments, of a module of any class that has the graph."""
        complete = getattr(module, "_complete_call", None)
        if complete is not None:
            args, kwargs = complete(args, kwargs)
        return self.program.flat_inputs(args, kwargs)

    def process_inputs(self, *args: Any) -> Any:
        return self.program.flat_inputs(args, {})

    def process_outputs(self, outputs: Any) -> Any:
        return tree_unflatten(list(outputs), self.program.out_spec)


class ProgramModule(GraphModule):
    """A module that runs a program: its parameters and buffers are the module's own."""

    def train(self, mode: bool = True) -> Self:
        """Refused: the mode was fixed when the program was exported."""
        raise NotImplementedError("Calling train() is not supported yet.")

    def eval(self) -> Self:
        """Refused: the mode was fixed when the program was exported."""
        raise NotImplementedError("Calling eval() is not supported yet.")


class ExportedProgram:
    """A graph of operations with everything that they need: what `export` returns.

    `graph_module` takes parameters, buffers and constants before the inputs, as
    `graph_signature` says; `module()` takes what the exported module took.
    """

    _dialect = "TRAINING"

    def __init__(
        self,
        graph_module: GraphModule,
        graph_signature: ExportGraphSignature,
        state_dict: dict[str, Tensor],
        constants: dict[str, Any],
        in_spec: Any,
        out_spec: Any,
        input_guards: list[InputGuard],
        range_constraints: dict[str, Any],
        example_inputs: Any = None,
    ) -> None:
        self.graph_module: GraphModule = graph_module
        self.graph_signature: ExportGraphSignature = graph_signature
        self.state_dict: dict[str, Tensor] = state_dict
        self.constants: dict[str, Any] = constants
        self.in_spec: Any = in_spec
        self.out_spec: Any = out_spec
        self.input_guards: list[InputGuard] = input_guards
        self.range_constraints: dict[str, ValueRanges] = {
            name: ValueRanges(least, int_oo if most is None else most)
            for name, (least, most) in range_constraints.items()
        }
        self.example_inputs: Any = example_inputs
        self.takes_lists: bool = False  # a list is one input of the graph (of scripts)
        self.training: Any = None  # the mode that was recorded; None where there was no module
        # What is known of the modules that were called; None of a program from a file.
        self._module_calls: list[ModuleCallEntry] | None = None

    @property
    def module_call_graph(self) -> list[ModuleCallEntry]:
        """The program itself, with path "", then its modules and their further calls."""
        signature = self.graph_signature
        inputs = [s.arg for s in signature.input_specs if s.kind is InputKind.USER_INPUT]
        outputs = [s.arg for s in signature.output_specs]
        root = ModuleCallSignature(inputs, outputs, self.in_spec, self.out_spec)
        return [ModuleCallEntry("", root), *(self._module_calls or ())]

    def validate(self) -> None:
        """Raise RuntimeError if the graph is not well formed."""
        self.graph.lint()

    @property
    def dialect(self) -> str:
        """Return "TRAINING" as it was exported, "ATEN" after `run_decompositions`."""
        return self._dialect

    @property
    def tensor_constants(self) -> dict[str, Any]:
        """Another name of `constants`."""
        return self.constants

    @property
    def verifier(self) -> Any:
        """Refused: `validate` checks the graph."""
        raise NotImplementedError("ExportedProgram.verifier: validate() checks the graph")

    @property
    def verifiers(self) -> Any:
        """Refused: `validate` checks the graph."""
        raise NotImplementedError("ExportedProgram.verifiers: validate() checks the graph")

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self.graph_module.graph

    @property
    def code(self) -> str:
        """The program as Python source."""
        return self.graph_module.code

    @property
    def call_spec(self) -> Any:
        """Structure of the inputs and outputs."""
        return (self.in_spec, self.out_spec)

    @property
    def guards(self) -> list[str]:
        """What the program assumes, as text: of its inputs, of sizes, and on the way."""
        lines = [repr(g) for g in self.input_guards]
        lines += [
            f"{least} <= {name}" + ("" if most == int_oo else f" <= {most}")
            for name, (least, most) in self.range_constraints.items()
        ]
        assertion = _record.assertion()
        lines += [n.args[0].meta["expression"] for n in self.graph.nodes if n.target is assertion]
        return lines

    def parameters(self) -> Iterator[Tensor]:
        """The parameters."""
        return (p for _, p in self.named_parameters())

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """The parameters with their names."""
        for name in self.graph_signature.parameters:
            yield name, self.state_dict[name]

    def buffers(self) -> Iterator[Tensor]:
        """The buffers."""
        return (b for _, b in self.named_buffers())

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """The buffers with their names."""
        for name in self.graph_signature.buffers:
            yield name, self._lifted(InputKind.BUFFER, name)

    def _lifted_value(self, node):
        name = node.meta["target"]
        return self.state_dict[name] if name in self.state_dict else self.constants[name]

    def _lifted(self, kind, name):
        if kind is InputKind.CONSTANT_TENSOR or name not in self.state_dict:
            return self.constants[name]
        return self.state_dict[name]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Unable to call ExportedProgram directly. You should use `exported_program.module()` "
            "instead."
        )

    def _leaves(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        """The inputs as the graph takes them, if their structure is that of the recorded ones."""
        names = self.in_spec.children()[1].context
        if len(kwargs) == len(names) and set(kwargs) == set(names):
            kwargs = {name: kwargs[name] for name in names}
        lists = (lambda v: isinstance(v, list)) if self.takes_lists else None
        given = (tuple(args), kwargs)
        leaves, spec = tree_flatten(given, lists)
        if spec != self.in_spec:
            leaves, spec = tree_flatten(_arranged_as(given, self.in_spec, self.takes_lists), lists)
        if spec != self.in_spec:
            fixed = any(g.shape is g.size is g.kind is None for g in self.input_guards)
            raise (FixedInputError if fixed else GuardError)(
                "the program was exported for inputs of another structure:\n"
                f"expected {self.in_spec}\ngot {spec}"
            )
        return leaves

    def flat_inputs(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        """The checked inputs as the graph takes them."""
        leaves = self._leaves(args, kwargs)
        try:
            check_inputs(self.input_guards, self.range_constraints, leaves)
        except GuardError:
            numbers = [_as_number(*pair) for pair in zip(self.input_guards, leaves)]
            if all(map(operator.is_, numbers, leaves)):
                raise
            leaves = numbers
            check_inputs(self.input_guards, self.range_constraints, leaves)
        return leaves

    def module(
        self, check_guards: bool = True, _kind: type[GraphModule] | None = None
    ) -> GraphModule:
        """A module that runs the program, and shares its parameters.

        Raises (when called):
            GuardError: an input is not what the program was exported for; the message names it.
        """
        if not check_guards:
            raise NotImplementedError("ExportedProgram.module: guards are always checked")
        graph, root, values = Graph(), {}, {}
        for node in self.graph.nodes:
            if node.op == "placeholder" and node.meta.get("kind", "input") != "input":
                path = node.meta["target"]
                root[path] = self._lifted(_KINDS[node.meta["kind"]], path)
                values[node] = graph.get_attr(path)
                values[node].meta.update(node.meta)
            elif node.op != "placeholder":
                continue
        for node in self.graph.nodes:
            if node in values:
                continue
            if node.op == "get_attr":
                root[node.target] = getattr(self.graph_module, node.target)
            values[node] = graph.node_copy(node, lambda n: values[n])
        # Placeholders come first: the arguments of the function.
        first = next(iter(graph.nodes))
        for node in reversed([n for n in graph.nodes if n.op == "placeholder"]):
            if node is not first:
                first.prepend(node)
                first = node
        graph.set_codegen(_Calls(self))
        module = (_kind or ProgramModule)(root, graph, "ExportedModule")
        module.__dict__["_program"] = self
        for name, value in self.state_dict.items():  # those that the graph does not use
            if name not in root:
                *path, last = name.split(".")
                owner = module
                for part in path:
                    if part not in owner._modules:
                        owner.add_module(part, rushlight.nn.Module())
                    owner = owner._modules[part]
                if isinstance(value, rushlight.nn.Parameter):
                    owner.register_parameter(last, value)
                else:
                    owner.register_buffer(last, value)
        return module

    def run_decompositions(
        self, decomp_table: dict[Any, Any] | None = None, decompose_custom_triton_ops: bool = False
    ) -> ExportedProgram:
        """The program with the operations of the table replaced by what they are made of.

        Args:
            decomp_table: {operation: function of the same arguments}; None for
                `default_decompositions()`.
        """
        if decompose_custom_triton_ops:
            raise NotImplementedError("run_decompositions: decompose_custom_triton_ops")
        from rushlight.export import decompositions

        made = decompositions.run(self, decomp_table)
        made._dialect = "ATEN"
        return made

    def __str__(self) -> str:
        readable = self.graph_module.print_readable(print_output=False)
        body = "    " + readable.replace("\n", "\n    ")
        signature = "\n".join(f"    {line}" for line in str(self.graph_signature).splitlines())
        guards = "\n".join(f"    {g}" for g in self.guards)
        return f"ExportedProgram:\n{body}\nGraph signature:\n{signature}\nGuards:\n{guards}\n"

    __repr__ = __str__


def default_decompositions() -> dict[Any, Callable[..., Any]]:
    """{operation: function}: what `run_decompositions` does without a table."""
    from rushlight.export.decomp_utils import CustomDecompTable

    return CustomDecompTable()


def signature_of(graph: Graph, buffers_not_saved: Collection[str] = ()) -> ExportGraphSignature:
    """The signature that the placeholders' and the output's notes give."""
    inputs = []
    for node in graph.nodes:
        if node.op != "placeholder":
            continue
        kind = _KINDS[node.meta["kind"]]
        if kind is InputKind.USER_INPUT:
            value = node.meta.get("val")
            if isinstance(value, Tensor) or node.meta.get("type") in ("Tensor", "tensors"):
                argument = TensorArgument(node.name)
            elif node.meta.get("sizes") is not None or "type" in node.meta:
                argument = SymIntArgument(node.name)
            else:
                argument = ConstantArgument(node.name, value)
            inputs.append(InputSpec(kind, argument))
        else:
            persistent = None
            if kind is InputKind.BUFFER:
                persistent = node.meta["target"] not in buffers_not_saved
            inputs.append(
                InputSpec(kind, TensorArgument(node.name), node.meta["target"], persistent)
            )
    outputs = []
    for value in graph.output_node().args[0]:
        if isinstance(value, Node):
            made = isinstance(value.meta.get("val"), Tensor)
            argument = (TensorArgument if made else SymIntArgument)(value.name)
        else:
            argument = ConstantArgument("", value)
        outputs.append(OutputSpec(OutputKind.USER_OUTPUT, argument))
    return ExportGraphSignature(inputs, outputs)


def guards_of(graph: Graph) -> list[InputGuard]:
    """What the notes of the placeholders say about the inputs."""
    guards = []
    for node in graph.nodes:
        if node.op != "placeholder" or node.meta["kind"] != "input":
            continue
        value, sizes = node.meta.get("val"), node.meta.get("sizes")
        if "type" in node.meta:
            guards.append(InputGuard(node.name, kind=node.meta["type"]))
        elif isinstance(value, Tensor):
            shape = [
                n if sizes is None or sizes[d] is None else sizes[d]
                for d, n in enumerate(value.shape)
            ]
            guards.append(InputGuard(node.name, value.dtype, shape, device=value.device))
        elif sizes is not None:
            guards.append(InputGuard(node.name, size=sizes))
        else:
            guards.append(InputGuard(node.name, value=value))
    return guards


def is_pure(node: Node) -> bool:
    """May the node go if nothing uses what it computes?"""
    if node.op in ("placeholder", "output"):
        return False
    if node.op == "get_attr" or node.target is operator.getitem:
        return True
    if is_operation(node.target):
        return not node.target.row.is_inplace and not changes_statistics(node)
    if node.target is _record.assertion():
        return False
    return node.target in _record.pure_functions()


def changes_statistics(node: Node) -> bool:
    """Does a norm change its running mean and variance?"""
    if node.target.key not in ("batch_norm", "instance_norm"):
        return False
    row = node.target.row
    name = "training" if node.target.key == "batch_norm" else "use_input_stats"
    place = row.index(name)
    given = node.args[place] if place < len(node.args) else node.kwargs.get(name)
    return bool(row.parameters[place].default if given is None else given)
