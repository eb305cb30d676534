"""In which order a stage runs its micro-batches forward and backward."""

from __future__ import annotations

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn


class _Schedule:
    """Divides a batch into micro-batches and runs them through the stages.

    Args:
        stage: this process's PipelineStage.
        n_microbatches: into how many micro-batches a batch is divided along dim 0.
        loss_fn: loss_fn(output, target) of a micro-batch, in the last stage.
        args_chunk_spec, kwargs_chunk_spec, output_merge_spec: None: all along dim 0.
        scale_grads: divide gradients by the number of micro-batches, as for a loss that is a mean.
    """

    def __init__(
        self,
        stage: Any,
        n_microbatches: Any,
        loss_fn: Any = None,
        args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
    ) -> None:
        if args_chunk_spec or kwargs_chunk_spec or output_merge_spec:
            raise NotImplementedError(
                f"{type(self).__name__}: tensors are divided and merged along dim 0"
            )
        if n_microbatches < 1:
            raise ValueError(f"{type(self).__name__}: n_microbatches must be positive")
        self._stage, self._count = stage, n_microbatches
        self._loss_fn, self._scale_grads = loss_fn, scale_grads

    def step(
        self,
        *args: Any,
        target: Any = None,
        losses: Any = None,
        return_outputs: bool = True,
        **kwargs: Any,
    ) -> Any:
        """Run a batch forward, and backward if there is a `loss_fn`.

        Args:
            args: the batch, in the first stage; nothing elsewhere.
            target: what `loss_fn` compares with, in the last stage.
            losses: a list that gets the loss of each micro-batch, in the last stage.
            return_outputs: return the merged output of the last stage.
            kwargs: divided and given to this process's stage.

        Returns:
            The output of the batch in the last stage, else None.
        """
        return self._run(args, kwargs, target, losses, return_outputs, self._loss_fn is not None)

    def eval(self, *args: Any, target: Any = None, losses: Any = None, **kwargs: Any) -> Any:
        """Run a batch forward alone, without gradients; see step."""
        with rushlight.no_grad():
            return self._run(args, kwargs, target, losses, True, False)

    def _run(self, args, kwargs, target, losses, return_outputs, is_training):
        stage = self._stage
        stage.clear()
        self._args = _divide(args, self._count)
        self._kwargs = _divide(kwargs, self._count)
        self._targets = None if target is None else _divide((target,), self._count)
        if is_training and stage.is_last and target is None:
            raise ValueError(f"{type(self).__name__}: the last stage needs a target for its loss")
        self._outputs, self._losses = [None] * self._count, [None] * self._count
        for kind, number in self.order(is_training):
            if kind == "F":
                self._forward(number)
            else:
                stage.backward(number, self._losses[number])
        stage.finish()
        if is_training and self._scale_grads:
            for parameter in stage.submod.parameters():
                if parameter.grad is not None:
                    parameter.grad.div_(self._count)
        if stage.is_last and losses is not None:
            losses[:] = [loss.detach() for loss in self._losses if loss is not None]
        merged = self._outputs if stage.is_last and return_outputs else None
        self._outputs = self._losses = None
        return None if merged is None else _merge(merged)

    def _forward(self, number):
        args = self._args[number] if self._stage.is_first else ()
        output = self._stage.forward(number, args, self._kwargs[number])
        if self._stage.is_last:
            self._outputs[number] = output
            if self._loss_fn is not None and self._targets is not None:
                self._losses[number] = self._loss_fn(output, self._targets[number][0])

    def order(self, is_training: Any) -> NoReturn:
        """("F" or "B", number of the micro-batch) as this stage runs them."""
        raise NotImplementedError(f"{type(self).__name__}.order({is_training})")


class ScheduleGPipe(_Schedule):
    """All micro-batches forward, then all backward (Y. Huang et al.: GPipe, 2018)."""

    def order(self, is_training: Any) -> Any:
        """("F" or "B", number of the micro-batch) as this stage runs them."""
        forward = [("F", i) for i in range(self._count)]
        return forward + [("B", i) for i in range(self._count)] if is_training else forward


class Schedule1F1B(_Schedule):
    """One forward, one backward, once the pipeline is full: a stage holds at most as many
    micro-batches as there are stages after it (D. Narayanan et al.: PipeDream, 2019).
    """

    def order(self, is_training: Any) -> Any:
        """("F" or "B", number of the micro-batch) as this stage runs them."""
        if not is_training:
            return [("F", i) for i in range(self._count)]
        ahead = min(self._count, self._stage.num_stages - self._stage.stage_index)
        order = [("F", i) for i in range(ahead)]
        for i in range(self._count):
            order.append(("B", i))
            if ahead + i < self._count:
                order.append(("F", ahead + i))
        return order


def _divide(structure, count):
    """Micro-batches of a tuple or a dict: tensors divided along dim 0, the rest in each."""
    if isinstance(structure, dict):
        names = list(structure)
        return [dict(zip(names, part)) for part in _divide(tuple(structure.values()), count)]
    columns = []
    for thing in structure:
        if not isinstance(thing, rushlight.Tensor):
            columns.append([thing] * count)
            continue
        if thing.size(0) % count:
            raise ValueError(
                f"pipelining: a batch of {thing.size(0)} does not divide into {count} micro-batches"
            )
        columns.append(thing.chunk(count))
    return [tuple(column[i] for column in columns) for i in range(count)]


def _merge(outputs):
    if isinstance(outputs[0], tuple):
        return tuple(rushlight.cat(parts) for parts in zip(*outputs))
    return rushlight.cat(outputs)


__all__ = ["Schedule1F1B", "ScheduleGPipe"]
