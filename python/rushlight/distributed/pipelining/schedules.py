"""Running batches through the stages of a pipeline."""

from __future__ import annotations

import dataclasses
import logging
from collections import Counter

import rushlight
from rushlight.distributed.pipelining import _orders as orders
from rushlight.distributed.pipelining._orders import (
    BACKWARD_WEIGHT,
    FORWARD,
    FULL_BACKWARD,
    OVERLAP_F_B,
    _Action,
    _ComputationType,
    ranks_of_stages,
)
from rushlight.distributed.pipelining.microbatch import (
    merge_chunks,
    split,
    split_args_kwargs_into_chunks,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from rushlight import Tensor
    from rushlight.distributed.pipelining.microbatch import TensorChunkSpec
    from rushlight.distributed.pipelining.stage import PipelineStage


class _PipelineSchedule:
    """Divides a batch into micro-batches and runs them through the stages of this process.

    Args:
        stages: this process's stages.
        style: how stages lie in processes; see ranks_of_stages.
        others: see ScheduleGPipe.
    """

    _backward_requires_autograd = True
    pp_group_size: int
    rank: int
    stage_index_to_group_rank: dict[int, int]
    scale_grads: bool

    def __init__(
        self,
        stages: list[PipelineStage],
        style: str,
        n_microbatches: int,
        loss_fn: Callable[..., Tensor] | None,
        args_chunk_spec: Sequence[TensorChunkSpec] | None,
        kwargs_chunk_spec: dict[str, TensorChunkSpec] | None,
        output_merge_spec: Any,
        scale_grads: bool,
    ) -> None:
        if n_microbatches < 1:
            raise ValueError(f"{type(self).__name__}: n_microbatches must be positive")
        self._stages, self._n_microbatches = stages, n_microbatches
        self._num_stages, self.pp_group_size = stages[0].num_stages, stages[0].group_size
        self.rank = stages[0].group_rank
        if len(stages) * self.pp_group_size != self._num_stages:
            raise ValueError(
                f"{type(self).__name__}: {self._num_stages} stages in {self.pp_group_size} "
                f"processes, and {len(stages)} in this one"
            )
        self.stage_index_to_group_rank = ranks_of_stages(
            self.pp_group_size, self._num_stages, style
        )
        for stage in stages:
            stage.together_with(stages, self.stage_index_to_group_rank)
        self._loss_fn, self.scale_grads = loss_fn, scale_grads
        self._args_chunk_spec, self._kwargs_chunk_spec = args_chunk_spec, kwargs_chunk_spec
        self._output_merge_spec = output_merge_spec
        self._functions: dict[_ComputationType, Callable[..., None]] = {}
        self._now: _Run | None = None  # the batch under way
        self.backward_counter: Counter[int] = Counter()  # stage -> its backward passes so far
        self.pipeline_order: dict[int, list[_Action]] = {
            rank: self._order_of(rank) for rank in range(self.pp_group_size)
        }

    def _order_of(self, rank: int) -> list[_Action]:
        raise NotImplementedError(f"{type(self).__name__}: no order for rank {rank}")

    def step(
        self,
        *args: Any,
        target: Tensor | None = None,
        losses: list[Tensor] | None = None,
        return_outputs: bool = True,
        loss_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Run a batch forward, and backward if there is a `loss_fn`.

        Args:
            args: the batch, in the process of the first stage; nothing elsewhere.
            target: what `loss_fn` compares with, in the process of the last stage.
            losses: a list that gets the loss of each micro-batch, there too.
            return_outputs: return the merged output of the last stage.
            loss_kwargs: more arguments for `loss_fn`.
            kwargs: divided and given to this process's stages.

        Returns:
            The output of the batch in the process of the last stage, else None.
        """
        has_backward = self._loss_fn is not None
        if has_backward and self._backward_requires_autograd and not rushlight.is_grad_enabled():
            raise RuntimeError(
                f"{type(self).__name__}.step: gradients are off: leave no_grad(), or call eval()"
            )
        return self._run(args, kwargs, target, losses, return_outputs, has_backward, loss_kwargs)

    def eval(
        self,
        *args: Any,
        target: Tensor | None = None,
        losses: list[Tensor] | None = None,
        loss_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Run a batch forward alone, without gradients; see step."""
        with rushlight.no_grad():
            return self._run(args, kwargs, target, losses, True, False, loss_kwargs)

    def _run(self, args, kwargs, target, losses, return_outputs, has_backward, loss_kwargs):
        count = self._n_microbatches
        has_last = any(stage.is_last for stage in self._stages)
        if has_backward and has_last and target is None:
            raise ValueError(f"{type(self).__name__}: the last stage needs a target for its loss")
        for stage in self._stages:
            stage.has_backward = has_backward
            stage.clear_runtime_states()
        batches = split_args_kwargs_into_chunks(
            args, kwargs, count, self._args_chunk_spec, self._kwargs_chunk_spec
        )
        targets = None if target is None else split(target, None, count)
        run = _Run(self, batches, targets, loss_kwargs or {}, losses)
        self.backward_counter.clear()
        self._now = run
        for action in self.pipeline_order[self.rank]:
            if has_backward or action.computation_type in (FORWARD, OVERLAP_F_B):
                run.perform(action, has_backward)
        self._now = None
        chunks = [chunk for stage in self._stages if stage.is_last for chunk in stage.output_chunks]
        for stage in self._stages:
            stage.finish()
            if has_backward and self.scale_grads:
                stage.scale_grads(count)
        if has_last and losses is not None and run.losses:
            losses[:] = [run.losses[i].detach() for i in range(count)]
        if not has_last or not return_outputs:
            return None
        return merge_chunks(chunks, self._output_merge_spec)

    def _maybe_compute_loss(self, stage, output, target_mbs, mb_index):
        """Compute and keep the loss of a micro-batch, in the last stage."""
        if stage.is_last and self._loss_fn is not None and target_mbs is not None:
            loss = self._loss_fn(output, target_mbs[mb_index], **self._now.loss_kwargs)
            self._now.losses[mb_index] = loss

    def _maybe_get_loss(self, stage, mb_index):
        """The loss of a micro-batch, in the last stage."""
        return self._now.losses.get(mb_index) if stage.is_last else None


class _Run:
    """What a batch has given so far."""

    def __init__(self, schedule, batches, targets, loss_kwargs, given_losses):
        self.schedule, self.given_losses = schedule, given_losses
        self.stages = {stage.stage_index: stage for stage in schedule._stages}
        self.args, self.kwargs = batches
        self.targets, self.loss_kwargs = targets, loss_kwargs
        self.losses: dict[int, Tensor] = {}

    def perform(self, action: _Action, has_backward: bool) -> None:
        kind, number = action.computation_type, action.microbatch_index
        function = self.schedule._functions.get(kind)
        if function is not None:
            function(action, self.context())
            return
        if kind is OVERLAP_F_B:
            for one in action.sub_actions:
                if has_backward or one.computation_type is FORWARD:
                    self.perform(one, has_backward)
            return
        stage = self.stages[action.stage_index]
        if kind is FORWARD:
            self.forward(stage, number)
            return
        counts = self.schedule.backward_counter
        if kind in (FULL_BACKWARD, BACKWARD_WEIGHT):
            counts[stage.stage_index] += 1
        is_last = counts[stage.stage_index] == self.schedule._n_microbatches
        if kind is BACKWARD_WEIGHT:
            stage.backward_weight_one_chunk(number, is_last)
        else:
            loss = self.schedule._maybe_get_loss(stage, number)
            stage.backward_one_chunk(number, loss, kind is FULL_BACKWARD, is_last)

    def forward(self, stage: PipelineStage, number: int) -> None:
        args = self.args[number] if stage.is_first else ()
        output = stage.forward_one_chunk(number, args, self.kwargs[number])
        self.schedule._maybe_compute_loss(stage, output, self.targets, number)

    def context(self) -> _PipelineContext:
        return _PipelineContext(
            self.schedule, self.args, self.kwargs, self.targets, self.given_losses
        )


@dataclasses.dataclass
class _PipelineContext:
    """What a function gets that performs a step of a schedule.

    Args:
        schedule_ref: the schedule.
        arg_mbs, kwarg_mbs: the arguments of each micro-batch.
        target_mbs: what its output is compared with.
        losses: the list that `step` was given.
    """

    schedule_ref: _PipelineSchedule
    arg_mbs: list[tuple[Any, ...]] | None = None
    kwarg_mbs: list[dict[str, Any]] | None = None
    target_mbs: list[Any] | None = None
    losses: list[Any] | None = None


class PipelineScheduleSingle(_PipelineSchedule):
    """A schedule of one stage in each process.

    Args:
        stage: this process's PipelineStage.
        n_microbatches: into how many micro-batches a batch is divided.
        loss_fn: loss_fn(output, target) of a micro-batch, in the last stage.
        args_chunk_spec, kwargs_chunk_spec: along which dims arguments are divided; 0 by default.
        output_merge_spec: along which dims outputs are merged; 0 by default.
        scale_grads: divide gradients by the number of micro-batches, as for a loss that is a mean.
    """

    def __init__(
        self,
        stage: PipelineStage,
        n_microbatches: int,
        loss_fn: Callable[..., Tensor] | None = None,
        args_chunk_spec: Sequence[TensorChunkSpec] | None = None,
        kwargs_chunk_spec: dict[str, TensorChunkSpec] | None = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
    ) -> None:
        specs = args_chunk_spec, kwargs_chunk_spec, output_merge_spec
        super().__init__([stage], "loop", n_microbatches, loss_fn, *specs, scale_grads)


class ScheduleGPipe(PipelineScheduleSingle):
    """All micro-batches forward, then all backward (Y. Huang et al.: GPipe, 2018).

    Args:
        stage: this process's PipelineStage.
        n_microbatches: into how many micro-batches a batch is divided.
        others: see PipelineScheduleSingle.
    """

    def _order_of(self, rank: int) -> list[_Action]:
        return orders.gpipe(rank, self._n_microbatches)


class Schedule1F1B(PipelineScheduleSingle):
    """One forward, one backward, once the pipeline is full: a stage holds at most as many
    micro-batches as there are stages after it (D. Narayanan et al.: PipeDream, 2019).

    Args:
        stage: this process's PipelineStage.
        n_microbatches: into how many micro-batches a batch is divided; at least one per stage.
        others: see PipelineScheduleSingle.
    """

    def _order_of(self, rank: int) -> list[_Action]:
        if self._n_microbatches < self._num_stages:
            raise ValueError(
                f"Number of microbatches ({self._n_microbatches}) must be greater than or equal to "
                f"the number of stages ({self._num_stages})."
            )
        return orders.one_forward_one_backward(rank, self._num_stages, self._n_microbatches)


class PipelineScheduleMulti(_PipelineSchedule):
    """A schedule of several stages in each process.

    Args:
        stages: this process's PipelineStages, the first ones first.
        n_microbatches: into how many micro-batches a batch is divided.
        loss_fn: loss_fn(output, target) of a micro-batch, in the last stage.
        args_chunk_spec, kwargs_chunk_spec: along which dims arguments are divided; 0 by default.
        output_merge_spec: along which dims outputs are merged; 0 by default.
        scale_grads: divide gradients by the number of micro-batches, as for a loss that is a mean.
        backward_requires_autograd: refuse a step under no_grad().
        defer_pp_recv: a process asks for what it receives when it needs it, and not before. Here
            it always does.
    """

    _style = "loop"
    n_local_stages: int
    number_of_rounds: int
    microbatches_per_round: int

    def __init__(
        self,
        stages: list[PipelineStage],
        n_microbatches: int,
        loss_fn: Callable[..., Tensor] | None = None,
        args_chunk_spec: Sequence[TensorChunkSpec] | None = None,
        kwargs_chunk_spec: dict[str, TensorChunkSpec] | None = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
        backward_requires_autograd: bool = True,
        defer_pp_recv: bool = False,
    ) -> None:
        self._backward_requires_autograd = backward_requires_autograd
        if not isinstance(defer_pp_recv, bool):
            raise TypeError(f"defer_pp_recv must be a bool, got {defer_pp_recv!r}")
        specs = args_chunk_spec, kwargs_chunk_spec, output_merge_spec
        super().__init__(stages, self._style, n_microbatches, loss_fn, *specs, scale_grads)

    def register_custom_function(
        self,
        computation_type: _ComputationType,
        custom_function: Callable[[_Action, _PipelineContext], None],
    ) -> None:
        """Let a function perform the steps of one kind.

        Args:
            computation_type: the kind: FORWARD, FULL_BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHT or
                OVERLAP_F_B, of this module; where a schedule has OVERLAP_F_B, that counts for both
                of its parts.
            custom_function: called with the step, of which `stage_index`, `microbatch_index` and
                `sub_actions` say what is to be done, and with `schedule_ref`, `arg_mbs`,
                `kwarg_mbs`, `target_mbs` and `losses` of the batch. It calls the stages'
                forward_one_chunk, backward_one_chunk and backward_weight_one_chunk.

        Raises:
            ValueError: schedules have no such kind.
        """
        if not isinstance(computation_type, _ComputationType):
            kinds = ", ".join(kind.name for kind in _ComputationType)
            raise ValueError(
                f"Invalid computation type {computation_type}. Only {kinds} are supported."
            )
        if computation_type in self._functions:
            logging.getLogger(__name__).warning(
                "Computation type %s is already registered. Overwriting the existing custom "
                "function.", computation_type.name,
            )  # fmt: skip
        self._functions[computation_type] = custom_function

    def _check_rounds(self):
        rounds = max(1, self._n_microbatches // self.pp_group_size)
        self.n_local_stages, self.number_of_rounds = len(self._stages), rounds
        self.microbatches_per_round = self._n_microbatches // rounds
        if self._n_microbatches % rounds:
            raise ValueError(
                f"{type(self).__name__} requires the number of microbatches to be a multiple of "
                f"the number of rounds ({rounds}), but got {self._n_microbatches}."
            )

    def _check_two_stages(self):
        if len(self._stages) != 2:
            raise ValueError(
                f"{type(self).__name__} requires exactly 2 stages per rank, but got "
                f"{len(self._stages)}."
            )


class ScheduleLoopedBFS(PipelineScheduleMulti):
    """Breadth first: all micro-batches through one stage of a process, then through its next
    (J. Lamy-Poirier, 2022).

    Args:
        stages: this process's PipelineStages.
        n_microbatches: into how many micro-batches a batch is divided.
        others: see PipelineScheduleMulti.
    """

    def _order_of(self, rank: int) -> list[_Action]:
        return orders.breadth_first(
            rank, self.pp_group_size, len(self._stages), self._n_microbatches
        )


class ScheduleInterleaved1F1B(PipelineScheduleMulti):
    """Depth first: 1F1B with several stages in each process (D. Narayanan et al., 2021).

    Args:
        stages: this process's PipelineStages.
        n_microbatches: into how many micro-batches a batch is divided.
        others: see PipelineScheduleMulti.
    """

    def _order_of(self, rank: int) -> list[_Action]:
        self._check_rounds()
        return orders.interleaved(
            rank, self.pp_group_size, len(self._stages), self._n_microbatches, False
        )


class ScheduleInterleavedZeroBubble(PipelineScheduleMulti):
    """Interleaved 1F1B whose gradients by weights fill the pauses (P. Qi et al., 2023: ZB1P).

    A split backward pass walks through a stage twice, for inputs and for weights.

    Args:
        stages: this process's PipelineStages.
        n_microbatches: into how many micro-batches a batch is divided.
        others: see PipelineScheduleMulti.
    """

    def _order_of(self, rank: int) -> list[_Action]:
        self._check_rounds()
        return orders.interleaved(
            rank, self.pp_group_size, len(self._stages), self._n_microbatches, True
        )


class ScheduleZBVZeroBubble(PipelineScheduleMulti):
    """ZB-V: two stages in each process, of which the second is on the way back.

    Args:
        stages: this process's two PipelineStages, numbers `rank` and `2 * size - 1 - rank`.
        n_microbatches: into how many micro-batches a batch is divided.
        others: see PipelineScheduleMulti.
    """

    _style = "v"

    def _order_of(self, rank: int) -> list[_Action]:
        self._check_two_stages()
        return orders.zero_bubble_v(rank, self.pp_group_size, self._n_microbatches)


class ScheduleDualPipeV(PipelineScheduleMulti):
    """DualPipeV: as ZB-V, with a forward and a backward pass side by side.

    Here the two run one after the other: a process has one thread that computes.

    Args:
        stages: this process's two PipelineStages, numbers `rank` and `2 * size - 1 - rank`.
        n_microbatches: into how many micro-batches a batch is divided; at least one per stage.
        others: see PipelineScheduleMulti.
    """

    _style = "v"

    def _order_of(self, rank: int) -> list[_Action]:
        self._check_two_stages()
        if self._n_microbatches < self._num_stages:
            raise ValueError(
                "DualPipeV requires at least as many microbatches as stages, but got "
                f"{self._n_microbatches} microbatches and {self._num_stages} stages."
            )
        return orders.dual_pipe_v(rank, self.pp_group_size, self._n_microbatches)


_CLASSES = {
    "1F1B": Schedule1F1B,
    "Interleaved1F1B": ScheduleInterleaved1F1B,
    "GPipe": ScheduleGPipe,
    "LoopedBFS": ScheduleLoopedBFS,
    "InterleavedZeroBubble": ScheduleInterleavedZeroBubble,
    "PipelineScheduleSingle": PipelineScheduleSingle,
    "PipelineScheduleMulti": PipelineScheduleMulti,
    "ZBVZeroBubble": ScheduleZBVZeroBubble,
    "DualPipeV": ScheduleDualPipeV,
}


def get_schedule_class(schedule_name: str) -> type[_PipelineSchedule]:
    """The class of a schedule, by its name in any case.

    Args:
        schedule_name: "1F1B", "GPipe", "LoopedBFS", "Interleaved1F1B" ...

    Example:
        >>> get_schedule_class("gpipe").__name__
        'ScheduleGPipe'
    """
    for name, found in _CLASSES.items():
        if name.lower() == schedule_name.lower():
            return found
    raise ValueError(
        f"Unknown schedule name '{schedule_name}'. The valid options are {list(_CLASSES)}"
    )


__all__ = [
    "PipelineScheduleMulti",
    "PipelineScheduleSingle",
    "Schedule1F1B",
    "ScheduleDualPipeV",
    "ScheduleGPipe",
    "ScheduleInterleaved1F1B",
    "ScheduleInterleavedZeroBubble",
    "ScheduleLoopedBFS",
    "ScheduleZBVZeroBubble",
    "get_schedule_class",
]
