"""One process's part of a pipelined model."""

from __future__ import annotations

import rushlight
from rushlight.distributed import _messages as messages, _objects as objects
from rushlight.distributed._group import resolve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.distributed import ProcessGroup
    from rushlight.types import Device


class PipelineStage:
    """The layers of one process: gets activations from the stage before and sends its own on.

    Args:
        submodule: the layers.
        stage_index: its number.
        num_stages: how many stages there are; stage i is in member i of the group.
        device: the CPU.
        input_args: one example input of a micro-batch, or a tuple of them; by default the shapes
            are learnt from the stage before in the first step.
        output_args: None; the outputs say their own shapes.
        group: the processes; all by default.
        dw_builder: None.
    """

    def __init__(
        self,
        submodule: Any,
        stage_index: Any,
        num_stages: Any,
        device: Device,
        input_args: Any = None,
        output_args: Any = None,
        group: ProcessGroup | None = None,
        dw_builder: Any = None,
    ) -> None:
        if not 0 <= stage_index < num_stages:
            raise ValueError(
                f"PipelineStage: stage index {stage_index} is out of range of {num_stages}"
            )
        if output_args is not None or dw_builder is not None:
            raise NotImplementedError("PipelineStage: output_args and dw_builder are not supported")
        if rushlight.device(device).type != "cpu":
            raise RuntimeError(f"PipelineStage: no backend for device {device}")
        self.group: Any = resolve(group)
        if self.group.size() != num_stages:
            raise ValueError(
                f"PipelineStage: {num_stages} stages for {self.group.size()} processes: one stage "
                "in each is supported"
            )
        if self.group.rank() != stage_index:
            raise ValueError(
                f"PipelineStage: stage {stage_index} belongs to member {stage_index} of the group, "
                f"this is {self.group.rank()}"
            )
        self.submod, self.stage_index, self.num_stages = submodule, stage_index, num_stages
        self.device: Any = rushlight.device(device)
        self.is_first, self.is_last = stage_index == 0, stage_index == num_stages - 1
        self._shapes = None  # of what comes, as (shape, dtype, requires gradient)
        if input_args is not None and not self.is_first:
            examples = input_args if isinstance(input_args, tuple) else (input_args,)
            self._shapes = [(tuple(t.shape), t.dtype, t.is_floating_point()) for t in examples]
        self._told_shapes = None
        self.clear()

    def clear(self) -> None:
        """Forget the micro-batches of a step."""
        self._inputs, self._outputs, self._sends = {}, {}, []

    def forward(self, number: Any, args: Any, kwargs: Any) -> Any:
        """Run a micro-batch, whose `args` count in the first stage alone."""
        if not self.is_first:
            args = self._receive(number)
        self._inputs[number] = args
        output = self.submod(*args, **kwargs)
        outputs = output if isinstance(output, tuple) else (output,)
        self._outputs[number] = outputs
        if not self.is_last:
            self._send_on(number, outputs)
        return output

    def _receive(self, number):
        before = self.stage_index - 1
        if self._shapes is None:
            found = [None]
            objects.recv_object_list(found, group_src=before, group=self.group)
            self._shapes = found[0]
        received = []
        for place, (shape, dtype, has_gradient) in enumerate(self._shapes):
            tensor = rushlight.empty(shape, dtype=dtype)
            messages.recv(tensor, group=self.group, group_src=before, tag=_tag(number, place))
            received.append(tensor.requires_grad_(has_gradient and rushlight.is_grad_enabled()))
        return tuple(received)

    def _send_on(self, number, outputs):
        following = self.stage_index + 1
        for output in outputs:
            if not isinstance(output, rushlight.Tensor):
                raise TypeError(
                    f"PipelineStage: stage {self.stage_index} must return tensors, got "
                    f"{type(output).__name__}"
                )
        shapes = [(tuple(t.shape), t.dtype, t.is_floating_point()) for t in outputs]
        if self._told_shapes is None:
            objects.send_object_list([shapes], group_dst=following, group=self.group)
            self._told_shapes = shapes
        elif shapes != self._told_shapes:
            raise ValueError(
                f"PipelineStage: stage {self.stage_index} gives {shapes} for micro-batch {number}, "
                f"and gave {self._told_shapes} before: micro-batches must have one size"
            )
        for place, output in enumerate(outputs):
            self._sends.append(
                messages.isend(
                    output.detach(), group=self.group, group_dst=following,
                    tag=_tag(number, place),
                )
            )  # fmt: skip

    def backward(self, number: Any, loss: Any) -> None:
        """Run a micro-batch backward, from `loss` in the last stage alone."""
        outputs, inputs = self._outputs.pop(number), self._inputs.pop(number)
        if self.is_last:
            loss.backward()
        else:
            self._backward_from_next(number, outputs)
        if not self.is_first:
            for place, tensor in enumerate(inputs):
                if not self._shapes[place][2]:
                    continue
                gradient = rushlight.zeros_like(tensor) if tensor.grad is None else tensor.grad
                self._sends.append(
                    messages.isend(
                        gradient, group=self.group, group_dst=self.stage_index - 1,
                        tag=_tag(number, place),
                    )
                )  # fmt: skip

    def _backward_from_next(self, number, outputs):
        following, pairs = self.stage_index + 1, []
        for place, output in enumerate(outputs):
            if not output.is_floating_point():
                continue
            gradient = rushlight.empty(output.shape, dtype=output.dtype)
            messages.recv(gradient, group=self.group, group_src=following, tag=_tag(number, place))
            if output.requires_grad:
                pairs.append((output, gradient))
        if pairs:
            rushlight.autograd.backward([o for o, _ in pairs], [g for _, g in pairs])

    def finish(self) -> None:
        """Wait until all that was sent has gone."""
        for work in self._sends:
            work.wait()
        self.clear()


def _tag(number, place):
    if number >= 1 << 10 or place >= 1 << 4:
        raise ValueError("PipelineStage: at most 1024 micro-batches of 16 tensors")
    return (number << 4) + place


__all__ = ["PipelineStage"]
