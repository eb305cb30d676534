"""Making processes one world of MPI, however they were started, and taking leave of it."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib
import importlib.util
import json
import multiprocessing.util
import os
import time
import uuid

from rushlight.distributed._engine import Engine
from rushlight.distributed._errors import DistBackendError, DistStoreError
from rushlight.distributed._member import Member, host_name, reason_for_end
from rushlight.distributed._mpi_import import used_by_groups
from rushlight.distributed._stores import PrefixStore, seconds_of
from rushlight.distributed._table import Request
from rushlight.distributed._tcp_store import TCPStore
from rushlight.distributed._transport import Alone, MpiTransport

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Any

_EXTRA = 'pip install "rushlight[mpi]"'
_PMI_VARIABLES = ("PMI_FD", "PMI_PORT", "PMI_ID", "PMI_RANK", "PMI_SIZE", "PMI_SPAWNED")
_joined = None  # (name, rank, size) of the one world of MPI that this process is in


def load_mpi() -> Any:
    """The module mpi4py.MPI, MPI not yet started.

    Raises:
        ImportError: it is not installed; the message names the extra.
    """
    try:
        mpi4py = importlib.import_module("mpi4py")
        mpi4py.rc.initialize = mpi4py.rc.finalize = False
        return importlib.import_module("mpi4py.MPI")
    except ImportError as error:
        raise ImportError(
            "init_process_group: several processes exchange tensors by MPI, and mpi4py is not "
            f"installed: {_EXTRA} brings it and an MPI"
        ) from error
    except RuntimeError as error:
        raise ImportError(
            f"init_process_group: mpi4py finds no MPI library; {_EXTRA} brings one, or name yours "
            f"in MPI4PY_LIBMPI: {error}"
        ) from error


def has_mpi() -> bool:
    """Is mpi4py installed?"""
    return importlib.util.find_spec("mpi4py") is not None


class World:
    """All ranks of a run, and what this process has for talking to them.

    Args:
        transport: what carries tensors among all ranks.
        store: where small values are exchanged.
        engine: what makes operations go on.
    """

    def __init__(self, transport: Any, store: Any, engine: Any, hosts: Any) -> None:
        self.transport, self.store, self.engine, self.hosts = transport, store, engine, hosts
        self.finalize = None
        self._left = False

    def leave(self, why: Any, failed: bool = False) -> None:
        """Tell the others that this rank takes part no more."""
        if self._left or self.engine.member is None:
            return
        self._left = True
        self.engine.member.leave(why, failed or self.engine.failure is not None)


def alone(store: Any) -> Any:
    """A world of this process."""
    return World(Alone(), store, Engine(), [host_name()])


def by_launcher(place: Any, timeout: timedelta | None) -> Any:
    """The world that an MPI launcher made, and this process's rank in it."""
    mpi = _start_mpi()
    communicator = mpi.COMM_WORLD
    rank, size = communicator.rank, communicator.size
    if size != place.world_size:
        raise DistBackendError(
            f"init_process_group: {place.launcher} says that there are {place.world_size} "
            f"processes, and MPI sees {size}: mpi4py uses another MPI than the one that started "
            "this program"
        )
    hosts = communicator.allgather(host_name())
    address = "127.0.0.1" if len(set(hosts)) == 1 else hosts[0]
    store = None
    if rank == 0:
        store = TCPStore(address, 0, is_master=True, timeout=timeout, wait_for_workers=False)
    address, port, name = communicator.bcast(
        (address, store.port, uuid.uuid4().hex) if rank == 0 else None
    )
    if rank == 0:
        _open_world(store, name, size)
    else:
        store = TCPStore(address, port, timeout=timeout, wait_for_workers=False)
    communicator.Barrier()
    seconds = seconds_of(timeout)
    member = Member(address, port, name, rank, seconds, server_rank=0)
    if not member.wait_for_all(seconds):
        raise DistBackendError(f"init_process_group: {member.failure or 'no answer'}")
    transport = MpiTransport(mpi, communicator.Dup(), hosts)
    world = World(transport, store, Engine(member), member.hosts)
    world.finalize = mpi.Finalize
    _take_leave_at_end(world)
    return world, rank, size


def _library():
    """The MPI library that mpi4py has loaded."""
    with open("/proc/self/maps") as maps:
        paths = {line.split(maxsplit=5)[5].strip() for line in maps if "/" in line}
    found = [path for path in sorted(paths) if os.path.basename(path).startswith("libmpi.so")]
    if not found:
        raise DistBackendError("init_process_group: mpi4py has loaded no library named libmpi.so")
    return ctypes.CDLL(found[0])


def _start_mpi():
    """Start MPI, unless it runs."""
    mpi = load_mpi()
    if not mpi.Is_initialized():
        # mpi4py would keep the GIL, which a server in this process needs to answer MPI.
        code = _library().MPI_Init_thread(
            None, None, ctypes.c_int(mpi.THREAD_MULTIPLE), ctypes.byref(ctypes.c_int())
        )
        if code:
            raise DistBackendError(f"init_process_group: MPI_Init_thread failed with code {code}")
        used_by_groups(mpi)
        for communicator in (mpi.COMM_WORLD, mpi.COMM_SELF):
            communicator.Set_errhandler(mpi.ERRORS_RETURN)
    return mpi


