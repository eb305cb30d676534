"""Groups that send nothing: one process computes what one of many would, to see shapes."""

from __future__ import annotations

from rushlight.distributed._engine import Work
from rushlight.distributed._process_group import ProcessGroup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor


class FakeProcessGroup(ProcessGroup):
    """What backend "fake" makes. Gathering puts this member's tensor in each place; other
    tensors stay as they are.

    Args:
        rank: the number that this process takes.
        size: how many members there would be.
    """

    def name(self) -> str:
        """What carries the messages: "fake"."""
        return "fake"

    @classmethod
    def _create_internal(cls, rank, size, options=None):
        return cls(rank, size)

    def _gathered(self, output: Tensor, input: Tensor, *options: Any) -> Work:
        for part in output.detach().view(self.size(), -1):
            part.copy_(input.detach().reshape(-1))
        return Work(outputs=[output])

    def _gathered_in_lists(self, lists: Any, tensors: Any, *options: Any) -> Work:
        for outputs, tensor in zip(lists, tensors):
            for output in outputs:
                output.detach().copy_(tensor.detach())
        return Work(outputs=lists)

    def _each_gathered(self, outputs: Any, inputs: Any, *options: Any) -> Work:
        for output, tensor in zip(outputs, inputs):
            self._gathered(output, tensor)
        return Work(outputs=outputs)

    def _unchanged(self, tensors: Any = (), *others: Any, **options: Any) -> Work:
        return Work(outputs=tensors if isinstance(tensors, list) else [tensors])

    all_gather_single = _allgather_base = _gathered
    allgather, allgather_into_tensor_coalesced = _gathered_in_lists, _each_gathered
    allreduce = allreduce_coalesced = broadcast = reduce = gather = scatter = _unchanged
    reduce_scatter = reduce_scatter_single = _reduce_scatter_base = _unchanged
    reduce_scatter_tensor_coalesced = alltoall = alltoall_base = _unchanged
    send = recv = recv_anysource = barrier = _unchanged
