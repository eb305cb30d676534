"""How tensors of GPUs travel between the members of a group: by NCCL, as work of streams.

Collectives use a communicator of the whole group; what is sent to one member uses one of two
processes for each direction, which has a stream of its own. So messages and collectives never wait
for each other, in whatever order the processes call them.
"""

from __future__ import annotations

import collections
import itertools
import struct

import rushlight
from rushlight import cuda
from rushlight._C import _cuda
from rushlight.distributed._errors import DistBackendError
from rushlight.distributed._reduction import PremultipliedSum, ReduceOp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from rushlight import Tensor

_ID_BYTES = 128
_ALL_REDUCE, _REDUCE, _BROADCAST, _ALL_GATHER, _REDUCE_SCATTER = range(5)
_OPERATIONS = {
    ReduceOp.SUM: 0, ReduceOp.PRODUCT: 1, ReduceOp.MAX: 2, ReduceOp.MIN: 3, ReduceOp.AVG: 4,
}  # fmt: skip
_HEAD = struct.Struct(f"<qq?{_ID_BYTES}s")  # number of the dtype, elements, and an id or none
HEAD_TAG = 2 * ((1 << 14) - 1)  # no message of the CPU has it


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


def on_own_stream(steps: Iterator[Any], work: Any, stream: cuda.Stream) -> Iterator[Any]:
    """The same steps on a stream of theirs, behind what the caller's was given; the caller's waits
    for the event that `work` then has.
    """
    stream.wait_stream(cuda.current_stream(stream.device))

    def run():
        yield from on_stream(steps, stream)
        work._event = stream.record_event()

    return run()


class _Opening:
    """A request: the members exchange an id, become a communicator and run the first operation."""

    def __init__(self, transport, device, run):
        self._transport, self._device, self._run = transport, device, run
        self._stream, self._opened, self._began = cuda.current_stream(device), None, False
        carrier = transport.carrier
        mine = _cuda.nccl_id() if carrier.rank == 0 else bytes(_ID_BYTES)
        self._gathered, self._requests = carrier.gather_bytes(mine)

    def Test(self) -> bool:  # noqa: N802  as MPI's requests
        """Has it ended? The communicator is made as soon as all have the id."""
        carrier = self._transport.carrier
        if self._opened is None:
            if not carrier.test(self._requests):
                return False
            with cuda.device(self._device):
                self._opened = _cuda.nccl_open(
                    bytes(self._gathered[:_ID_BYTES]), carrier.size, carrier.rank
                )
            self._transport.communicators[self._device] = self._opened
        if not self._began:
            if not _cuda.nccl_is_ready(self._opened):
                return False
            self._began = True
            with cuda.device(self._device), cuda.stream(self._stream):
                self._run(self._opened)
        return _cuda.nccl_is_ready(self._opened)


class _Ready:
    """A request: a communicator takes more work."""

    def __init__(self, communicator: int) -> None:
        self._communicator = communicator

    def Test(self) -> bool:  # noqa: N802  as MPI's requests
        """Does it?"""
        return _cuda.nccl_is_ready(self._communicator)


class _First:
    """A request: a message is the first in its line."""

    def __init__(self, line: Any, ticket: int) -> None:
        self._line, self._ticket = line, ticket

    def Test(self) -> bool:  # noqa: N802  as MPI's requests
        """Is it?"""
        return self._line[0] == self._ticket


_tickets = itertools.count()


