"""Large tensors between processes of one machine: each process has a segment of memory which the
others see, and computes its part of a result from theirs.

MPI moves a large message only while somebody polls, a piece in each poll. Here each poll does all
that can be done: 1 MB is reduced in three phases, however rarely the processes get a processor.
A chunk of the tensor passes through stages ("copy in", "reduce my part", "copy out"); in phase p,
chunk c is in stage p - c, and MPI's barrier separates phases.
"""

from __future__ import annotations

import mmap
import os
import uuid

import rushlight
from rushlight.distributed._reduction import IN_PLACE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from rushlight import Tensor

SMALLEST = 1 << 15  # bytes; below, MPI is as fast
CHUNK_BYTES = 1 << 22
_BUFFERS = 3  # as many as a chunk has stages: it is read until its last one has ended
_NAME_BYTES = 96
_CACHED_ELEMENTS = 1 << 16


class _Segment:
    """A process's memory: buffers of one chunk each."""

    def __init__(self, file: Any, size: Any) -> None:
        self.map = mmap.mmap(file, size)

    def view(self, buffer: Any, start: Any, count: Any, dtype: rushlight.dtype) -> Any:
        """Elements of a buffer as a tensor."""
        offset = buffer * CHUNK_BYTES + start * dtype.itemsize
        return rushlight.frombuffer(self.map, dtype=dtype, count=count, offset=offset)


def view_of(segment: Any, count: Any, dtype: rushlight.dtype) -> Any:
    """The first elements of a segment as a tensor."""
    return rushlight.frombuffer(segment.map, dtype=dtype, count=count)


class Running:
    """A request, as MPI's are, of which each test goes on with a generator of requests."""

    def __init__(self, transport: Any, steps: Any) -> None:
        self._transport, self._steps, self._waiting = transport, steps, ()

    def Test(self) -> bool:
        """Has it ended?"""
        try:
            while self._transport.test(self._waiting):
                self._waiting = next(self._steps)
        except StopIteration:
            self._waiting = ()
            return True
        return False


