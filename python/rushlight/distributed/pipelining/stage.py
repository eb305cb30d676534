"""One part of a pipelined model, and what it sends to its neighbours."""

from __future__ import annotations

import json

import rushlight
from rushlight.distributed import _messages as messages
from rushlight.distributed._group import resolve
from rushlight.distributed.pipelining._orders import ranks_of_stages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight import Tensor
    from rushlight.distributed import ProcessGroup
    from rushlight.distributed.pipelining._IR import PipeInfo
    from rushlight.nn import Module
    from rushlight.types import Device

_FORWARD, _BACKWARD = 0, 1
_SHAPES = (1 << 4) - 1  # the place of the message that says the shapes
_BYTES_OF_SHAPES = 4096


class PipelineStage:
    """Some layers of a model: gets activations from the stage before and sends its own on.

    A process has one stage or several; the schedule says which process has which.

    Args:
        submodule: the layers.
        stage_index: its number.
        num_stages: how many stages there are in all processes.
        device: the CPU.
        input_args: one example input of a micro-batch, or a tuple of them; by default the shapes
            are learnt from the stage before in the first step.
        output_args: example outputs, which those of the first step are compared with.
        output_grads, input_grads: None; gradients have the shapes of what they belong to.
        group: the processes; all by default.
        dw_builder: dw_builder() gives what computes the gradients of the weights that a backward
            pass has put off, for schedules that split it.
        get_mesh: None; it is about DTensors.
    """

    submod: Module
    stage_index: int
    num_stages: int
    group: ProcessGroup
    group_rank: int
    group_size: int
    device: rushlight.device
    is_first: bool
    is_last: bool
    stage_index_to_group_rank: dict[int, int]
    has_backward: bool
    dw_builder: Callable[[], Callable[[], None]] | None

    def __init__(
        self,
        submodule: Module,
        stage_index: int,
        num_stages: int,
        device: Device,
        input_args: Tensor | tuple[Tensor, ...] | None = None,
        output_args: Tensor | tuple[Tensor, ...] | None = None,
        output_grads: None = None,
        input_grads: None = None,
        group: ProcessGroup | None = None,
        dw_builder: Callable[[], Callable[[], None]] | None = None,
        get_mesh: None = None,
    ) -> None:
        if not 0 <= stage_index < num_stages:
            raise ValueError(
                f"PipelineStage: stage index {stage_index} is out of range of {num_stages}"
            )
        if output_grads is not None or input_grads is not None or get_mesh is not None:
            raise NotImplementedError(
                "PipelineStage: output_grads, input_grads and get_mesh are not supported"
            )
        if rushlight.device(device).type != "cpu":
            raise RuntimeError(f"PipelineStage: no backend for device {device}")
        self.group = resolve(group)
        self.group_rank, self.group_size = self.group.rank(), self.group.size()
        if num_stages % self.group_size:
            raise ValueError(
                f"Pipeline group size {self.group_size} cannot divide the number of stages "
                f"{num_stages}"
            )
        self.submod, self.stage_index, self.num_stages = submodule, stage_index, num_stages
        self.device = rushlight.device(device)
        self.is_first, self.is_last = stage_index == 0, stage_index == num_stages - 1
        self.stage_index_to_group_rank = ranks_of_stages(self.group_size, num_stages, "loop")
        self.has_backward, self.dw_builder = False, dw_builder
        self._neighbours: dict[int, PipelineStage] = {stage_index: self}
        self._shapes = None  # of what comes, as [shape, name of the dtype, has a gradient]
        if input_args is not None and not self.is_first:
            self._shapes = _shapes_of(_tuple(input_args))
        self._wanted = None if output_args is None else _shapes_of(_tuple(output_args))
        self._told_shapes = None
        self._says_shapes: list[Any] = []
        self.clear_runtime_states()

    def clear_runtime_states(self) -> None:
        """Forget the micro-batches of a step."""
        self._inputs: dict[int, tuple[Any, ...]] = {}
        self._outputs: dict[int, tuple[Any, ...]] = {}
        self._weights: dict[int, Callable[[], None]] = {}
        self._arrived: dict[tuple[int, int], list[Tensor]] = {}
        self._sends: list[Any] = []

    def together_with(self, stages: list[PipelineStage], ranks: dict[int, int]) -> None:
        """Learn the other stages of this process, and which process has which."""
        self.stage_index_to_group_rank = ranks
        self._neighbours = {stage.stage_index: stage for stage in stages}
        if ranks[self.stage_index] != self.group_rank:
            raise ValueError(
                f"PipelineStage: stage {self.stage_index} belongs to member "
                f"{ranks[self.stage_index]} of the group, this is {self.group_rank}"
            )

    # ------------------------------------------------------------ messages

    def _give(self, stage, direction, number, tensors):
        """Give tensors to a stage, of this process or of another."""
        if stage in self._neighbours:
            self._neighbours[stage]._arrived[direction, number] = [t.detach() for t in tensors]
            return
        for place, tensor in enumerate(tensors):
            self._send(stage, direction, number, place, tensor.detach())

    def _send(self, stage, direction, number, place, tensor):
        rank = self.stage_index_to_group_rank[stage]
        tag = _tag(stage // self.group_size, direction, number, place)
        work = messages.isend(tensor.contiguous(), group=self.group, group_dst=rank, tag=tag)
        self._sends.append(work)

    def _take(self, stage, direction, number, shapes):
        """The tensors that a stage gives to this one."""
        if stage in self._neighbours:
            return self._arrived.pop((direction, number))
        rank, taken = self.stage_index_to_group_rank[stage], []
        for place, (shape, dtype, _) in enumerate(shapes):
            tensor = rushlight.empty(shape, dtype=getattr(rushlight, dtype))
            tag = _tag(self.stage_index // self.group_size, direction, number, place)
            messages.recv(tensor, group=self.group, group_src=rank, tag=tag)
            taken.append(tensor)
        return taken

    def _say_shapes(self, number, outputs):
        """Tell the next stage the shapes, once; they must not change."""
        shapes = _shapes_of(outputs)
        if self._told_shapes is None:
            if self._wanted is not None and self._wanted != shapes:
                raise ValueError(
                    f"PipelineStage: stage {self.stage_index} gives {shapes}, and output_args says "
                    f"{self._wanted}"
                )
            self._told_shapes = shapes
            if self.stage_index + 1 in self._neighbours:
                return
            text = json.dumps(shapes).encode()
            if len(text) > _BYTES_OF_SHAPES:
                raise ValueError(f"PipelineStage: stage {self.stage_index} has too many outputs")
            said = rushlight.tensor(list(text.ljust(_BYTES_OF_SHAPES)), dtype=rushlight.uint8)
            self._send(self.stage_index + 1, _FORWARD, 0, _SHAPES, said)
        elif shapes != self._told_shapes:
            raise ValueError(
                f"PipelineStage: stage {self.stage_index} gives {shapes} for micro-batch {number}, "
                f"and gave {self._told_shapes} before: micro-batches must have one size"
            )

    def _learn_shapes(self):
        before = self.stage_index - 1
        if before in self._neighbours:
            self._shapes = self._neighbours[before]._told_shapes
            return
        said = rushlight.empty(_BYTES_OF_SHAPES, dtype=rushlight.uint8)
        tag = _tag(self.stage_index // self.group_size, _FORWARD, 0, _SHAPES)
        rank = self.stage_index_to_group_rank[before]
        messages.recv(said, group=self.group, group_src=rank, tag=tag)
        self._shapes = json.loads(bytes(said.tolist()))

    # ------------------------------------------------------------ computing

    def forward_one_chunk(
        self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run a micro-batch, whose `args` count in the first stage alone.

        Args:
            number: that of the micro-batch.
            args, kwargs: the arguments of the layers.
        """
        if not self.is_first:
            # A stage with input_args is told the shapes too; they are compared with its own.
            expected, before = self._shapes, self.stage_index - 1
            if not self._says_shapes:
                self._learn_shapes()
                self._says_shapes.append(True)
                if expected is not None and expected != self._shapes:
                    raise ValueError(
                        f"PipelineStage: stage {self.stage_index} gets {self._shapes}, and "
                        f"input_args says {expected}"
                    )
            args = tuple(self._take(before, _FORWARD, number, self._shapes))
            for tensor, (_, _, has_gradient) in zip(args, self._shapes):
                tensor.requires_grad_(has_gradient and rushlight.is_grad_enabled())
        self._inputs[number] = args
        output = self.submod(*args, **(kwargs or {}))
        outputs = _tuple(output)
        self._outputs[number] = outputs
        if not self.is_last:
            for one in outputs:
                if not isinstance(one, rushlight.Tensor):
                    raise TypeError(
                        f"PipelineStage: stage {self.stage_index} must return tensors, got "
                        f"{type(one).__name__}"
                    )
            self._say_shapes(number, outputs)
            self._give(self.stage_index + 1, _FORWARD, number, outputs)
        return output

    def _ends(self, number, loss):
        """Outputs that have a history, and their gradients."""
        outputs = self._outputs.pop(number)
        if self.is_last:
            return [loss], [None]
        shapes = [shape for shape in self._told_shapes if shape[2]]
        floating = [output for output in outputs if output.is_floating_point()]
        gradients = self._take(self.stage_index + 1, _BACKWARD, number, shapes)
        pairs = [(o, g) for o, g in zip(floating, gradients) if o.requires_grad]
        return [o for o, _ in pairs], [g for _, g in pairs]

    def backward_one_chunk(
        self, number: int, loss: Tensor | None = None, full_backward: bool = True
    ) -> None:
        """Run a micro-batch backward, from `loss` in the last stage alone.

        Args:
            number: that of the micro-batch.
            loss: its loss.
            full_backward: False: gradients by inputs now, and those by weights in
                `backward_weight_one_chunk`.
        """
        inputs = [t for t in self._inputs.pop(number) if isinstance(t, rushlight.Tensor)]
        outputs, gradients = self._ends(number, loss)
        leaves = [t for t in inputs if t.requires_grad]
        splits = not full_backward and self.dw_builder is None
        if splits and not self.is_first:
            found = rushlight.autograd.grad(
                outputs, leaves, gradients, retain_graph=True, allow_unused=True
            )
        elif splits:
            found = []
        else:
            if outputs:
                rushlight.autograd.backward(outputs, gradients)
            found = [t.grad for t in leaves]
            if not full_backward:
                self._weights[number] = self.dw_builder()
        if splits:
            self._weights[number] = lambda: self._by_weights(outputs, gradients)
        if not self.is_first:
            given = [rushlight.zeros_like(t) if g is None else g for t, g in zip(leaves, found)]
            self._give(self.stage_index - 1, _BACKWARD, number, given)

    def _by_weights(self, outputs, gradients):
        weights = [p for p in self.submod.parameters() if p.requires_grad]
        if outputs and weights:
            rushlight.autograd.backward(outputs, gradients, inputs=weights)

    def backward_weight_one_chunk(self, number: int) -> None:
        """Add up the gradients by weights that a backward pass has put off.

        Args:
            number: that of the micro-batch.
        """
        self._weights.pop(number)()

    def scale_grads(self, grad_scale_factor: int) -> None:
        """Divide the gradients of the parameters.

        Args:
            grad_scale_factor: by what.
        """
        for parameter in self.submod.parameters():
            if parameter.grad is not None:
                parameter.grad.div_(grad_scale_factor)

    def finish(self) -> None:
        """Wait until all that was sent has gone."""
        for work in self._sends:
            work.wait()
        self.clear_runtime_states()


def build_stage(
    stage_module: Module,
    stage_index: int,
    pipe_info: PipeInfo,
    device: Device,
    group: ProcessGroup | None = None,
) -> PipelineStage:
    """A stage of a module that `pipeline` has divided.

    Args:
        stage_module: the part, `pipe.get_stage_module(stage_index)`.
        stage_index: its number.
        pipe_info: `pipe.info()`.
        device: the CPU.
        group: the processes; all by default.
    """
    return PipelineStage(stage_module, stage_index, pipe_info.num_stages, device, group=group)


def _tuple(thing):
    return thing if isinstance(thing, tuple) else tuple(thing) if isinstance(thing, list) else (
        thing,
    )  # fmt: skip


def _shapes_of(tensors):
    return [[list(t.shape), str(t.dtype).partition(".")[2], t.is_floating_point()] for t in tensors]


def _tag(level, direction, number, place):
    """A number for each message: which of the stages of its process gets it, direction,
    micro-batch and place. Micro-batches pass a border in the same order on both sides, so that
    the last bits of their numbers tell those apart that are under way.
    """
    if level >= 1 << 5 or place >= 1 << 4:
        raise ValueError(
            "PipelineStage: at most 32 stages in a process, which give 15 tensors to the next"
        )
    return (level << 9) + (direction << 8) + (number % (1 << 4) << 4) + place


__all__ = ["PipelineStage", "build_stage"]