class Parcel:
    """A tensor to or from one member, from its place in line to its end.

    Args:
        transport: the group's GpuTransport.
        tensor: what is sent, or where it goes.
        peer: the member; None to receive from any.
        is_sent: or received.
    """

    def __init__(self, transport: GpuTransport, tensor: Tensor, peer: Any, is_sent: bool) -> None:
        self._transport, self._tensor, self.peer, self.is_sent = transport, tensor, peer, is_sent
        self._line, self._ticket = transport.lines[peer, is_sent], next(_tickets)
        self._line.append(self._ticket)
        self._staged: Any = None
        self._device = self.communicator = 0
        self.differs = ""

    def announce(self) -> Iterator[Any]:
        """Steps of a sender: tell the receiver what comes."""
        from rushlight.distributed._agreement import _DTYPES

        transport, new, id = self._transport, False, b""
        yield [_First(self._line, self._ticket)]
        pair = transport.pairs.get((self.peer, True))
        if pair is None:
            new, id, device = True, _cuda.nccl_id(), self._tensor.device.index
            with cuda.device(device):
                pair = device, _cuda.nccl_open(id, 2, 0)
            transport.pairs[self.peer, True] = pair
        self._device, self.communicator = pair
        plain = self._tensor.detach().resolve_conj().resolve_neg()
        self._staged = plain.to(f"cuda:{self._device}").contiguous()
        head = _HEAD.pack(_DTYPES[plain.dtype], plain.numel(), new, id)
        yield [transport.carrier.send_bytes(head, self.peer, HEAD_TAG)]

    def expect(self, of_number: dict[int, rushlight.dtype]) -> Iterator[Any]:
        """Steps of a receiver: hear what comes."""
        transport, head = self._transport, bytearray(_HEAD.size)
        yield [_First(self._line, self._ticket)]
        if self.peer is None:
            request = transport.from_any(head)
            yield [request]
            self.peer = request.source
        else:
            yield [transport.carrier.receive_bytes(head, self.peer, HEAD_TAG)]
        number, count, new, id = _HEAD.unpack(head)
        if new:
            device = self._tensor.device.index
            with cuda.device(device):
                transport.pairs[self.peer, False] = device, _cuda.nccl_open(id, 2, 1)
        self._device, self.communicator = transport.pairs[self.peer, False]
        dtype, wanted = of_number[number], self._tensor
        if (dtype, count) != (wanted.dtype, wanted.numel()):
            self.differs = f"{count} elements of {str(dtype).partition('.')[2]}"
        if self.differs or not wanted.is_contiguous() or wanted.device.index != self._device:
            self._staged = rushlight.empty(count, dtype=dtype, device=f"cuda:{self._device}")
        else:
            self._staged = wanted

    def message(self) -> tuple[int, bool, int, Tensor]:
        """As NCCL takes it: of the two members of a communicator the sender is the first."""
        return self.communicator, self.is_sent, int(self.is_sent), self._staged

    def leave_line(self) -> None:
        """Let the next one begin."""
        self._line.popleft()

    def deliver(self, work: Any, ranks: Sequence[int]) -> None:
        """At the end: bring what was received to where it belongs."""
        if self.is_sent:
            return
        if self.differs:
            raise DistBackendError(
                f"{work.describe()}: rank {ranks[self.peer]} sends {self.differs}"
            )
        if self._staged is not self._tensor:
            self._tensor.copy_(self._staged.view(self._tensor.shape))


class _FromAny:
    """A request that remembers from whom the message came."""

    def __init__(self, carrier: Any, head: bytearray) -> None:
        self._carrier, self.source = carrier, None
        self._request = carrier.receive_from_any(head, HEAD_TAG)

    def Test(self) -> bool:  # noqa: N802  as MPI's requests
        """Has it ended?"""
        self.source = self._carrier.source_of(self._request)
        return self.source is not None


