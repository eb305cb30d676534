"""Meetings of processes at a store."""

from __future__ import annotations

import contextlib
import datetime

from rushlight.distributed._errors import DistStoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rushlight.distributed import Store

_LARGEST_LIST = 16


@contextlib.contextmanager
def store_timeout(store: Store, timeout: float) -> Iterator[None]:
    """A context in which a store waits for so many seconds."""
    before = store.timeout
    store.set_timeout(datetime.timedelta(seconds=timeout))
    try:
        yield
    finally:
        store.set_timeout(before)


def _arrive(store, world_size, key_prefix):
    """Say that this process is here; the key that all wait for."""
    last = f"{key_prefix}/last_member"
    if store.add(f"{key_prefix}/num_members", 1) == world_size:
        store.set(last, "1")
    return last


def get_all(store: Store, rank: int, prefix: str, world_size: int) -> list[bytes]:
    """The values of PREFIX0, PREFIX1 and so on, one of each process.

    Args:
        store: where they are.
        rank: this process; 0 waits until all have them, as the store may be its own.
        prefix: how the keys begin.
        world_size: how many there are.
    """
    values = store.multi_get([f"{prefix}{i}" for i in range(world_size)])
    last = _arrive(store, world_size, f"{prefix}/finished")
    if rank == 0:
        store.wait([last])
    return values


def synchronize(
    store: Store, data: bytes, rank: int, world_size: int, key_prefix: str, timeout: float = 300
) -> list[bytes]:
    """What each process says, in all of them.

    Args:
        store: where they meet.
        data: what this process says.
        rank, world_size: this process, and how many there are.
        key_prefix: how the keys begin; another one for each call.
        timeout: how long to wait for the others, in seconds.
    """
    with store_timeout(store, timeout):
        store.set(f"{key_prefix}{rank}", data)
        return get_all(store, rank, key_prefix, world_size)


def barrier(
    store: Store,
    world_size: int,
    key_prefix: str,
    barrier_timeout: float = 300,
    rank: int | None = None,
    rank_tracing_decoder: Callable[[int], str] | None = None,
    trace_timeout: float = 10,
) -> None:
    """Wait until all processes are here.

    Args:
        store: where they meet.
        world_size: how many there are.
        key_prefix: how the keys begin; another one for each call.
        barrier_timeout: how long to wait, in seconds.
        rank: this process; then an error names those that are missing.
        rank_tracing_decoder: names of processes in messages, by rank.
        trace_timeout: how long those that are here may take to say so after the time-out, in
            seconds.

    Raises:
        DistStoreError: not all came.
    """
    if rank is None and rank_tracing_decoder is not None:
        raise AssertionError("barrier: rank_tracing_decoder needs rank")
    with store_timeout(store, barrier_timeout):
        if rank is not None:
            store.set(f"{key_prefix}{rank}/here", "1")
        try:
            store.wait([_arrive(store, world_size, key_prefix)])
        except DistStoreError:
            if rank is None:
                raise
            missing = _missing(store, world_size, key_prefix, trace_timeout)
            named = [(rank_tracing_decoder or str)(r) for r in missing[:_LARGEST_LIST]]
            raise DistStoreError(
                f"Timed out waiting on barrier on rank {rank}, for key prefix: {key_prefix} "
                f"(world_size={world_size}, missing_ranks=[{', '.join(named)}], "
                f"timeout={barrier_timeout})"
            ) from None


def _missing(store, world_size, key_prefix, seconds):
    """The ranks that have not come."""
    missing = []
    for rank in range(world_size):
        # Who waits for the first has waited for the others.
        wait = datetime.timedelta(seconds=0.001 if missing else seconds)
        try:
            store.wait([f"{key_prefix}{rank}/here"], wait)
        except DistStoreError:
            missing.append(rank)
    return missing


__all__ = ["barrier", "get_all", "store_timeout", "synchronize"]
