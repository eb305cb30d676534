"""One part of a pipelined model, and what it sends to its neighbours."""

from __future__ import annotations

import json

import rushlight
from rushlight.distributed import _messages as messages
from rushlight.distributed._group import resolve
from rushlight.distributed.fsdp._fully_shard import FSDPModule
from rushlight.distributed.pipelining._orders import ranks_of_stages
from rushlight.nn.parallel.distributed import DistributedDataParallel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

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
        output_grads: Any = None,
        input_grads: Any = None,
        group: ProcessGroup | None = None,
        dw_builder: Callable[[], Callable[[], None]] | None = None,
        get_mesh: Any = None,
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
        self._weights: dict[int, Callable[[bool], Any]] = {}
        self._arrived: dict[tuple[int, int], list[Tensor]] = {}
        self._sends: list[Any] = []
        self.output_chunks: list[Any] = []  # of the last stage

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

    def forward_maybe_with_nosync(self, *args: Any, **kwargs: Any) -> Any:
        """What the layers compute. A DistributedDataParallel does not get ready to exchange
        gradients: the last backward pass of a batch does that.

        Args:
            args, kwargs: the arguments of the layers.
        """
        if isinstance(self.submod, DistributedDataParallel):
            with self.submod.no_sync():
                return self.submod(*args, **kwargs)
        return self.submod(*args, **kwargs)

    def forward_one_chunk(
        self,
        fwd_chunk_id: int,
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None = None,
        save_forward_output: bool = True,
    ) -> Any:
        """Get a micro-batch from the stage before, run it, and give the output to the next one.

        Args:
            fwd_chunk_id: the number of the micro-batch.
            args, kwargs: the arguments of the layers; `args` count in the first stage alone.
            save_forward_output: whether the last stage adds the output to `output_chunks`.
        """
        number = fwd_chunk_id
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
        output = self.forward_maybe_with_nosync(*args, **(kwargs or {}))
        if self.is_last and save_forward_output:
            self.output_chunks.append(output)
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

    def backward_maybe_with_nosync(
        self, backward_type: str, bwd_kwargs: dict[str, Any], last_backward: bool = False
    ) -> tuple[tuple[Tensor | None, ...], list[dict[str, Any]] | None]:
        """Gradients, which data parallelism exchanges in the last backward pass of a batch alone.

        Args:
            backward_type: "full"; "input" for the gradients by inputs; "weight" for the others,
                afterwards.
            bwd_kwargs: `stage_output`, `output_grads` and `input_values`; for "weight" the
                `param_groups` that "input" has returned.
            last_backward: is it the last of a batch?

        Returns:
            The gradients by inputs, and what "weight" needs.
        """
        if backward_type not in ("full", "input", "weight"):
            raise RuntimeError(f"Unknown backward type: {backward_type}")
        if backward_type == "weight":
            (kept,) = bwd_kwargs["param_groups"]
        else:
            kept = _with_history(bwd_kwargs["stage_output"], bwd_kwargs["output_grads"])
        outputs, gradients = kept["outputs"], kept["gradients"]
        if isinstance(self.submod, FSDPModule):
            self.submod.set_requires_gradient_sync(last_backward)
        elif isinstance(self.submod, DistributedDataParallel) and last_backward:
            if backward_type != "input":
                self.submod.reducer.rebuild()
                self.submod.reducer.prepare(outputs)
        if backward_type == "weight":
            weights = [p for p in self.submod.parameters() if p.requires_grad]
            if outputs and weights:
                rushlight.autograd.backward(outputs, gradients, inputs=weights)
            return (), None
        leaves = [t for t in bwd_kwargs["input_values"] if isinstance(t, rushlight.Tensor)]
        leaves = [t for t in leaves if t.requires_grad]
        if backward_type == "full":
            if outputs:
                rushlight.autograd.backward(outputs, gradients)
            return tuple(t.grad for t in leaves), None
        found = ()
        if leaves:
            found = rushlight.autograd.grad(
                outputs, leaves, gradients, retain_graph=True, allow_unused=True
            )
        return found, [kept]

    def backward_one_chunk(
        self,
        bwd_chunk_id: int,
        loss: Tensor | None = None,
        full_backward: bool = True,
        last_backward: bool = False,
    ) -> None:
        """Get gradients from the next stage, run a micro-batch backward, and give its gradients to
        the stage before.

        Args:
            bwd_chunk_id: the number of the micro-batch.
            loss: its loss, which the last stage begins from.
            full_backward: False: gradients by inputs now, and those by weights in
                `backward_weight_one_chunk`.
            last_backward: is it the last of a batch, in which data parallelism exchanges?
        """
        number = bwd_chunk_id
        inputs = self._inputs.pop(number)
        outputs, gradients = self._ends(number, loss)
        about = {"stage_output": outputs, "output_grads": gradients, "input_values": inputs}
        splits = not full_backward and self.dw_builder is None
        if splits and self.is_first:
            about["input_values"] = ()
        kind = "input" if splits else "full"
        found, kept = self.backward_maybe_with_nosync(kind, about, last_backward)
        if splits:
            self._weights[number] = lambda last: self.backward_maybe_with_nosync(
                "weight", {"param_groups": kept}, last
            )
        elif not full_backward:
            later = self.dw_builder()
            self._weights[number] = lambda last: later()
        if not self.is_first:
            leaves = [t for t in inputs if isinstance(t, rushlight.Tensor) and t.requires_grad]
            given = [rushlight.zeros_like(t) if g is None else g for t, g in zip(leaves, found)]
            self._give(self.stage_index - 1, _BACKWARD, number, given)

    def backward_weight_one_chunk(self, bwd_chunk_id: int, last_backward: bool = False) -> None:
        """Add up the gradients by weights that a backward pass has put off.

        Args:
            bwd_chunk_id: the number of the micro-batch.
            last_backward: is it the last of a batch, in which data parallelism exchanges?
        """
        self._weights.pop(bwd_chunk_id)(last_backward)

    def perform_reduce_grad(self, grad_scale_factor: int) -> None:
        """Let a module of fully_shard exchange the gradients that it has added up, and divide them.

        Args:
            grad_scale_factor: by what.
        """
        for module in self.submod.modules():
            if isinstance(module, FSDPModule):
                module._fsdp.reduce_kept()
        self.scale_grads(grad_scale_factor)

    # ------------------------------------------------------------ stages of one process

    def set_local_fwd_input(self, prev_stage_outputs: Any, mb_index: int) -> None:
        """What the stage before, in this process too, has given; forward_one_chunk does it.

        Args:
            prev_stage_outputs: its outputs, which lose their history.
            mb_index: the number of the micro-batch.
        """
        outputs = [tensor.detach() for tensor in _tuple(prev_stage_outputs)]
        self._arrived[_FORWARD, mb_index] = outputs

    def set_local_bwd_input(self, next_stage_bwd_outputs: Any, mb_index: int) -> None:
        """What the next stage, in this process too, has given; backward_one_chunk does it.

        Args:
            next_stage_bwd_outputs: its gradients by inputs.
            mb_index: the number of the micro-batch.
        """
        if not isinstance(next_stage_bwd_outputs, tuple):
            raise AssertionError(f"Expected tuple, got {type(next_stage_bwd_outputs)}")
        if self.is_last:
            raise AssertionError("can't set bwd input if this stage is last")
        self._arrived[_BACKWARD, mb_index] = list(next_stage_bwd_outputs)

    def get_local_bwd_output(self, mb_index: int) -> Any:
        """The gradients by inputs that the stage before, in this process too, has not used yet.

        Args:
            mb_index: the number of the micro-batch.
        """
        if self.is_first:
            raise AssertionError("can't get bwd output if this stage is first")
        before = self._neighbours.get(self.stage_index - 1)
        if before is None or (_BACKWARD, mb_index) not in before._arrived:
            raise KeyError(
                f"get_local_bwd_output: stage {self.stage_index} has no gradients of micro-batch "
                f"{mb_index} for a stage of this process"
            )
        return tuple(before._arrived[_BACKWARD, mb_index])

    def get_fwd_recv_ops(self, fwd_chunk_id: int) -> NoReturn:
        """Raises NotImplementedError: forward_one_chunk receives.

        Args:
            fwd_chunk_id: the number of a micro-batch.
        """
        _refuse_messages("get_fwd_recv_ops", fwd_chunk_id)

    def get_fwd_send_ops(self, fwd_chunk_id: int) -> NoReturn:
        """Raises NotImplementedError: forward_one_chunk sends.

        Args:
            fwd_chunk_id: the number of a micro-batch.
        """
        _refuse_messages("get_fwd_send_ops", fwd_chunk_id)

    def get_bwd_recv_ops(self, bwd_chunk_id: int) -> NoReturn:
        """Raises NotImplementedError: backward_one_chunk receives.

        Args:
            bwd_chunk_id: the number of a micro-batch.
        """
        _refuse_messages("get_bwd_recv_ops", bwd_chunk_id)

    def get_bwd_send_ops(self, bwd_chunk_id: int) -> NoReturn:
        """Raises NotImplementedError: backward_one_chunk sends.

        Args:
            bwd_chunk_id: the number of a micro-batch.
        """
        _refuse_messages("get_bwd_send_ops", bwd_chunk_id)

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


def _refuse_messages(name, number):
    raise NotImplementedError(
        f"PipelineStage.{name}({number}): forward_one_chunk and backward_one_chunk send and "
        "receive by themselves"
    )


def _with_history(outputs, gradients):
    """The outputs that have one, with their gradients."""
    outputs = _tuple(outputs)
    gradients = [None] * len(outputs) if gradients is None else _tuple(gradients)
    pairs = [
        (output, gradient)
        for output, gradient in zip(outputs, gradients)
        if isinstance(output, rushlight.Tensor) and output.requires_grad
    ]
    return {"outputs": [o for o, _ in pairs], "gradients": [g for _, g in pairs]}


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
