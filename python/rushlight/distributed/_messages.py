"""Messages from one rank to another.

A message is its size and dtype, then its bytes, under different tags: so who receives can say what
is wrong before MPI writes anywhere.
"""

from __future__ import annotations

import collections
import itertools
import struct

import rushlight
from rushlight.distributed._agreement import _DTYPES, Call
from rushlight.distributed._collectives import _written, check_tensor, member, root_of
from rushlight.distributed._errors import DistBackendError
from rushlight.distributed._group import resolve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor
    from rushlight.distributed import ProcessGroup

_HEAD = struct.Struct("<qq")
_OF_NUMBER = {number: dtype for dtype, number in _DTYPES.items()}


class _First:
    """Ended once a receive is the first in its line: MPI matches messages in the order of calls."""

    def __init__(self, line: Any, ticket: Any) -> None:
        self._line, self._ticket = line, ticket

    def Test(self) -> bool:
        """Is it?"""
        return self._line[0] == self._ticket


class _FromAny:
    """A request that remembers from whom the message came."""

    def __init__(self, transport: Any, request: Any) -> None:
        self._transport, self._request, self.source = transport, request, None

    def Test(self) -> bool:
        """Has it ended?"""
        self.source = self._transport.source_of(self._request)
        return self.source is not None


_tickets = itertools.count()


def _check_peer(name, found, rank, group_rank, parameter):
    peer = root_of(found, name, rank, group_rank, parameter=parameter)
    if peer == found.rank():
        if found.size() == 1:
            raise ValueError(f"{name}: there is no other process than this one to be rank {peer}")
        raise ValueError(f"Invalid {name} rank: {parameter} must not be this process, rank {peer}")
    return peer


def _check_tag(name, tag):
    limit = (1 << 14) - 1  # messages of GPUs are announced with the next one
    if not isinstance(tag, int) or tag < 0 or tag >= limit:
        raise ValueError(f"{name}: tag must be in the interval [0, {limit}), got {tag!r}")


def isend(
    tensor: Tensor,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_dst: Any = None,
) -> Any:
    """Begin to send a tensor to another rank; it must not change before the Work has ended.

    Args:
        tensor: what to send.
        dst, group_dst: to whom, by its rank in the world or in the group.
        group: the members; all processes by default.
        tag: a number that the receive must have too.

    Returns:
        A Work.
    """
    return _send("isend", tensor, dst, group, tag, group_dst, True)


def send(
    tensor: Tensor,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_dst: Any = None,
) -> None:
    """Send a tensor to another rank, and wait until it can be changed again; see isend."""
    _send("send", tensor, dst, group, tag, group_dst, False)


def _send(name, tensor, dst, group, tag, group_dst, async_op):
    check_tensor(name, tensor)
    found = member(group, name)
    if found is None:
        return None
    if dst is None and group_dst is None and found.size() == 1:
        raise ValueError(f"{name}: there is no other process than this one to be rank {dst}")
    if found.size() == 1 and group_dst is None:
        raise ValueError(f"{name}: there is no other process than this one to be rank {dst}")
    peer = _check_peer(name, found, dst, group_dst, "dst")
    _check_tag(name, tag)
    call = Call(f"{name} to rank {found._ranks[peer]}", tensor)
    if tensor.is_cuda:
        parcel = found.carrier_of_gpus().parcel(tensor.detach(), peer, True)
        return found.run(_gpu_steps(found, [parcel]), call, [tensor], async_op, is_message=True)

    def steps(work):
        plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
        head = _HEAD.pack(_DTYPES[plain.dtype], plain.numel())
        requests = [found._transport.send_bytes(head, peer, 2 * tag)]
        if plain.numel():
            requests += found._transport.send(plain, peer, 2 * tag + 1)
        yield requests

    def derived():
        return found.send([tensor], peer, tag)

    return found.run(steps, call, [tensor], async_op, is_message=True, derived=derived)


def _gpu_steps(found, parcels):
    """What sends and receives tensors of GPUs; NCCL has no tags, messages come in their order."""

    def steps(work):
        yield from found.carrier_of_gpus().parcels(parcels, work, found._ranks, _OF_NUMBER)
        work._source_rank = found._ranks[parcels[0].peer]

    return steps


def irecv(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_src: Any = None,
) -> Any:
    """Begin to receive a tensor from another rank.

    Args:
        tensor: where it goes, of the dtype and number of elements that are sent.
        src, group_src: from whom; from any rank by default.
        group: the members; all processes by default.
        tag: the number that the sender gave.

    Returns:
        A Work.
    """
    return _receive("irecv", tensor, src, group, tag, group_src, True)


def recv(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_src: Any = None,
) -> Any:
    """Receive a tensor from another rank; see irecv.

    Returns:
        The rank that has sent it; -1 in a process that is not in the group.
    """
    work = _receive("recv", tensor, src, group, tag, group_src, True)
    if work is None:
        return -1
    found = resolve(group)
    work.wait(*([found._timeout] if found._is_derived else []))
    return work._source_rank if src is None else src