def _open_world(store, name, size):
    code, fields = store.request(Request.OPEN_WORLD, [name.encode(), str(size).encode()], 0.0)
    if code:
        raise DistStoreError(f"init_process_group: {fields[0].decode()}")
    return [int(field) for field in fields]


def _base(store):
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    return store


def by_store(store: Any, rank: int, size: Any, timeout: timedelta | None, generation: Any) -> Any:
    """The world of the processes that meet at a store.

    Args:
        generation: how many worlds this process was in before; the same in all.
    """
    mpi = load_mpi()
    deadline = time.monotonic() + seconds_of(timeout)
    key = f"rushlight/world/{generation}"
    if rank == 0:
        about, server = _announce(store, size, timeout)
        store.set(key, json.dumps(about))
    else:
        server = None
        try:
            store.wait([key], timeout)
        except DistStoreError:
            raise DistStoreError(
                f"init_process_group: rank 0 of {size} did not come within "
                f"{seconds_of(timeout):g} s; this is rank {rank}"
            ) from None
        about = json.loads(store.get(key))
    if about["size"] != size:
        raise ValueError(
            f"init_process_group: rank {rank} is told of a world of {size}, and rank 0 of one of "
            f"{about['size']}"
        )
    left = max(1.0, deadline - time.monotonic())
    member = Member(about["host"], about["port"], about["name"], rank, left, about["server_rank"])
    if not member.wait_for_all(left + 5.0):
        member.leave("it could not join", failed=False)
        raise DistBackendError(
            f"init_process_group: {member.failure or 'the process that serves the store is silent'}"
        )
    with member.library_call("init_process_group"):
        communicator = _connect(mpi, about, rank, size)
    transport = MpiTransport(mpi, communicator, member.hosts)
    world = World(transport, store, Engine(member), member.hosts)
    world.server = server
    _take_leave_at_end(world)
    return world


def _announce(store, size, timeout):
    """What rank 0 tells the others: where the world's server is, and its numbers."""
    base, server = _base(store), None
    if not isinstance(base, TCPStore):
        # Such a store does not say on which machines its users are: MASTER_ADDR does.
        host = os.environ.get("MASTER_ADDR", "127.0.0.1")
        base = server = TCPStore(host, 0, is_master=True, timeout=timeout, wait_for_workers=False)
    name = uuid.uuid4().hex
    about = {
        "host": base.host,
        "port": base.port,
        "name": name,
        "size": size,
        "ids": _open_world(base, name, size),
        "server_rank": 0 if base._server is not None else None,
        "mpi": None if _joined is None else _joined[0],
    }
    return about, server


def _connect(mpi, about, rank, size):
    """MPI's communicator of the world; starts MPI the first time."""
    global _joined
    if mpi.Is_initialized():
        if _joined is None or _joined[0] != about["mpi"] or _joined[1:] != (rank, size):
            raise DistBackendError(
                "init_process_group: MPI connects a process once, and it has connected this one "
                "with other processes or in another order; start a fresh process"
            )
        return mpi.COMM_WORLD.Dup()
    for name in _PMI_VARIABLES:
        os.environ.pop(name, None)
    ours = {
        "PMI_PORT": f"{about['host']}:{about['port']}",
        "PMI_ID": str(about["ids"][rank]),
        "PMI_RANK": str(rank),
        "PMI_SIZE": str(size),
    }
    os.environ.update(ours)
    _start_mpi()
    for name in ours:
        del os.environ[name]  # not for processes that this one starts
    communicator = mpi.COMM_WORLD
    if (communicator.rank, communicator.size) != (rank, size):
        raise DistBackendError(
            f"init_process_group: this MPI ({mpi.Get_library_version().splitlines()[0]}) starts "
            "under its own launcher alone, as it does not speak PMI-1: run the program by that, "
            f"or use the MPICH that {_EXTRA} brings"
        )
    _joined = (about["name"], rank, size)
    communicator.Barrier()
    _unlink_shared_memory()
    return communicator.Dup()


def _unlink_shared_memory():
    """Leave no file behind, however the processes end: all of this machine have mapped theirs."""
    with open("/proc/self/maps") as maps:
        paths = {
            line.split(maxsplit=5)[-1].strip() for line in maps if "/dev/shm/mpich_shm" in line
        }
    for path in paths:
        with contextlib.suppress(FileNotFoundError):  # another rank was quicker
            os.unlink(path)


def _take_leave_at_end(world):
    """Say why when the process ends, and let MPI end where its launcher waits for that."""
    done = []

    def at_end():
        if done:
            return
        done.append(True)
        why, failed = reason_for_end()
        world.leave(why, failed)
        if world.finalize is not None and not failed and world.engine.failure is None:
            world.finalize()

    atexit.register(at_end)
    # Processes of multiprocessing do not run atexit's functions.
    multiprocessing.util.Finalize(None, at_end, exitpriority=100)
    os.register_at_fork(after_in_child=lambda: _after_fork(world, done))


def _after_fork(world, done):
    done.append(True)
    world.engine.member.forget_after_fork()
    world.engine.failure = (
        "this process was forked from one of a process group, and is no member of it"
    )
    server = getattr(_base(world.store), "_server", None)
    if server is not None:
        server.forget_after_fork()
