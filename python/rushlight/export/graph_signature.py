"""What the inputs and outputs of a program's graph are."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class InputKind(enum.Enum):
    """Where an input of the graph comes from."""

    USER_INPUT = enum.auto()
    PARAMETER = enum.auto()
    BUFFER = enum.auto()
    CONSTANT_TENSOR = enum.auto()
    CUSTOM_OBJ = enum.auto()
    TOKEN = enum.auto()


class OutputKind(enum.Enum):
    """What an output of the graph is."""

    USER_OUTPUT = enum.auto()
    LOSS_OUTPUT = enum.auto()
    BUFFER_MUTATION = enum.auto()
    PARAMETER_MUTATION = enum.auto()
    GRADIENT_TO_PARAMETER = enum.auto()
    GRADIENT_TO_USER_INPUT = enum.auto()
    USER_INPUT_MUTATION = enum.auto()
    TOKEN = enum.auto()


@dataclass
class TensorArgument:
    """A tensor of the graph, by the name of its node."""

    name: str


@dataclass
class ConstantArgument:
    """A value that is no tensor; `value` is fixed in the graph."""

    name: str
    value: object = None


@dataclass
class SymIntArgument:
    """A number that the graph is given, or computes."""

    name: str


@dataclass
class SymFloatArgument:
    """A number with a fraction that the graph is given, or computes."""

    name: str


@dataclass
class SymBoolArgument:
    """A truth value that the graph is given, or computes."""

    name: str


@dataclass
class CustomObjArgument:
    """An object of a class that TorchScript knows; no program of rushlight has one."""

    name: str
    class_fqn: str
    fake_val: object = None


@dataclass
class ExportBackwardSignature:
    """The outputs of a graph that has its backward pass; no program of rushlight has one."""

    gradients_to_parameters: dict[str, str]
    gradients_to_user_inputs: dict[str, str]
    loss_output: str


@dataclass
class InputSpec:
    """One input: its kind, its placeholder, and of what is lifted the attribute that it was."""

    kind: InputKind
    arg: object
    target: str | None = None
    persistent: bool | None = None


@dataclass
class OutputSpec:
    """One output."""

    kind: OutputKind
    arg: object
    target: str | None = None


@dataclass
class ExportGraphSignature:
    """The inputs and outputs of a graph, in its order."""

    input_specs: list[InputSpec] = field(default_factory=list)
    output_specs: list[OutputSpec] = field(default_factory=list)

    def _of(self, kind: InputKind) -> list[InputSpec]:
        return [s for s in self.input_specs if s.kind is kind]

    @property
    def parameters(self) -> tuple[str | None, ...]:
        """Names of the parameters."""
        return tuple(s.target for s in self._of(InputKind.PARAMETER))

    @property
    def buffers(self) -> tuple[str | None, ...]:
        """Names of the buffers."""
        return tuple(s.target for s in self._of(InputKind.BUFFER))

    @property
    def non_persistent_buffers(self) -> tuple[str | None, ...]:
        """Names of the buffers that are not saved."""
        return tuple(s.target for s in self._of(InputKind.BUFFER) if s.persistent is False)

    def _outputs(self, kind: OutputKind) -> dict[str, str]:
        return {s.arg.name: s.target for s in self.output_specs if s.kind is kind}

    @property
    def buffers_to_mutate(self) -> dict[str, str]:
        """{output: the buffer that it is to be}: empty, as changes in place are in the graph."""
        return self._outputs(OutputKind.BUFFER_MUTATION)

    @property
    def parameters_to_mutate(self) -> dict[str, str]:
        """{output: the parameter that it is to be}: empty."""
        return self._outputs(OutputKind.PARAMETER_MUTATION)

    @property
    def user_inputs_to_mutate(self) -> dict[str, str]:
        """{output: the input that it is to be}: empty, as changes in place are in the graph."""
        return self._outputs(OutputKind.USER_INPUT_MUTATION)

    @property
    def backward_signature(self) -> ExportBackwardSignature | None:
        """The outputs of the backward pass, if the graph has one."""
        loss = list(self._outputs(OutputKind.LOSS_OUTPUT))
        if not loss:
            return None
        return ExportBackwardSignature(
            self._outputs(OutputKind.GRADIENT_TO_PARAMETER),
            self._outputs(OutputKind.GRADIENT_TO_USER_INPUT), loss[0],
        )  # fmt: skip

    @property
    def lifted_tensor_constants(self) -> tuple[str | None, ...]:
        """Names of the constants."""
        return tuple(s.target for s in self._of(InputKind.CONSTANT_TENSOR))

    @property
    def user_inputs(self) -> tuple[Any, ...]:
        """Names of the inputs that a caller gives; the value, where it is fixed."""
        return tuple(
            s.arg.value if isinstance(s.arg, ConstantArgument) else s.arg.name
            for s in self._of(InputKind.USER_INPUT)
        )

    @property
    def user_outputs(self) -> tuple[Any, ...]:
        """Names of the outputs."""
        return tuple(
            s.arg.value if isinstance(s.arg, ConstantArgument) else s.arg.name
            for s in self.output_specs
        )

    @property
    def inputs_to_parameters(self) -> dict[str, str | None]:
        """{placeholder: name of the parameter}."""
        return {s.arg.name: s.target for s in self._of(InputKind.PARAMETER)}

    @property
    def inputs_to_buffers(self) -> dict[str, str | None]:
        """{placeholder: name of the buffer}."""
        return {s.arg.name: s.target for s in self._of(InputKind.BUFFER)}

    @property
    def inputs_to_lifted_tensor_constants(self) -> dict[str, str | None]:
        """{placeholder: name of the constant}."""
        return {s.arg.name: s.target for s in self._of(InputKind.CONSTANT_TENSOR)}

    @property
    def lifted_custom_objs(self) -> tuple[str | None, ...]:
        """Names of the objects of TorchScript's classes."""
        return tuple(s.target for s in self._of(InputKind.CUSTOM_OBJ))

    @property
    def inputs_to_lifted_custom_objs(self) -> dict[str, str | None]:
        """{placeholder: name of the object}."""
        return {s.arg.name: s.target for s in self._of(InputKind.CUSTOM_OBJ)}

    @property
    def assertion_dep_token(self) -> dict[int, str] | None:
        """None: assertions are nodes of the graph that nothing has to keep alive."""
        return None

    @property
    def input_tokens(self) -> tuple[str, ...]:
        """Names of the inputs that only say in which order effects come."""
        return tuple(s.arg.name for s in self._of(InputKind.TOKEN))

    @property
    def output_tokens(self) -> tuple[str, ...]:
        """Names of the outputs that only say in which order effects come."""
        return tuple(s.arg.name for s in self.output_specs if s.kind is OutputKind.TOKEN)

    def replace_all_uses(self, old: str, new: str) -> None:
        """Let inputs and outputs of one name have another."""
        for name, value in (("old", old), ("new", new)):
            if not isinstance(value, str):
                raise AssertionError(f"expected {name} to be str, got {type(value)}")
        for spec in (*self.output_specs, *self.input_specs):
            if not isinstance(spec.arg, ConstantArgument) and spec.arg.name == old:
                spec.arg.name = new

    def get_replace_hook(self, replace_inputs: bool = False) -> Callable[[Any, str, Any], None]:
        """Return what a graph module is given to tell of nodes that get another name.

        Args:
            replace_inputs: placeholders too, and not outputs alone.
        """

        def replace(old, new, user):
            if user.op == "output" or (replace_inputs and old.op == "placeholder"):
                self.replace_all_uses(old.name, new)

        return replace

    def __str__(self) -> str:
        lines = ["inputs:"]
        lines += [
            f"    {s.arg.name}: {s.kind.name}" + (f" {s.target!r}" if s.target else "")
            for s in self.input_specs
        ]
        lines.append("outputs:")
        lines += [f"    {s.arg.name}: {s.kind.name}" for s in self.output_specs]
        return "\n".join(lines)
