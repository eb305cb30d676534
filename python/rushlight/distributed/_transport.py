"""How tensors travel between the members of a group: by MPI, or not at all in a group of one.

All tensors here are contiguous. Methods begin something and return the requests that must end.
"""

from __future__ import annotations

from rushlight.distributed._reduction import kernel, mpi_name
from rushlight.distributed._shared_memory import SharedMemory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor

_CHUNK_BYTES = 1 << 30  # MPI's older functions count in 31 bits


class Alone:
    """A group of one member: what is sent is received."""

    rank, size = 0, 1
    memory = None
    needs_polling = False

    def test(self, requests: Any) -> bool:
        """Have all requests ended? There are none."""
        return True

    def gather_bytes(self, data: Any) -> Any:
        """The bytes of all members, and requests."""
        return bytearray(data), []

    def early(self, tensor: Tensor, op: Any) -> bool:
        """Begin an all_reduce before the members agree on it? There is nothing to do."""
        return False

    def all_reduce(self, tensor: Tensor, op: Any, is_begun: bool = False) -> Any:
        """Reduce in place."""
        return []

    def reduce(self, tensor: Tensor, op: Any, root: Any) -> Any:
        """Reduce in place at `root`."""
        return []

    def broadcast(self, tensor: Tensor, root: Any) -> Any:
        """Copy from `root`."""
        return []

    def all_gather(self, output: Any, tensor: Tensor, counts: Any) -> Any:
        """Copy all members' tensors one behind the other."""
        output.copy_(tensor)
        return []

    def gather(self, output: Any, tensor: Tensor, root: Any) -> Any:
        """Copy all members' tensors one behind the other at `root`."""
        output.copy_(tensor)
        return []

    def scatter(self, output: Any, tensor: Tensor, root: Any) -> Any:
        """Copy the parts of the tensor of `root` to the members."""
        output.copy_(tensor)
        return []

    def reduce_scatter(self, output: Any, tensor: Tensor, op: Any, counts: Any) -> Any:
        """Reduce, and copy the parts to the members."""
        output.copy_(tensor)
        return []

    def all_to_all(self, output: Any, tensor: Tensor, output_counts: Any, input_counts: Any) -> Any:
        """Copy part i of each member's tensor to member i."""
        output.copy_(tensor)
        return []

    def barrier(self) -> Any:
        """Wait for all."""
        return []


class Apart(Alone):
    """A group whose tensors the methods of a program's own class carry.

    Args:
        rank: this process's number.
        size: how many members there are.
    """

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size