class SharedMemory:
    """The segments of all members of a group; made when they are first needed.

    Args:
        transport: what carries the members' names for their segments, and their barriers.
    """

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._segments = None
        self._first = 0  # buffer of the next collective's first chunk
        self.is_refused = False  # by the operating system, in at least one member

    # ------------------------------------------------------------ segments

    def _open(self):
        """Steps that make the segments of the group."""
        self._segments = yield from self.segments(_BUFFERS * CHUNK_BYTES)
        self.is_refused = self._segments is None

    def segments(self, size: Any) -> Iterator[Any]:
        """Steps that let all members see each other's memory of so many bytes; None: refused."""
        transport = self._transport
        token = uuid.uuid4().bytes
        file, name = None, b""
        try:
            file = os.memfd_create("rushlight")  # no file that could be left behind
            os.posix_fallocate(file, 0, size)  # without memory: an error, not a signal later
            os.pwrite(file, token, 0)
            name = f"/proc/{os.getpid()}/fd/{file}".encode() + b"\0" + token
        except OSError:
            name = b""  # which all get to know
        gathered, requests = transport.gather_bytes(name.ljust(_NAME_BYTES, b"\1"))
        yield requests
        found = []
        for rank in range(transport.size):
            entry = bytes(gathered[rank * _NAME_BYTES : (rank + 1) * _NAME_BYTES])
            found.append(self._segment_of(entry, size))
        good = all(segment is not None for segment in found)
        answers, requests = transport.gather_bytes(b"\1" if good else b"\0")
        yield requests
        if file is not None:
            os.close(file)
        return found if all(answers) else None

    @staticmethod
    def _segment_of(entry, size):
        path, separator, rest = entry.partition(b"\0")
        if not separator:
            return None
        try:
            file = os.open(path, os.O_RDWR)
        except OSError:  # another user's process, or one in another container
            return None
        try:
            if os.pread(file, 16, 0) != rest[:16]:
                return None
            return _Segment(file, size)
        finally:
            os.close(file)

    def begin(self, nbytes: Any, steps: Any, otherwise: Any) -> Any:
        """A list of one request for a collective.

        Args:
            nbytes: the size of a tensor, the same in all members.
            steps: a function that makes the generator of the phases.
            otherwise: a function that makes MPI's requests, for small tensors.
        """
        if nbytes < SMALLEST or self.is_refused:
            return otherwise()

        def whole():
            if self._segments is None:
                yield from self._open()
            if self.is_refused:
                yield otherwise()
            else:
                yield from steps()

        return [Running(self._transport, whole())]

    # ------------------------------------------------------------ phases

    def _run(self, chunks, is_begun=False):
        """Phases of chunks, each a list of functions of a buffer's number.

        Args:
            is_begun: the first stage of the first chunk is done, and all members know.
        """
        first = self._first
        # Others may still read the last chunk when this process begins the next collective.
        self._first += len(chunks)
        for phase in range(int(is_begun), len(chunks) + max(map(len, chunks)) - 1):
            if phase > is_begun:
                yield self._transport.barrier()
            for number in range(max(0, phase - _BUFFERS + 1), min(phase + 1, len(chunks))):
                stages = chunks[number]
                if phase - number < len(stages):
                    stages[phase - number]((first + number) % _BUFFERS)

    def _others(self):
        size, rank = self._transport.size, self._transport.rank
        return [(rank + i) % size for i in range(1, size)]

    def all_reduce_in_place(self, tensors: Sequence[Tensor], factor: Any) -> Iterator[Any]:
        """Steps that make tensors, one of each member in memory that all see, their sum. All
        members have to be here.

        Args:
            tensors: of one dim, in the order of the members.
            factor: by which each is multiplied first.
        """
        me, size = self._transport.rank, self._transport.size
        share = -(-tensors[0].numel() // size)

        def part(rank, owner):
            return tensors[rank][owner * share : (owner + 1) * share].split(_CACHED_ELEMENTS)

        for own, *others in zip(*(part(rank, me) for rank in (me, *self._others()))):
            own.mul_(factor)
            for other in others:
                own.add_(other, alpha=factor)
            for other in others:  # while the piece is in the cache
                other.copy_(own)
        # Everyone has written everything; nobody reads or writes another's memory until all have
        # begun the next reduction.
        yield self._transport.barrier()

    def _reduce_into(self, own, op, buffer, start):
        """Combine the others' elements with one's own, in the order of the ranks after it."""
        for rank in self._others():
            other = self._segments[rank].view(buffer, start, own.numel(), own.dtype)
            IN_PLACE[op](own, other)

    def early(self, tensor: Tensor, op: Any) -> bool:
        """Copy in the first chunk of an all_reduce, before the members agree on it: one phase
        less. Was it done?
        """
        if self._segments is None or tensor.numel() * tensor.element_size() < SMALLEST:
            return False
        piece = tensor.view(-1)[: CHUNK_BYTES // tensor.element_size()]
        self._stages_of_all_reduce(piece, op)[0](self._first % _BUFFERS)
        return True

    def all_reduce(self, tensor: Tensor, op: Any, is_begun: Any) -> Iterator[Any]:
        """Steps that reduce in place: each member its part of a chunk, which the others copy."""
        pieces = tensor.view(-1).split(CHUNK_BYTES // tensor.element_size())
        chunks = [self._stages_of_all_reduce(piece, op) for piece in pieces]
        yield from self._run(chunks, is_begun)

    def _stages_of_all_reduce(self, piece, op):
        size, me, dtype = self._transport.size, self._transport.rank, piece.dtype
        mine = self._segments[me]
        share = -(-piece.numel() // size)
        parts = piece.split(share)
        parts += (piece[:0],) * (size - len(parts))

        def copy_in(buffer):
            for rank in self._others():
                if parts[rank].numel():
                    part = parts[rank]
                    mine.view(buffer, rank * share, part.numel(), dtype).copy_(part)

        def reduce(buffer):
            own = parts[me]
            if own.numel():
                self._reduce_into(own, op, buffer, me * share)
                mine.view(buffer, me * share, own.numel(), dtype).copy_(own)

        def copy_out(buffer):
            for rank in self._others():
                part = parts[rank]
                if part.numel():
                    whole = self._segments[rank]
                    part.copy_(whole.view(buffer, rank * share, part.numel(), dtype))

        return copy_in, reduce, copy_out

    def reduce_scatter(self, output: Any, tensor: Tensor, op: Any, counts: Any) -> Iterator[Any]:
        """Steps that give each member its part, of `counts` elements, of the reduced tensor."""
        size, me, dtype = self._transport.size, self._transport.rank, tensor.dtype
        parts, into = tensor.view(-1).split(list(counts)), output.view(-1)
        mine = self._segments[me]
        step = CHUNK_BYTES // dtype.itemsize // size

        def stages(begin):
            pieces = [part[begin : begin + step] for part in parts]

            def copy_in(buffer):
                for rank in self._others():
                    if pieces[rank].numel():
                        piece = pieces[rank]
                        mine.view(buffer, rank * step, piece.numel(), dtype).copy_(piece)

            def reduce(buffer):
                own = into[begin : begin + step]
                if own.numel():
                    own.copy_(pieces[me])
                    self._reduce_into(own, op, buffer, me * step)

            return copy_in, reduce

        yield from self._run([stages(begin) for begin in range(0, max(counts), step)])

    def all_gather(self, output: Any, tensor: Tensor, counts: Any) -> Iterator[Any]:
        """Steps that copy all members' tensors, of `counts` elements, one behind the other."""
        me, dtype = self._transport.rank, tensor.dtype
        parts, own = output.view(-1).split(list(counts)), tensor.view(-1)
        mine = self._segments[me]
        step = CHUNK_BYTES // dtype.itemsize

        def stages(begin):
            piece = own[begin : begin + step]

            def copy_in(buffer):
                if piece.numel():
                    mine.view(buffer, 0, piece.numel(), dtype).copy_(piece)
                    parts[me][begin : begin + step].copy_(piece)

            def copy_out(buffer):
                for rank in self._others():
                    into = parts[rank][begin : begin + step]
                    if into.numel():
                        into.copy_(self._segments[rank].view(buffer, 0, into.numel(), dtype))

            return copy_in, copy_out

        yield from self._run([stages(begin) for begin in range(0, max(counts), step)])

    def broadcast(self, tensor: Tensor, root: Any) -> Iterator[Any]:
        """Steps that copy the tensor of `root`."""
        dtype, is_root = tensor.dtype, self._transport.rank == root
        source = self._segments[root]
        step = CHUNK_BYTES // dtype.itemsize

        def stages(piece):
            def view(buffer):
                return source.view(buffer, 0, piece.numel(), dtype)

            def copy_in(buffer):
                if is_root:
                    view(buffer).copy_(piece)

            def copy_out(buffer):
                if not is_root:
                    piece.copy_(view(buffer))

            return copy_in, copy_out

        yield from self._run([stages(piece) for piece in tensor.view(-1).split(step)])
