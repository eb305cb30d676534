"""Dividing a module into stages, where it says so itself or where its caller says."""

from __future__ import annotations

import enum
import inspect
import operator
from dataclasses import dataclass

import rushlight
from rushlight import fx
from rushlight.distributed.pipelining.stage import PipelineStage, build_stage
from rushlight.nn import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight.distributed import ProcessGroup
    from rushlight.types import Device


class SplitPoint(enum.Enum):
    """Where to divide: before a submodule, or after it."""

    BEGINNING = 1
    END = 2


_tracers: list[_Tracer] = []  # the one at work is the last


def pipe_split() -> None:
    """The border between two stages, within the forward method of a module.

    `pipeline` divides there; otherwise it does nothing.

    Example:
        >>> class Net(rushlight.nn.Module):
        ...     def forward(self, x):
        ...         x = x + 1
        ...         pipe_split()
        ...         return x * 2
        >>> pipeline(Net(), (rushlight.ones(2),)).num_stages
        2
    """
    if _tracers:
        _tracers[-1].create_node("call_function", pipe_split, (), {})


class _Tracer(fx.Tracer):
    """Records a module with its borders."""

    def __init__(self, spec: dict[str, SplitPoint]) -> None:
        super().__init__()
        self.spec, self.found = spec, set()

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        below = f"{module_qualified_name}."
        if any(name.startswith(below) for name in self.spec):
            return False  # a border is within
        return super().is_leaf_module(m, module_qualified_name)

    def create_proxy(self, kind, target, args, *others, **options):
        if kind == "placeholder" and args and isinstance(args[0], rushlight.Tensor):
            args = ()  # a graph has no default that is a tensor
        return super().create_proxy(kind, target, args, *others, **options)

    def call_module(self, m, forward, args, kwargs):
        name = self.path_of_module(m)
        point = self.spec.get(name)
        self.found.add(name)
        if point is SplitPoint.BEGINNING:
            pipe_split()
        output = super().call_module(m, forward, args, kwargs)
        if point is SplitPoint.END:
            pipe_split()
        return output


def _traced(module, args, kwargs, spec):
    for name, point in spec.items():
        try:
            module.get_submodule(name)
        except AttributeError:
            raise AttributeError(
                f"pipeline: split_spec names {name!r}, which is no module"
            ) from None
        if not isinstance(point, SplitPoint):
            raise ValueError(f"pipeline: {name!r}: expected a SplitPoint, got {point!r}")
    tracer = _Tracer(spec)
    _tracers.append(tracer)
    try:
        graph = tracer.trace(module, _constants(module, args, kwargs))
    finally:
        _tracers.pop()
    unused = set(spec) - tracer.found
    if unused:
        raise ValueError(f"pipeline: split_spec names modules that do not run: {sorted(unused)}")
    return fx.GraphModule(module, graph)