class MpiTransport:
    """A group whose members MPI connects.

    Args:
        mpi: the module mpi4py.MPI.
        communicator: MPI's group.
        hosts: the members' machines. On a single one, large tensors go through shared memory.
    """

    def __init__(self, mpi: Any, communicator: Any, hosts: Any) -> None:
        self._mpi, self.communicator, self._hosts = mpi, communicator, list(hosts)
        self.rank, self.size = communicator.rank, communicator.size
        self.memory = SharedMemory(self)
        self.memory.is_refused = len(set(self._hosts)) > 1

    @property
    def needs_polling(self) -> Any:
        """Do bytes move only while somebody looks? MPI moves a piece of a message each time."""
        return self.memory.is_refused

    def _bytes_of(self, tensor):
        count = tensor.numel() * tensor.element_size()
        return self._mpi.memory.fromaddress(tensor.data_ptr() if count else 0, count)

    def _buffer(self, tensor):
        """A tensor as MPI's elements, for reductions."""
        return [self._bytes_of(tensor), getattr(self._mpi, mpi_name(tensor.dtype))]

    def _parts(self, tensor, counts):
        """A tensor as bytes in parts of so many elements."""
        size = tensor.element_size()
        starts, at = [], 0
        for count in counts:
            starts.append(at)
            at += count * size
        return [self._bytes_of(tensor), [c * size for c in counts], starts, self._mpi.BYTE]

    @staticmethod
    def _chunks(tensor):
        """A flat tensor in pieces that every MPI can count."""
        flat = tensor.view(-1)
        step = _CHUNK_BYTES // max(1, tensor.element_size())
        return flat.split(step) if flat.numel() > step else (flat,)

    def test(self, requests: Any) -> Any:
        """Have all requests ended?"""
        if len(requests) == 1:
            return requests[0].Test()
        return not requests or self._mpi.Request.Testall(requests)

    def gather_bytes(self, data: Any) -> Any:
        """The bytes of all members, and requests."""
        gathered = bytearray(len(data) * self.size)
        return gathered, [self.communicator.Iallgather(data, gathered)]

    def early(self, tensor: Tensor, op: Any) -> Any:
        """Begin an all_reduce before the members agree on it, if that can be."""
        return not self.memory.is_refused and self.memory.early(tensor, op)

    def all_reduce(self, tensor: Tensor, op: Any, is_begun: bool = False) -> Any:
        """Reduce in place; `is_begun`: what `early` said."""
        return self.memory.begin(
            tensor.numel() * tensor.element_size(),
            lambda: self.memory.all_reduce(tensor, op, is_begun),
            lambda: self._all_reduce(tensor, op),
        )

    def _all_reduce(self, tensor, op):
        op = kernel(self._mpi, tensor.dtype, op)
        return [
            self.communicator.Iallreduce(self._mpi.IN_PLACE, self._buffer(part), op)
            for part in self._chunks(tensor)
        ]

    def reduce(self, tensor: Tensor, op: Any, root: Any) -> Any:
        """Reduce in place at `root`."""
        op = kernel(self._mpi, tensor.dtype, op)
        return [
            self.communicator.Ireduce(self._mpi.IN_PLACE, self._buffer(part), op, root)
            if self.rank == root
            else self.communicator.Ireduce(self._buffer(part), None, op, root)
            for part in self._chunks(tensor)
        ]

    def broadcast(self, tensor: Tensor, root: Any) -> Any:
        """Copy from `root`."""
        return self.memory.begin(
            tensor.numel() * tensor.element_size(),
            lambda: self.memory.broadcast(tensor, root),
            lambda: self._broadcast(tensor, root),
        )

    def _broadcast(self, tensor, root):
        return [
            self.communicator.Ibcast([self._bytes_of(part), self._mpi.BYTE], root)
            for part in self._chunks(tensor)
        ]

    def all_gather(self, output: Any, tensor: Tensor, counts: Any) -> Any:
        """Copy all members' tensors, of `counts` elements, one behind the other."""
        return self.memory.begin(
            output.numel() * output.element_size(),
            lambda: self.memory.all_gather(output, tensor, counts),
            lambda: self._all_gather(output, tensor, counts),
        )

    def _all_gather(self, output, tensor, counts):
        send = [self._bytes_of(tensor), self._mpi.BYTE]
        if len(set(counts)) == 1:
            receive = [self._bytes_of(output), self._mpi.BYTE]
            return [self.communicator.Iallgather(send, receive)]
        return [self.communicator.Iallgatherv(send, self._parts(output, counts))]

    def gather(self, output: Any, tensor: Tensor, root: Any) -> Any:
        """Copy all members' tensors one behind the other at `root`."""
        receive = [self._bytes_of(output), self._mpi.BYTE] if self.rank == root else None
        send = [self._bytes_of(tensor), self._mpi.BYTE]
        return [self.communicator.Igather(send, receive, root)]

    def scatter(self, output: Any, tensor: Tensor, root: Any) -> Any:
        """Copy the parts of the tensor of `root` to the members."""
        send = [self._bytes_of(tensor), self._mpi.BYTE] if self.rank == root else None
        receive = [self._bytes_of(output), self._mpi.BYTE]
        return [self.communicator.Iscatter(send, receive, root)]

    def reduce_scatter(self, output: Any, tensor: Tensor, op: Any, counts: Any) -> Any:
        """Reduce, and copy the parts, of `counts` elements, to the members."""
        return self.memory.begin(
            tensor.numel() * tensor.element_size(),
            lambda: self.memory.reduce_scatter(output, tensor, op, counts),
            lambda: self._reduce_scatter(output, tensor, op, counts),
        )

    def _reduce_scatter(self, output, tensor, op, counts):
        op = kernel(self._mpi, tensor.dtype, op)
        send, receive = self._buffer(tensor), self._buffer(output)
        if len(set(counts)) == 1:
            return [self.communicator.Ireduce_scatter_block(send, receive, op)]
        return [self.communicator.Ireduce_scatter(send, receive, list(counts), op)]

    def all_to_all(self, output: Any, tensor: Tensor, output_counts: Any, input_counts: Any) -> Any:
        """Copy part i of each member's tensor to member i."""
        send, receive = self._parts(tensor, input_counts), self._parts(output, output_counts)
        return [self.communicator.Ialltoallv(send, receive)]

    def barrier(self) -> Any:
        """Wait for all."""
        return [self.communicator.Ibarrier()]

    def send_bytes(self, data: Any, to: Any, tag: Any) -> Any:
        """Send bytes to a member."""
        return self.communicator.Isend([data, self._mpi.BYTE], to, tag)

    def receive_bytes(self, data: Any, source: Any, tag: Any) -> Any:
        """Receive bytes from a member."""
        return self.communicator.Irecv([data, self._mpi.BYTE], source, tag)

    def send(self, tensor: Tensor, to: Any, tag: Any) -> Any:
        """Send a tensor to a member."""
        return [self.send_bytes(self._bytes_of(p), to, tag) for p in self._chunks(tensor)]

    def receive(self, tensor: Tensor, source: Any, tag: Any) -> Any:
        """Receive a tensor from a member."""
        return [self.receive_bytes(self._bytes_of(p), source, tag) for p in self._chunks(tensor)]

    def receive_from_any(self, data: Any, tag: Any) -> Any:
        """Receive bytes from any member: a request, and a function that says from whom."""
        request = self.communicator.Irecv([data, self._mpi.BYTE], self._mpi.ANY_SOURCE, tag)
        return request

    def source_of(self, request: Any) -> Any:
        """Has a request ended, and from whom did the message come? None as long as it has not."""
        status = self._mpi.Status()
        return status.Get_source() if request.Test(status) else None

    def part(self, ranks: Any, tag: Any) -> Any:
        """The transport of some members of this group, for those alone."""
        group = self.communicator.Get_group().Incl(ranks)
        hosts = [self._hosts[rank] for rank in ranks]
        return MpiTransport(self._mpi, self.communicator.Create_group(group, tag), hosts)