def _receive(name, tensor, src, group, tag, group_src, async_op):
    check_tensor(name, tensor)
    found = member(group, name)
    if found is None:
        return None
    from_any = src is None and group_src is None
    if found.size() == 1:
        raise ValueError(f"{name}: there is no other process than this one to be rank {src}")
    peer = None if from_any else _check_peer(name, found, src, group_src, "src")
    _check_tag(name, tag)
    who = "any rank" if from_any else f"rank {found._ranks[peer]}"
    call = Call(f"{name} from {who}", tensor)
    (into,) = _written(tensor)
    if tensor.is_cuda:
        parcel = found.carrier_of_gpus().parcel(into, peer, False)
        return found.run(_gpu_steps(found, [parcel]), call, [tensor], async_op, is_message=True)
    lines = found.__dict__.setdefault("_lines", collections.defaultdict(collections.deque))
    line, ticket = lines[peer, tag], next(_tickets)
    line.append(ticket)

    def steps(work):
        transport = found._transport
        yield [_First(line, ticket)]
        head = bytearray(_HEAD.size)
        if from_any:
            request = _FromAny(transport, transport.receive_from_any(head, 2 * tag))
            yield [request]
            source = request.source
        else:
            source = peer
            yield [transport.receive_bytes(head, source, 2 * tag)]
        work._source_rank = found._ranks[source]
        dtype, count = _HEAD.unpack(head)
        if count != into.numel() or dtype != _DTYPES[into.dtype]:
            sent = rushlight.empty(count, dtype=_OF_NUMBER[dtype])
            requests = transport.receive(sent, source, 2 * tag + 1) if count else []
            line.popleft()
            yield requests
            raise DistBackendError(
                f"{work.describe()}: rank {found._ranks[source]} sends {count} elements of "
                f"{str(sent.dtype).partition('.')[2]}"
            )
        staged = into.contiguous()
        requests = transport.receive(staged, source, 2 * tag + 1) if count else []
        line.popleft()
        yield requests
        if staged.data_ptr() != into.data_ptr():
            into.copy_(staged)

    def derived():
        if from_any:
            return found.recv_anysource([tensor], tag)
        return found.recv([tensor], peer, tag)

    return found.run(steps, call, [tensor], async_op, is_message=True, derived=derived)


class P2POp:
    """A send or a receive for `batch_isend_irecv`.

    Args:
        op: isend or irecv.
        tensor: what is sent, or where it goes.
        peer, group_peer: to or from whom, by its rank in the world or in the group.
        group: the members; all processes by default.
        tag: a number that both sides give.
    """

    def __init__(
        self,
        op: Any,
        tensor: Tensor,
        peer: Any = None,
        group: ProcessGroup | None = None,
        tag: int = 0,
        group_peer: Any = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or "
                "``torch.distributed.irecv``."
            )
        check_tensor("P2POp", tensor)
        self.op, self.tensor, self.group, self.tag = op, tensor, group, tag
        found = member(group, "P2POp")
        self.group_peer = root_of(found, "P2POp", peer, group_peer, parameter="peer")
        self.peer = found._ranks[self.group_peer]

    def __repr__(self) -> str:
        return f"P2POp({self.op.__name__}, peer={self.peer}, tag={self.tag})"


def batch_isend_irecv(p2p_op_list: Any) -> Any:
    """Begin several sends and receives, in any order, and return their Works: one for all on GPUs,
    where NCCL begins them together.
    """
    if not p2p_op_list or not all(isinstance(op, P2POp) for op in p2p_op_list):
        raise ValueError(
            "Invalid ``p2p_op_list``. Each op is expected to to be of type "
            "``torch.distributed.P2POp``."
        )
    first = p2p_op_list[0]
    found = member(first.group, "batch_isend_irecv")
    if found is None:
        return []
    if len({one.tensor.device.type for one in p2p_op_list}) > 1:
        raise ValueError("batch_isend_irecv: tensors of the CPU and of GPUs in one list")
    if any(one.group is not first.group for one in p2p_op_list):
        raise ValueError("All ops need to use the same group")
    if not first.tensor.is_cuda:
        return [one.op(one.tensor, one.peer, one.group, one.tag) for one in p2p_op_list]
    gpus, tensors = found.carrier_of_gpus(), [one.tensor for one in p2p_op_list]
    for one in p2p_op_list:
        _check_peer(one.op.__name__, found, None, one.group_peer, "peer")
    parcels = [
        gpus.parcel(
            one.tensor.detach() if one.op is isend else _written(one.tensor)[0],
            one.group_peer,
            one.op is isend,
        )
        for one in p2p_op_list
    ]
    call = Call(f"batch_isend_irecv of {len(parcels)}", first.tensor)
    return [found.run(_gpu_steps(found, parcels), call, tensors, True, is_message=True)]