def _constants(module, args, kwargs):
    """Arguments that are no tensors, by name: the trace is for these values."""
    bound = inspect.signature(module.forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return {
        name: value
        for name, value in bound.arguments.items()
        if not isinstance(value, rushlight.Tensor)
    }


@dataclass
class PipeInfo:
    """What `Pipe.info` says.

    Args:
        graph: the graph of the whole module.
        num_stages: how many stages there are.
        has_loss_and_backward: False: the loss belongs to the schedule.
    """

    graph: fx.Graph
    num_stages: int
    has_loss_and_backward: bool


class Pipe(Module):
    """A module that is divided into stages, made by `pipeline`.

    Called, it runs all stages in this process.

    Args:
        stages: the stages' modules, each with the parameters that it uses, under their own names.
        graph: the graph of the whole.
    """

    num_stages: int
    has_loss_and_backward: bool = False  # the loss belongs to the schedule
    loss_spec: Any = None
    replicated_params: list[Any]

    def __init__(self, stages: list[Module], graph: fx.Graph) -> None:
        super().__init__()
        self.num_stages, self._graph = len(stages), graph
        self.replicated_params = []  # a parameter belongs to one stage
        for number, stage in enumerate(stages):
            self.add_module(f"submod_{number}", stage)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run all stages; a tuple of the results, also of one."""
        found = self.get_stage_module(0)(*args, **kwargs)
        for number in range(1, self.num_stages):
            found = self.get_stage_module(number)(*found)
        return found if isinstance(found, tuple) else (found,)

    @staticmethod
    def from_tracing(
        mod: Module,
        example_args: tuple[Any, ...],
        example_kwargs: dict[str, Any] | None = None,
        split_policy: Callable[[fx.GraphModule], fx.GraphModule] | None = None,
    ) -> Pipe:
        """Divide a module at its calls of `pipe_split`, or by a policy; see pipeline.

        Args:
            mod: the module.
            example_args, example_kwargs: the arguments of a micro-batch, as an example.
            split_policy: a function that puts calls of `pipe_split` into the recorded graph.
        """
        return pipeline(mod, example_args, example_kwargs, split_policy=split_policy)

    def get_stage_module(self, stage_idx: int) -> Module:
        """The module of a stage.

        Args:
            stage_idx: its number.
        """
        if not 0 <= stage_idx < self.num_stages:
            raise ValueError(f"Invalid stage index {stage_idx}: there are {self.num_stages} stages")
        return self.get_submodule(f"submod_{stage_idx}")

    def info(self) -> PipeInfo:
        """How it is divided."""
        return PipeInfo(self._graph, self.num_stages, has_loss_and_backward=False)

    def build_stage(
        self, stage_index: int, device: Device, group: ProcessGroup | None = None
    ) -> PipelineStage:
        """A stage for a schedule.

        Args:
            stage_index: its number.
            device: the CPU.
            group: the processes; all by default.
        """
        return build_stage(
            self.get_stage_module(stage_index), stage_index, self.info(), device, group
        )

    def print_readable(self) -> None:
        """Print the code of all stages."""
        for number in range(self.num_stages):
            print(f"# stage {number}{self.get_stage_module(number).code}")


def pipeline(
    module: Module,
    mb_args: tuple[Any, ...],
    mb_kwargs: dict[str, Any] | None = None,
    split_spec: dict[str, SplitPoint] | None = None,
    split_policy: Callable[[fx.GraphModule], fx.GraphModule] | None = None,
) -> Pipe:
    """Divide a module into stages, at its calls of `pipe_split`, at submodules, or by a policy.

    The forward method is recorded once, by `rushlight.fx`: it must not depend on the values of
    tensors. What a later stage needs of an earlier one passes through those between.

    Args:
        module: the module; its parameters are shared with the stages.
        mb_args, mb_kwargs: the arguments of a micro-batch, as an example.
        split_spec: names of submodules, with SplitPoint.BEGINNING or SplitPoint.END.
        split_policy: a function that puts calls of `pipe_split` into the recorded graph.

    Raises:
        ValueError: both are given, or there is a name that does not run.
        NotImplementedError: two stages use the same parameter.

    Example:
        >>> net = rushlight.nn.Sequential(rushlight.nn.Linear(2, 3), rushlight.nn.Linear(3, 1))
        >>> pipe = pipeline(net, (rushlight.ones(4, 2),), split_spec={"1": SplitPoint.BEGINNING})
        >>> [name for name, _ in pipe.get_stage_module(1).named_parameters()]
        ['1.weight', '1.bias']
    """
    if split_spec is not None and split_policy is not None:
        raise ValueError("pipeline: give split_spec or split_policy, not both")
    traced = _traced(module, mb_args, mb_kwargs or {}, split_spec or {})
    if split_policy is not None:
        traced = split_policy(traced)
    values = _Values(traced)
    with rushlight.no_grad():
        values.run(*_placeholder_values(traced, module, mb_args, mb_kwargs or {}))
    return Pipe(_Division(traced, values.kept).stages(), traced.graph)


def _placeholder_values(traced, module, args, kwargs):
    bound = inspect.signature(module.forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments.values()


class _Values(fx.Interpreter):
    """Runs a graph and keeps which values are tensors."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.kept: dict[str, bool] = {}

    def run_node(self, n: fx.Node) -> Any:
        found = super().run_node(n)
        self.kept[n.name] = isinstance(found, rushlight.Tensor)
        return found


class _Division:
    """Makes the modules of the stages."""

    def __init__(self, traced: fx.GraphModule, is_tensor: dict[str, bool]) -> None:
        self.traced, self.is_tensor = traced, is_tensor
        self.stage_of: dict[fx.Node, int] = {}
        number = 0
        for node in traced.graph.nodes:
            if node.op == "call_function" and node.target is pipe_split:
                number += 1
                continue
            self.stage_of[node] = 0 if node.op == "placeholder" else number
        self.count = number + 1

    def stages(self) -> list[Module]:
        needed = [self._needed(number) for number in range(self.count)]
        crossing: list[list[fx.Node]] = [[] for _ in range(self.count + 1)]
        for border in range(self.count - 1, 0, -1):
            wanted = {*needed[border], *crossing[border + 1]}
            crossing[border] = [
                node for node in self.stage_of if node in wanted and self.stage_of[node] < border
            ]
        self._check_parameters()
        return [self._module(i, crossing[i], crossing[i + 1]) for i in range(self.count)]

    def _is_made_again(self, node):
        """Sizes and the like, and parameters, are no messages: the stage gets them itself."""
        return node.op == "get_attr" or not self.is_tensor.get(node.name, False)

    def _needed(self, number):
        """Tensors of earlier stages that the nodes of a stage use."""
        found: set[fx.Node] = set()

        def look(node: fx.Node) -> None:
            for value in node.all_input_nodes:
                if self.stage_of[value] >= number:
                    continue
                if self._is_made_again(value):
                    look(value)
                else:
                    found.add(value)

        for node, stage in self.stage_of.items():
            if stage == number:
                look(node)
        return found

    def _check_parameters(self):
        users: dict[int, tuple[str, int]] = {}
        for node, stage in self.stage_of.items():
            stages = {stage}
            if node.op == "get_attr":
                stages = {self.stage_of[user] for user in node.users} or {stage}
            for name, parameter in self._parameters(node):
                for one in stages:
                    before = users.setdefault(id(parameter), (name, one))
                    if before[1] != one:
                        raise NotImplementedError(
                            f"pipeline: stages {before[1]} and {one} both use {before[0]}: a "
                            "parameter must belong to one stage"
                        )

    def _parameters(self, node):
        if node.op == "call_module":
            module = self.traced.get_submodule(node.target)
            return [(f"{node.target}.{name}", p) for name, p in module.named_parameters()]
        if node.op == "get_attr":
            value = operator.attrgetter(node.target)(self.traced)
            return [(node.target, value)] if isinstance(value, rushlight.nn.Parameter) else []
        return []

    def _module(self, number, inputs, outputs):
        graph, env = fx.Graph(), {}
        if number > 0:
            env = {node: graph.placeholder(node.name) for node in inputs}

        def copied(node: fx.Node) -> fx.Node:
            if node not in env:
                env[node] = graph.node_copy(node, copied)
            return env[node]

        for node, stage in self.stage_of.items():
            if stage == number and node.op not in ("output", "get_attr"):
                copied(node)
        if number < self.count - 1:
            graph.output(tuple(copied(node) for node in outputs))
        else:
            (output,) = [node for node in self.stage_of if node.op == "output"]
            graph.output(fx.node.map_arg(output.args[0], copied))
        return fx.GraphModule(self.traced, graph)


__all__ = ["Pipe", "PipeInfo", "SplitPoint", "pipe_split", "pipeline"]
