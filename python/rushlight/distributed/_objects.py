"""Collective operations on Python objects, by pickle: only for processes that trust each other."""

from __future__ import annotations

import functools
import pickle

import rushlight
from rushlight.distributed import _collectives as collectives, _messages as messages
from rushlight.distributed._process_group import host_tensors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.distributed import ProcessGroup
    from rushlight.types import Device


def _by_the_host(function):
    """Objects travel as bytes of the CPU, in groups of backend "nccl" too."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        with host_tensors():
            return function(*args, **kwargs)

    return wrapper


def _to_tensor(thing, device=None):
    data = pickle.dumps(thing)
    return rushlight.frombuffer(bytearray(data), dtype=rushlight.uint8).to(device)


def _from_tensor(tensor):
    return pickle.loads(memoryview(tensor.cpu().contiguous()))


def _checked(name, device):
    """The device on which the bytes travel: the CPU, or a GPU that is there."""
    device = rushlight.device("cpu" if device is None else device)
    if device.type == "cuda" and rushlight.cuda.is_available():
        return device
    if device.type != "cpu":
        raise RuntimeError(f"{name}: no backend for device {device}")
    return device


def _sizes(found, size):
    sizes = rushlight.empty(found.size(), dtype=rushlight.int64)
    # Into parts: what a group of a program's own class most likely has.
    collectives.all_gather(list(sizes.split(1)), rushlight.tensor([size]), found)
    return sizes.tolist()


@_by_the_host
def all_gather_object(object_list: Any, obj: Any, group: ProcessGroup | None = None) -> None:
    """Gather an object of each member in the list of each.

    Args:
        object_list: has a place for each member.
        obj: this member's; anything that can be pickled.
        group: the members; all processes by default.
    """
    found = collectives.member(group, "all_gather_object")
    if found is None:
        return
    if len(object_list) < found.size():
        raise ValueError(
            f"all_gather_object: object_list has {len(object_list)} places for {found.size()} "
            "members"
        )
    mine = _to_tensor(obj)
    parts = [rushlight.empty(n, dtype=rushlight.uint8) for n in _sizes(found, mine.numel())]
    collectives.all_gather(parts, mine, found)
    for i, part in enumerate(parts):
        object_list[i] = _from_tensor(part)


@_by_the_host
def gather_object(
    obj: Any,
    object_gather_list: Any = None,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    group_dst: Any = None,
) -> None:
    """Gather an object of each member in the list of `dst`; see all_gather_object.

    Args:
        obj: this member's.
        object_gather_list: a place for each member, at `dst`; None elsewhere.
        dst, group_dst: who gets them; rank 0 by default.
        group: the members; all processes by default.
    """
    found = collectives.member(group, "gather_object")
    if found is None:
        return
    root = collectives.root_of(found, "gather_object", dst, group_dst, 0, "dst")
    is_root = found.rank() == root
    if is_root and (object_gather_list is None or len(object_gather_list) < found.size()):
        raise ValueError("gather_object: object_gather_list needs a place for each member")
    if not is_root and object_gather_list:
        raise ValueError("gather_object: object_gather_list must be None but at the destination")
    mine = _to_tensor(obj)
    sizes = _sizes(found, mine.numel())
    padded = rushlight.zeros(max(sizes), dtype=rushlight.uint8)
    padded[: mine.numel()] = mine
    parts = [rushlight.empty_like(padded) for _ in sizes] if is_root else None
    collectives.gather(padded, parts, group=found, group_dst=root)
    for i, part in enumerate(parts or []):
        object_gather_list[i] = _from_tensor(part[: sizes[i]])


@_by_the_host
def broadcast_object_list(
    object_list: Any,
    src: int | None = None,
    group: ProcessGroup | None = None,
    device: Device = None,
    group_src: Any = None,
) -> None:
    """Copy the objects of `src` into the lists of all members.

    Args:
        object_list: the objects, or places for them, equally many in all.
        src, group_src: whose; rank 0 by default.
        group: the members; all processes by default.
        device: where they travel; the CPU by default.
    """
    found = collectives.member(group, "broadcast_object_list")
    if found is None:
        return
    device = _checked("broadcast_object_list", device)
    root = collectives.root_of(found, "broadcast_object_list", src, group_src, 0)
    is_root = found.rank() == root
    parts = [_to_tensor(thing, device) for thing in object_list] if is_root else []
    sizes = rushlight.zeros(len(object_list), dtype=rushlight.int64, device=device)
    if is_root:
        sizes.copy_(rushlight.tensor([part.numel() for part in parts], dtype=rushlight.int64))
    collectives.broadcast(sizes, group=found, group_src=root)
    lengths = sizes.tolist()
    data = rushlight.empty(sum(lengths), dtype=rushlight.uint8, device=device)
    if parts:
        data = rushlight.cat(parts)
    collectives.broadcast(data, group=found, group_src=root)
    if not is_root:
        for i, part in enumerate(data.split(lengths)):
            object_list[i] = _from_tensor(part)


@_by_the_host
def scatter_object_list(
    scatter_object_output_list: Any,
    scatter_object_input_list: Any = None,
    src: int | None = None,
    group: ProcessGroup | None = None,
    group_src: Any = None,
) -> None:
    """Give each member an object of the list of `src`.

    Args:
        scatter_object_output_list: its first place gets this member's object.
        scatter_object_input_list: an object for each member, at `src`; None elsewhere.
        src, group_src: whose; rank 0 by default.
        group: the members; all processes by default.
    """
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError(
            "Expected argument scatter_object_output_list to be a list of size at least 1."
        )
    found = collectives.member(group, "scatter_object_list")
    if found is None:
        return
    root = collectives.root_of(found, "scatter_object_list", src, group_src, 0)
    parts = None
    sizes = rushlight.zeros(found.size(), dtype=rushlight.int64)
    if found.rank() == root:
        if len(scatter_object_input_list or []) != found.size():
            raise ValueError(
                f"scatter_object_list: expected a list of {found.size()} objects, one for each "
                "member"
            )
        parts = [_to_tensor(thing) for thing in scatter_object_input_list]
        sizes.copy_(rushlight.tensor([part.numel() for part in parts]))
    collectives.broadcast(sizes, group=found, group_src=root)
    lengths = sizes.tolist()
    if parts is not None:
        parts = [_padded(part, max(lengths)) for part in parts]
    mine = rushlight.empty(max(lengths), dtype=rushlight.uint8)
    collectives.scatter(mine, parts, group=found, group_src=root)
    scatter_object_output_list[0] = _from_tensor(mine[: lengths[found.rank()]])


def _padded(tensor, length):
    padded = rushlight.zeros(length, dtype=tensor.dtype)
    padded[: tensor.numel()] = tensor
    return padded


@_by_the_host
def send_object_list(
    object_list: Any,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    device: Device = None,
    group_dst: Any = None,
) -> None:
    """Send objects to another rank.

    Args:
        object_list: the objects.
        dst, group_dst: to whom.
        group: the members; all processes by default.
        device: where they travel; the CPU by default.
    """
    device = _checked("send_object_list", device)
    parts = [_to_tensor(thing, device) for thing in object_list]
    sizes = rushlight.tensor([part.numel() for part in parts], dtype=rushlight.int64, device=device)
    messages.send(sizes, dst, group, group_dst=group_dst)
    messages.send(rushlight.cat(parts), dst, group, group_dst=group_dst)


@_by_the_host
def recv_object_list(
    object_list: Any,
    src: int | None = None,
    group: ProcessGroup | None = None,
    device: Device = None,
    group_src: Any = None,
) -> Any:
    """Receive the objects that another rank sends by send_object_list; returns its rank.

    Args:
        object_list: places for them.
        src, group_src: from whom; any rank by default.
        group: the members; all processes by default.
        device: where they travel; the CPU by default.
    """
    device = _checked("recv_object_list", device)
    sizes = rushlight.empty(len(object_list), dtype=rushlight.int64, device=device)
    source = messages.recv(sizes, src, group, group_src=group_src)
    lengths = sizes.tolist()
    data = rushlight.empty(sum(lengths), dtype=rushlight.uint8, device=device)
    messages.recv(data, source, group)
    for i, part in enumerate(data.split(lengths)):
        object_list[i] = _from_tensor(part)
    return source