class GpuTransport:
    """The members' GPUs, which NCCL connects; methods are those of MpiTransport.

    Args:
        carrier: the group's transport, by which the members find each other.
        engine: where failures are heard of; communicators end with the first.
    """

    def __init__(self, carrier: Any, engine: Any) -> None:
        self.carrier = carrier
        self.communicators: dict[int, int] = {}
        self.pairs: dict[tuple[int, bool], tuple[int, int]] = {}
        self.lines: Any = collections.defaultdict(collections.deque)
        self._streams: dict[Any, cuda.Stream] = {}
        self._unfinished: list[tuple[Any, Any]] = []
        engine.aborts.append(self.abort)
        self._forget: Callable[[], None] = lambda: engine.aborts.remove(self.abort)

    def stream(self, device: rushlight.device, what: Any) -> cuda.Stream:
        """The stream of collectives, or of messages to or from a member."""
        key = device.index, what
        if key not in self._streams:
            self._streams[key] = cuda.Stream(device)
        return self._streams[key]

    def keep(self, event: Any, tensors: Any) -> None:
        """Hold what work under way reads and writes until it is done."""
        self._unfinished = [kept for kept in self._unfinished if not kept[0].query()]
        self._unfinished.append((event, tensors))

    def release(self, event: Any) -> None:
        """Let go of what was held until an event: a stream that uses it waits for that."""
        self._unfinished = [kept for kept in self._unfinished if kept[0] is not event]

    def _do(self, device: int, run: Callable[[int], None]) -> list[Any]:
        if device not in self.communicators:
            return [_Opening(self, device, run)]
        communicator = self.communicators[device]
        run(communicator)
        return [] if _cuda.nccl_is_ready(communicator) else [_Ready(communicator)]

    def _compute(self, kind, output, input, op, root=0):
        """A reduction."""
        elements, operation, factor = self._elements(input, op)
        into = elements if output is input else self._elements(output, op)[0]

        def run(communicator: int) -> None:
            _cuda.nccl_run(kind, communicator, operation, root, into, elements, factor)

        return self._do(output.device.index, run)

    def _copy(self, kind, output, input, root=0):
        def run(communicator: int) -> None:
            _cuda.nccl_run(kind, communicator, 0, root, output, input, None)

        return self._do(output.device.index, run)

    def _exchange(self, device: rushlight.device, messages: list[Any]) -> list[Any]:
        """Send and receive at once, among all members: (is_sent, peer, tensor)."""

        def run(communicator: int) -> None:
            _cuda.nccl_exchange([(communicator, *one) for one in messages if one[2].numel()])

        return self._do(device.index, run)

    @staticmethod
    def _elements(tensor: Tensor, op: Any) -> tuple[Tensor, int, Tensor | None]:
        """A tensor as NCCL reduces it, the number of the operation, and a factor."""
        if isinstance(op, PremultipliedSum):
            return tensor, 0, rushlight.tensor(float(op.factor), dtype=tensor.dtype)
        if op not in _OPERATIONS:
            raise ValueError(f"Cannot use ReduceOp.{op.name} with NCCL")
        if not tensor.is_complex():
            return tensor, _OPERATIONS[op], None
        if op not in (ReduceOp.SUM, ReduceOp.AVG):
            raise ValueError(f"Cannot use ReduceOp.{op.name} with NCCL for {tensor.dtype}")
        return rushlight.view_as_real(tensor), _OPERATIONS[op], None

    def early(self, tensor: Tensor, op: ReduceOp) -> bool:
        """Begin before the members agree? No."""
        return False

    def all_reduce(self, tensor: Tensor, op: Any, is_begun: bool = False) -> list[Any]:
        """Reduce in place."""
        return self._compute(_ALL_REDUCE, tensor, tensor, op)

    def reduce(self, tensor: Tensor, op: Any, root: int) -> list[Any]:
        """Reduce in place at `root`."""
        return self._compute(_REDUCE, tensor, tensor, op, root)

    def broadcast(self, tensor: Tensor, root: int) -> list[Any]:
        """Copy from `root`."""
        return self._copy(_BROADCAST, tensor, tensor, root)

    def all_gather(self, output: Tensor, tensor: Tensor, counts: Sequence[int]) -> list[Any]:
        """Copy all members' tensors, of `counts` elements, one behind the other."""
        if len(set(counts)) == 1:
            return self._copy(_ALL_GATHER, output, tensor)
        messages = [(True, peer, tensor) for peer in range(self.carrier.size)]
        parts = output.split(list(counts))
        return self._exchange(
            output.device, messages + [(False, peer, part) for peer, part in enumerate(parts)]
        )

    def gather(self, output: Tensor, tensor: Tensor, root: int) -> list[Any]:
        """Copy all members' tensors one behind the other at `root`."""
        messages = [(True, root, tensor)]
        if self.carrier.rank == root:
            parts = output.split(tensor.numel())
            messages += [(False, peer, part) for peer, part in enumerate(parts)]
        return self._exchange(tensor.device, messages)

    def scatter(self, output: Tensor, tensor: Tensor, root: int) -> list[Any]:
        """Copy the parts of the tensor of `root` to the members."""
        messages = [(False, root, output)]
        if self.carrier.rank == root:
            parts = tensor.split(output.numel())
            messages += [(True, peer, part) for peer, part in enumerate(parts)]
        return self._exchange(output.device, messages)

    def all_to_all(
        self,
        output: Tensor,
        tensor: Tensor,
        output_counts: Sequence[int],
        input_counts: Sequence[int],
    ) -> list[Any]:
        """Copy part i of each member's tensor to member i."""
        sent, received = tensor.split(list(input_counts)), output.split(list(output_counts))
        messages = [(True, peer, part) for peer, part in enumerate(sent)]
        return self._exchange(
            output.device, messages + [(False, peer, part) for peer, part in enumerate(received)]
        )

    def reduce_scatter(
        self, output: Tensor, tensor: Tensor, op: Any, counts: Sequence[int]
    ) -> list[Any]:
        """Reduce, and copy the parts, of `counts` elements, to the members."""
        if len(set(counts)) == 1:
            return self._compute(_REDUCE_SCATTER, output, tensor, op)
        parts = [self._elements(part, op) for part in tensor.split(list(counts))]
        own = self._elements(output, op)[0]

        def run(communicator: int) -> None:
            for member, (part, operation, factor) in enumerate(parts):
                into = own if member == self.carrier.rank else part  # written at `member` alone
                if part.numel():
                    _cuda.nccl_run(_REDUCE, communicator, operation, member, into, part, factor)

        return self._do(output.device.index, run)

    def from_any(self, head: bytearray) -> _FromAny:
        """A request for the head of a message of any member."""
        return _FromAny(self.carrier, head)

    def parcel(self, tensor: Tensor, peer: Any, is_sent: bool) -> Parcel:
        """A tensor for a member, or from one, with its place in line."""
        return Parcel(self, tensor, peer, is_sent)

    def parcels(
        self, parcels: list[Parcel], work: Any, ranks: Sequence[int], of_number: Any
    ) -> Iterator[Any]:
        """Steps that send and receive, all at once."""
        for parcel in parcels:
            if parcel.is_sent:
                yield from parcel.announce()
        for parcel in parcels:
            if not parcel.is_sent:
                yield from parcel.expect(of_number)
        for parcel in parcels:
            yield [_Ready(parcel.communicator)]
        messages = [parcel.message() for parcel in parcels]
        for device in {message[3].device.index for message in messages}:
            _cuda.nccl_exchange([m for m in messages if m[3].device.index == device])
        for parcel in parcels:
            parcel.leave_line()
        for parcel in parcels:
            yield [_Ready(parcel.communicator)]
            parcel.deliver(work, ranks)

    def split(self, color: int, key: int) -> dict[int, int]:
        """Communicators of a part of the group, which all members make: those with this `color`."""
        parts = {}
        for device, communicator in self.communicators.items():
            with cuda.device(device):
                part = _cuda.nccl_split(communicator, color, key)
            if part:
                parts[device] = part
        return parts

    def _taken(self):
        """The communicators, which are no longer to be used."""
        taken = list(self.communicators.values()) + [c for _, c in self.pairs.values()]
        self.communicators, self.pairs = {}, {}
        return taken

    def abort(self) -> None:
        """End the communicators, and what waits in them for members that will not come."""
        for communicator in self._taken():
            _cuda.nccl_abort(communicator)

    def close(self) -> None:
        """End the communicators, once their work is done."""
        for stream in self._streams.values():
            stream.synchronize()
        self._unfinished = []
        for communicator in self._taken():
            _cuda.nccl_close(communicator)
        self._forget()
