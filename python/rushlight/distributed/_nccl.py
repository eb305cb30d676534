"""How tensors of GPUs travel between the members of a group: by NCCL, on the caller's stream."""

from __future__ import annotations

import rushlight
from rushlight import cuda
from rushlight._C import _cuda
from rushlight.distributed._reduction import ReduceOp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from rushlight import Tensor

_ID_BYTES = 128
_ALL_REDUCE, _REDUCE, _BROADCAST, _ALL_GATHER, _REDUCE_SCATTER = range(5)
_OPERATIONS = {ReduceOp.SUM: 0, ReduceOp.PRODUCT: 1, ReduceOp.MAX: 2, ReduceOp.MIN: 3}


def is_available() -> bool:
    """Are there a GPU and NCCL?"""
    return _cuda.nccl_is_available()


def on_stream(steps: Iterator[Any], stream: cuda.Stream) -> Iterator[Any]:
    """The same steps, each with the stream that was current when the operation was called."""
    while True:
        with cuda.stream(stream):
            try:
                requests = next(steps)
            except StopIteration:
                return
        yield requests


class _Opening:
    """A request: the members exchange an id, become a communicator and run the first operation."""

    def __init__(self, transport, device, run):
        self._transport, self._device, self._run = transport, device, run
        self._stream = cuda.current_stream(device)
        carrier = transport.carrier
        mine = _cuda.nccl_id() if carrier.rank == 0 else bytes(_ID_BYTES)
        self._gathered, self._requests = carrier.gather_bytes(mine)

    def Test(self) -> bool:  # noqa: N802  as MPI's requests
        """Has it ended? The communicator is made as soon as all have the id."""
        carrier = self._transport.carrier
        if not carrier.test(self._requests):
            return False
        with cuda.device(self._device), cuda.stream(self._stream):
            opened = _cuda.nccl_open(bytes(self._gathered[:_ID_BYTES]), carrier.size, carrier.rank)
            self._transport.communicators[self._device] = opened
            self._run(opened)
        return True


class GpuTransport:
    """The members' GPUs, which NCCL connects; methods are those of MpiTransport.

    Args:
        carrier: the group's transport, by which the members find each other.
    """

    def __init__(self, carrier: Any) -> None:
        self.carrier = carrier
        self.communicators: dict[int, int] = {}

    def _do(self, kind: int, output: Tensor, input: Tensor, operation: int = 0, root: int = 0):
        device = output.device.index

        def run(communicator: int) -> None:
            _cuda.nccl_run(kind, communicator, operation, root, output, input)

        if device not in self.communicators:
            return [_Opening(self, device, run)]
        run(self.communicators[device])
        return []

    @staticmethod
    def _elements(tensor: Tensor, op: ReduceOp) -> tuple[Tensor, int]:
        """A tensor as NCCL reduces it, and the number of the operation."""
        if op not in _OPERATIONS:
            raise NotImplementedError(f"NCCL has no reduction {op.name}; tensors of the CPU have")
        if not tensor.is_complex():
            return tensor, _OPERATIONS[op]
        if op is not ReduceOp.SUM:
            raise NotImplementedError(f"NCCL has no reduction {op.name} of {tensor.dtype}")
        return rushlight.view_as_real(tensor), _OPERATIONS[op]

    def early(self, tensor: Tensor, op: ReduceOp) -> bool:
        """Begin before the members agree? No."""
        return False

    def all_reduce(self, tensor: Tensor, op: ReduceOp, is_begun: bool = False) -> list[Any]:
        """Reduce in place."""
        elements, operation = self._elements(tensor, op)
        return self._do(_ALL_REDUCE, elements, elements, operation)

    def reduce(self, tensor: Tensor, op: ReduceOp, root: int) -> list[Any]:
        """Reduce in place at `root`."""
        elements, operation = self._elements(tensor, op)
        return self._do(_REDUCE, elements, elements, operation, root)

    def broadcast(self, tensor: Tensor, root: int) -> list[Any]:
        """Copy from `root`."""
        return self._do(_BROADCAST, tensor, tensor, root=root)

    @staticmethod
    def _check_counts(counts: Sequence[int], name: str) -> None:
        if len(set(counts)) > 1:
            raise NotImplementedError(f"{name}: parts of different sizes on GPUs: {list(counts)}")

    def all_gather(self, output: Tensor, tensor: Tensor, counts: Sequence[int]) -> list[Any]:
        """Copy all members' tensors one behind the other."""
        self._check_counts(counts, "all_gather")
        return self._do(_ALL_GATHER, output, tensor)

    def gather(self, output: Tensor, tensor: Tensor, root: int) -> list[Any]:
        """The same at `root`; the others get room of their own for it."""
        size = self.carrier.size * tensor.numel()
        if output.numel() != size:
            output = tensor.new_empty(size)
        return self._do(_ALL_GATHER, output, tensor)

    def reduce_scatter(
        self, output: Tensor, tensor: Tensor, op: ReduceOp, counts: Sequence[int]
    ) -> list[Any]:
        """Reduce, and copy the parts to the members."""
        self._check_counts(counts, "reduce_scatter")
        whole, operation = self._elements(tensor, op)
        return self._do(_REDUCE_SCATTER, self._elements(output, op)[0], whole, operation)

    def close(self) -> None:
        """End the communicators."""
        while self.communicators:
            _cuda.nccl_close(self.communicators.popitem()[1])
