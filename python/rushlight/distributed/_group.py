"""Process groups: the world, its parts, and who is in them."""

from __future__ import annotations

import contextlib
import datetime
import os
import sys
import threading
from typing import NewType

import rushlight
from rushlight import _ignored
from rushlight.distributed import _launchers
from rushlight.distributed._agreement import Call, agree
from rushlight.distributed._backends import (
    Backend,
    BackendConfig,
    BackendType,
    check_backend,
    creator,
)
from rushlight.distributed._engine import Queue, Work
from rushlight.distributed._member import call_site
from rushlight.distributed._stores import PrefixStore
from rushlight.distributed._transport import Alone, Apart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import timedelta
    from typing import Any, NoReturn

    from typing_extensions import Self

    from rushlight import Tensor

default_pg_timeout = datetime.timedelta(minutes=30)
_NOT_INITIALIZED = (
    "Default process group has not been initialized, please make sure to call init_process_group."
)


GroupName = NewType("GroupName", str)


_host = threading.local()


@contextlib.contextmanager
def host_tensors() -> Iterator[None]:
    """Let the library itself exchange tensors of the CPU in groups of backend "nccl"."""
    before, _host.allowed = getattr(_host, "allowed", False), True
    try:
        yield
    finally:
        _host.allowed = before


def carries_host_tensors() -> bool:
    """Is this inside of host_tensors()?"""
    return getattr(_host, "allowed", False)


class _ProfiledAs(threading.local):
    name: str | None = None


observers: list[Any] = []  # called with each operation that begins
_profiled_as = _ProfiledAs()


@contextlib.contextmanager
def record_comm(name: str) -> Iterator[None]:
    """Let profiles show the collectives of a part of a program under a name.

    Args:
        name: the name.

    Example:
        >>> import rushlight.distributed as dist
        >>> dist.init_process_group("gloo", rank=0, world_size=1)
        >>> with rushlight.profiler.profile() as prof, dist.record_comm("gradients"):
        ...     dist.all_reduce(rushlight.ones(2))
        >>> [event.name for event in prof.events() if event.name == "gradients"]
        ['gradients']
        >>> dist.destroy_process_group()
    """
    before, _profiled_as.name = _profiled_as.name, name
    try:
        yield
    finally:
        _profiled_as.name = before


# What a derived class defines -> what that is here.
_OVERRIDES = {
    "getRank": "rank", "getSize": "size", "getBackendName": "name", "getGroupName": "group_name",
    "getGroupDesc": "group_desc", "setGroupName": "_set_group_name",
    "setGroupDesc": "_set_group_desc",
}  # fmt: skip


class ProcessGroup:
    """The members of collective operations.

    `init_process_group` and `new_group` make groups. A program may derive a class whose methods
    (`allreduce`, `broadcast` ...) carry the tensors themselves, see `Backend.register_backend`:
    they get lists of tensors and options, and return a Work.

    Args:
        store: where small values are exchanged; may be left out.
        rank: this process's number in a group of a derived class.
        size: how many members it has.
    """

    BackendType = BackendType
    UNDEFINED, GLOO, NCCL = BackendType.UNDEFINED, BackendType.GLOO, BackendType.NCCL
    XCCL, UCC, MPI = BackendType.XCCL, BackendType.UCC, BackendType.MPI
    CUSTOM = BackendType.CUSTOM

    def __init__(self, *args: Any) -> None:
        if len(args) not in (2, 3):
            raise TypeError(
                "ProcessGroup: expected (rank, size) or (store, rank, size), got "
                f"{len(args)} arguments"
            )
        from rushlight.distributed import _world

        *stores, rank, size = args
        world = _world.alone(stores[0] if stores else None)
        self._set_up(
            world, Apart(rank, size), range(size), Backend.UNDEFINED, default_pg_timeout, ""
        )

    def __init_subclass__(cls) -> None:
        """Let methods of a derived class have the names by which torch asks for them."""
        super().__init_subclass__()
        for theirs, ours in _OVERRIDES.items():
            if theirs in vars(cls):
                function = vars(cls)[theirs]
                setattr(cls, ours, property(function) if ours.startswith("group") else function)

    @classmethod
    def _of(cls, *args, **kwargs):
        """A group that this library serves; see _set_up."""
        made = cls.__new__(cls)
        made._set_up(*args, **kwargs)
        return made

    def _set_up(self, world, transport, ranks, backend, timeout, name, description=None):
        """Begin.

        Args:
            world: the world that the members are in.
            transport: what carries their tensors; Apart where methods of a derived class do.
            ranks: their ranks in the world.
            backend: what the program calls it.
            timeout: for each operation.
            name, description: the group's.
        """
        self._world, self._transport = world, transport
        self._is_derived = isinstance(transport, Apart)
        self._is_destroyed = False
        self._ranks, self._backend = list(ranks), Backend(backend)
        self._timeout, self._name = timeout, name
        self._description = description or "undefined"
        self._queue = Queue(world.engine, transport, name, self._ranks)
        self.bound_device_id: Any = None
        self._gpus: Any = None
        self._is_for_gpus = Backend.NCCL in self._backend

    def carrier(self, tensor: Tensor) -> Any:
        """The transport of tensors like this one."""
        if tensor.device.type == "cpu" or self.size() == 1:
            return self._transport
        return self.carrier_of_gpus()

    def carrier_of_gpus(self) -> Any:
        """The transport of tensors of GPUs."""
        if self._gpus is None:
            from rushlight.distributed._nccl import GpuTransport

            self._gpus = GpuTransport(self._transport, self._world.engine)
        return self._gpus

    def serves_gpus(self) -> bool:
        """Does the program ask for NCCL, and has it begun to use a GPU?"""
        by_device = BackendConfig(self._backend).device_backend_map
        return by_device.get("cuda") == Backend.NCCL and rushlight.cuda.is_initialized()

    def _check_device(self, tensor):
        """Raise for a tensor of the CPU in a group that is for GPUs alone, as NCCL is."""
        if tensor is None or not tensor.is_cpu or self.size() == 1:
            return
        by_device = BackendConfig(self._backend).device_backend_map
        if by_device.get("cpu") != Backend.NCCL:
            return
        if not carries_host_tensors():
            raise RuntimeError("No backend type associated with device type cpu")

    def rank(self) -> Any:
        """The number of this process in the group."""
        return self._transport.rank

    def size(self) -> Any:
        """How many members there are."""
        return self._transport.size

    def name(self) -> str:
        """What carries the messages."""
        return str(self._backend)

    @property
    def group_name(self) -> Any:
        """The name of the group."""
        return self._name

    @property
    def group_desc(self) -> Any:
        """What the group is for."""
        return self._description

    def _set_group_name(self, name):
        self._name = self._queue.name = name

    def _set_group_desc(self, group_desc):
        self._description = group_desc

    def run(
        self,
        steps: Any,
        call: Any,
        outputs: Any,
        async_op: Any,
        is_message: bool = False,
        timeout: timedelta | None = None,
        derived: Callable[[], Any] | None = None,
    ) -> Any:
        """Begin an operation; wait for it, or return its Work.

        Args:
            steps: makes the generator that performs it.
            call: what the members must agree on.
            outputs: the tensors that it writes.
            async_op: return the Work.
            is_message: it is between two members, beside the operations of all.
            timeout: for this operation.
            derived: calls the method that performs it, for a group of a program's own class.
        """
        for observe in observers:
            observe(call)
        if self._is_derived:
            return self._run_derived(call, derived, async_op)
        if self._is_for_gpus:
            self._check_device(call.tensor)
        if any(isinstance(t, rushlight.Tensor) and t.is_inference() for t in outputs):
            steps = _writing_inference_tensors(steps)
        site = call_site(sys._getframe(1))
        work = Work(self._queue, None, call.text(), site, outputs, timeout or self._timeout)
        work._steps = steps(work)
        on_gpu = next((t for t in outputs if isinstance(t, rushlight.Tensor) and t.is_cuda), None)
        if on_gpu is not None:
            self._place(work, on_gpu.device, steps, "message" if is_message else async_op)
        if _profiled_as.name is not None:
            return self._run_named(work, is_message, async_op)
        return self._begin_work(work, is_message, async_op)

    def _run_derived(self, call, derived, async_op):
        if derived is None:
            raise NotImplementedError(f"{call.name}: {type(self).__name__} has no method for it")
        work = derived()
        if async_op:
            return work
        if work is not None:
            work.wait(self._timeout)
        return None

    def _place(self, work, device, steps, apart):
        """Choose the stream of an operation on tensors of a GPU: the caller's, or one apart."""
        from rushlight.distributed._nccl import on_own_stream, on_stream

        if not apart or self.size() == 1 or rushlight.cuda.is_current_stream_capturing():
            work._steps = on_stream(work._steps, rushlight.cuda.current_stream(device))
            return
        gpus = self.carrier_of_gpus()
        stream = gpus.stream(device, work.what.partition(" of ")[0] if apart == "message" else "")
        work._steps = on_own_stream(work._steps, work, stream)
        work._keep = lambda: gpus.keep(work._event, steps)
        work._release = lambda: gpus.release(work._event)

    def _run_named(self, work, is_message, async_op):
        """Run with the name that `record_comm` gives it in profiles."""
        from rushlight.profiler import record_function

        with record_function(_profiled_as.name):
            return self._begin_work(work, is_message, async_op)

    def _begin_work(self, work, is_message, async_op):
        self._queue.submit(work, is_message)
        if async_op:
            if not work._done:
                self._world.engine.ensure_progress()
            return work
        work.wait()
        return None

    def set_timeout(self, timeout: timedelta | None) -> None:
        """Set the time-out of each operation."""
        self._timeout = timeout

    def get_group_store(self) -> Any:
        """The store of this group: a part of that of the world."""
        return PrefixStore(self._name, self._world.store)

    def abort(self) -> None:
        """End the operations that are under way with an error, and refuse new ones."""
        why = f"the process group {self._name} was aborted"
        if self._gpus is not None:
            self._gpus.close()
        self._world.engine.abort(self._queue, why)

    def shutdown(self) -> None:
        """Wait for the operations that are under way, and refuse new ones."""
        for work in self._queue.under_way():
            work.wait()
        if self._gpus is not None:
            self._gpus.close()
        self._queue.ended = f"the process group {self._name} was shut down"

    def monitored_barrier(
        self, timeout: timedelta | None = None, wait_all_ranks: bool = False
    ) -> None:
        """distributed.monitored_barrier of this group.

        Args:
            timeout: a timedelta; that of the group by default.
            wait_all_ranks: name all that are missing, which happens in any case.
        """
        from rushlight.distributed import _collectives

        _collectives.monitored_barrier(self, timeout, wait_all_ranks)

    def split_group(
        self,
        ranks: Sequence[int],
        timeout: timedelta | None = None,
        opts: Any = None,
        group_name: str | None = None,
        group_desc: str | None = None,
        device_types: Any = None,
    ) -> Any:
        """The group of some members, or None in the others; all of them make the call.

        Args:
            ranks: in this group.
            timeout: of its operations; that of this group by default.
            opts, device_types: None.
            group_name: its name, which is in no other group; one is made by default.
            group_desc: what it is for.
        """
        if opts is not None or device_types is not None:
            raise NotImplementedError(
                "ProcessGroup.split_group: opts and device_types are not supported"
            )
        if group_name is not None and group_name in groups.by_name:
            raise ValueError(f"ProcessGroup.split_group: there is a group {group_name} already")
        made = split_group(self, [list(ranks)], timeout, None, group_desc)
        if made is not None and group_name is not None:
            groups.by_name[group_name] = groups.by_name.pop(made._name)
            made._name = made._queue.name = group_name
        return made

    def merge_remote_group(
        self,
        store: Any,
        size: int,
        timeout: timedelta | None = None,
        group_name: str | None = None,
        group_desc: str | None = None,
    ) -> NoReturn:
        """Raises NotImplementedError: the processes of a world meet when it begins.

        Args:
            store: where the members of both groups would meet.
            size: how many they are.
            timeout: how long to wait for them.
            group_name, group_desc: of the larger group.
        """
        raise NotImplementedError(
            f"ProcessGroup.merge_remote_group: {size} processes by {store}: processes that were "
            "not there when the world began cannot join it"
        )

    @property
    def use_pg_for_symm_mem_rendezvous(self) -> bool:
        """Does symmetric memory meet by this group? There is none: False."""
        return False

    @use_pg_for_symm_mem_rendezvous.setter
    def use_pg_for_symm_mem_rendezvous(self, value: bool) -> None:
        if value:
            raise NotImplementedError(
                "ProcessGroup.use_pg_for_symm_mem_rendezvous: there is no symmetric memory"
            )

    def boxed(self) -> Self:
        """This group: it needs no other form where operators take it."""
        return self

    @staticmethod
    def unbox(boxed: ProcessGroup) -> ProcessGroup:
        """What `boxed` gave, again."""
        return boxed

    def __repr__(self) -> str:
        return f"<ProcessGroup {self._name}: rank {self.rank()} of {self.size()}>"

    def _begin(self, name, opts, *args, **kwargs):
        """Begin the operation of that name with the options' time-out; its Work."""
        from rushlight.distributed import _collectives

        self._check_own(name)
        kept, limit = self._timeout, getattr(opts, "timeout", None)
        if limit is not None and limit > datetime.timedelta():
            self._timeout = limit
        try:
            work = getattr(_collectives, name)(*args, group=self, async_op=True, **kwargs)
        finally:
            self._timeout = kept
        if not getattr(opts, "asyncOp", True):
            work.wait()
        return work

    def _root(self, opts, root):
        """The member that `root`, options or a number in their place mean."""
        root = root if root is not None else getattr(opts, "rootRank", opts) or 0
        if not 0 <= root < self.size():
            raise RuntimeError(f"ProcessGroup: invalid root rank: {root} of {self.size()} members")
        return root

    def _get_backend(self, device):
        """What carries tensors of a device: this group, which carries those of each."""
        kind = rushlight.device(device).type
        if kind not in ("cpu", "cuda"):
            raise RuntimeError(f"No backend type associated with device type {kind}")
        return self

    def _get_backend_name(self):
        return self.name()

    def _set_default_timeout(self, timeout):
        self.set_timeout(timeout)

    @property
    def options(self):
        """What a program may say of a group of backend "gloo"."""
        made = _GlooOptions()
        made._timeout, made.group_name = self._timeout, self._name
        made.global_ranks_in_group = list(self._ranks)
        return made

    def _check_own(self, name):
        if self._is_derived:  # whose method would come back here
            raise NotImplementedError(f"{type(self).__name__} defines no method for {name}")

    def allreduce(
        self, tensors: Tensor | Sequence[Tensor], opts: Any = None, *, op: Any = None
    ) -> Work:
        """all_reduce of a tensor, or of one in a list, by `op` or `opts.reduceOp`; returns its
        Work.
        """
        return self._begin("all_reduce", opts, _only(tensors), _operation(op or opts))

    def allreduce_coalesced(self, tensors: Sequence[Tensor], opts: Any = None) -> Work:
        """all_reduce of several tensors; returns one Work."""
        return self._begin("_all_reduce_coalesced", opts, tensors, _operation(opts))

    def broadcast(
        self, tensors: Tensor | Sequence[Tensor], opts: Any = None, *, root: int | None = None
    ) -> Work:
        """broadcast of a tensor from the member `root` or `opts.rootRank`; returns its Work."""
        return self._begin("broadcast", opts, _only(tensors), group_src=self._root(opts, root))

    def reduce(
        self,
        tensors: Tensor | Sequence[Tensor],
        opts: Any = None,
        *,
        root: int | None = None,
        op: Any = None,
    ) -> Work:
        """reduce of a tensor to the member `root` or `opts.rootRank`; returns its Work."""
        operation = _operation(op or (opts if hasattr(opts, "reduceOp") else None))
        root = self._root(opts, root)
        return self._begin("reduce", opts, _only(tensors), op=operation, group_dst=root)

    def allgather(
        self, output_tensors: Sequence[Any], input_tensors: Any, opts: Any = None
    ) -> Work:
        """all_gather of a tensor into a list, or into the one list in a list; returns its Work."""
        outputs = _only_list(output_tensors)
        return self._begin("all_gather", opts, outputs, _only(input_tensors))

    def allgather_coalesced(
        self, output_lists: Sequence[Any], input_list: Sequence[Tensor], opts: Any = None
    ) -> Work:
        """all_gather of several tensors: list i gets those of member i; returns one Work."""
        return self._begin("_all_gather_coalesced", opts, output_lists, input_list)

    def allgather_into_tensor_coalesced(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Any = None
    ) -> Work:
        """all_gather_into_tensor of several tensors; returns one Work."""
        return self._begin("all_gather_into_tensor_coalesced", opts, outputs, inputs)

    all_gather_single_coalesced = allgather_into_tensor_coalesced

    def all_gather_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Work:
        """all_gather_into_tensor; returns its Work."""
        return self._begin("all_gather_into_tensor", opts, output, input)

    _allgather_base = all_gather_single

    def reduce_scatter_single(
        self, outputTensor: Tensor, inputTensor: Tensor, opts: Any = None
    ) -> Work:
        """reduce_scatter_tensor; returns its Work."""
        return self._begin(
            "reduce_scatter_tensor", opts, outputTensor, inputTensor, _operation(opts)
        )

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_tensor_coalesced(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Any = None
    ) -> Work:
        """reduce_scatter_tensor of several tensors; returns one Work."""
        operation = _operation(opts)
        return self._begin("reduce_scatter_tensor_coalesced", opts, outputs, inputs, operation)

    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

    def gather(
        self, output_tensors: Any, input_tensors: Any, opts: Any = None, *, root: int | None = None
    ) -> Work:
        """gather of a tensor at the member `root` or `opts.rootRank`; returns its Work."""
        outputs = _only_list(output_tensors) if output_tensors else None
        root = self._root(opts, root)
        return self._begin("gather", opts, _only(input_tensors), outputs, group_dst=root)

    def scatter(
        self, output_tensors: Any, input_tensors: Any, opts: Any = None, *, root: int | None = None
    ) -> Work:
        """scatter of a list from the member `root` or `opts.rootRank`; returns its Work."""
        inputs = _only_list(input_tensors) if input_tensors else None
        root = self._root(opts, root)
        return self._begin("scatter", opts, _only(output_tensors), inputs, group_src=root)

    def reduce_scatter(
        self, output_tensors: Any, input_tensors: Sequence[Any], opts: Any = None
    ) -> Work:
        """reduce_scatter of a list, or of the one list in a list; returns its Work."""
        inputs = _only_list(input_tensors)
        return self._begin("reduce_scatter", opts, _only(output_tensors), inputs, _operation(opts))

    def alltoall(
        self, output_tensors: Sequence[Tensor], input_tensors: Sequence[Tensor], opts: Any = None
    ) -> Work:
        """all_to_all of lists; returns its Work."""
        return self._begin("all_to_all", opts, output_tensors, input_tensors)

    def alltoall_base(
        self,
        output: Tensor,
        input: Tensor,
        output_split_sizes: Sequence[int],
        input_split_sizes: Sequence[int],
        opts: Any = None,
    ) -> Work:
        """all_to_all_single; returns its Work."""
        sizes = output_split_sizes, input_split_sizes
        return self._begin("all_to_all_single", opts, output, input, *sizes)

    all_to_all_single = alltoall_base

    def barrier(self, opts: Any = None) -> Work:
        """barrier; returns its Work."""
        device = getattr(opts, "device", None)
        ids = getattr(opts, "device_ids", None) or (None if device is None else [device])
        if ids and not rushlight.cuda.is_available():
            raise ValueError(
                "ProcessGroup.barrier: device_ids and device name GPUs: there are none"
            )
        return self._begin("barrier", opts, device_ids=list(ids) if ids else None)

    def send(self, tensors: Sequence[Tensor], dst: int, tag: int = 0) -> Work:
        """isend of a tensor, or of one in a list, to a member; returns its Work."""
        from rushlight.distributed import isend

        self._check_own("send")
        return isend(_only(tensors), group=self, tag=tag, group_dst=dst)

    def recv(self, tensors: Sequence[Tensor], src: int, tag: int = 0) -> Work:
        """irecv of a tensor, or of one in a list, from a member; returns its Work."""
        from rushlight.distributed import irecv

        self._check_own("recv")
        return irecv(_only(tensors), group=self, tag=tag, group_src=src)

    def recv_anysource(self, tensors: Sequence[Tensor], tag: int = 0) -> Work:
        """irecv of a tensor, or of one in a list, from any member; returns its Work."""
        from rushlight.distributed import irecv

        self._check_own("recv")
        return irecv(_only(tensors), group=self, tag=tag)


def _writing_inference_tensors(steps):
    """Steps that may write to tensors of inference mode, wherever they are performed."""

    def of_work(work):
        under_way, result = steps(work), None
        while True:
            with rushlight.inference_mode():
                try:
                    result = next(under_way)
                except StopIteration:
                    return
            yield result

    return of_work


def _only(tensors):
    if not isinstance(tensors, (list, tuple)):
        return tensors
    if len(tensors) != 1:
        raise RuntimeError(
            "ProcessGroup: requires non-empty tensor list of one tensor of this process, got "
            f"{len(tensors)}"
        )
    return tensors[0]


def _only_list(lists):
    """The list in a list of one, or the list itself."""
    if len(lists) == 1 and isinstance(lists[0], (list, tuple)):
        return list(lists[0])
    return list(lists)


def _operation(opts):
    from rushlight.distributed import ReduceOp

    return getattr(opts, "reduceOp", opts) or ReduceOp.SUM


class _GlooDevice:
    def __init__(self, hostname, interface):
        self.hostname, self.interface = hostname, interface


class _GlooOptions:
    """What a program may say of a group of backend "gloo": `_timeout` for its operations.

    Example:
        >>> import datetime
        >>> options = rushlight.distributed.ProcessGroupGloo.Options()
        >>> options._timeout = datetime.timedelta(seconds=60)
    """

    backend = "gloo"

    def __init__(self) -> None:
        self._timeout: Any = default_pg_timeout
        self.group_name, self.global_ranks_in_group = "", []

    def __setattr__(self, name: str, value: Any) -> None:
        if name.strip("_") in ("devices", "threads"):
            _ignored.warn_once(
                f"ProcessGroupGloo.Options: {name} has no effect: MPI serves the backend 'gloo' "
                "and chooses the network"
            )
        super().__setattr__(name, value)


class ProcessGroupGloo(ProcessGroup):
    """A group of all processes that meet at a store, beside the world that a program may have.

    MPI carries its tensors: of the groups that one process makes, all have the same members.

    Args:
        store: where they meet.
        rank: this process's number.
        size: how many they are.
        timeout: for the meeting and for each operation; or Options, which have one.
    """

    Options = _Options = _GlooOptions
    Device = _GlooDevice

    def __init__(self, store: Any, rank: int, size: int, timeout: Any = default_pg_timeout) -> None:
        from rushlight.distributed import _world

        limit = getattr(timeout, "_timeout", timeout)
        if not isinstance(limit, datetime.timedelta):
            limit = datetime.timedelta(seconds=limit)
        if size == 1:
            world = _world.alone(store)
        else:
            world = _world.by_store(store, rank, size, limit, "group")
        self._set_up(world, world.transport, range(size), Backend.GLOO, limit, "")

    @staticmethod
    def create_device(
        hostname: str = "", interface: str = "", lazy_init: bool | None = None
    ) -> Any:
        """What `Options` of gloo name a network by; MPI chooses the network by itself.

        Args:
            hostname, interface: of this machine, on the network.
            lazy_init: whether to connect when the first message is sent.
        """
        _ignored.warn_of(
            "ProcessGroupGloo.create_device",
            "MPI serves the backend 'gloo' and chooses the network",
            hostname=hostname or None, interface=interface or None, lazy_init=lazy_init,
        )  # fmt: skip
        return _GlooDevice(hostname, interface)

    @staticmethod
    def create_default_device(lazy_init: bool | None = None) -> Any:
        """create_device of no network.

        Args:
            lazy_init: whether to connect when the first message is sent.
        """
        return ProcessGroupGloo.create_device(lazy_init=lazy_init)


for _name, _kind in (("Options", _GlooOptions), ("Device", _GlooDevice)):
    _kind.__name__, _kind.__qualname__ = _name, f"ProcessGroupGloo.{_name}"


def _time_limit(name, timeout, options, create):
    """The time-out of a group, which options of gloo may have, or None; what else they say raises.

    Args:
        name: of the function, for messages.
        timeout: what it was given.
        options: its pg_options, which a program's own backend understands.
        create: what makes groups of that backend, or None.
    """
    if options is not None and create is None:
        if not isinstance(options, _GlooOptions):
            raise NotImplementedError(
                f"{name}: pg_options of {type(options).__name__}: ProcessGroupGloo.Options are "
                "supported"
            )
        timeout = options._timeout if timeout is None else timeout
    if timeout is not None and not isinstance(timeout, datetime.timedelta):
        raise TypeError(
            f"{name}: Expected timeout argument to be of type datetime.timedelta, got {timeout}"
        )
    return timeout


_SHRINK_FLAGS = (0, 1)  # SHRINK_DEFAULT and SHRINK_ABORT


def shrink_group(
    ranks_to_exclude: list[int],
    group: ProcessGroup | None = None,
    shrink_flags: int = 0,
    pg_options: Any = None,
) -> NoReturn:
    """Raises, as torch does for gloo and MPI: a group that lost a member cannot go on without it.

    Restart the others from the last checkpoint (`--max-restarts` of `distributed.run`), or make a
    smaller group of living processes by `new_group`.

    Args:
        ranks_to_exclude: members of the group.
        group: the world by default.
        shrink_flags: SHRINK_DEFAULT (0) or SHRINK_ABORT (1).
        pg_options: of the smaller group.

    Raises:
        TypeError: the arguments are right, and the backend cannot do it.
        ValueError: the group has one member, or an argument is not valid.
    """
    if not isinstance(ranks_to_exclude, list):
        raise TypeError(
            f"ranks_to_exclude must be a list, but got {type(ranks_to_exclude).__name__}"
        )
    if not ranks_to_exclude:
        raise ValueError("ranks_to_exclude cannot be empty: name the members to leave out")
    if not isinstance(shrink_flags, int) or shrink_flags not in _SHRINK_FLAGS:
        raise ValueError(f"Invalid shrink_flags value: {shrink_flags}: expected 0 or 1")
    found = resolve(group)
    if found is None:
        raise ValueError("shrink_group: this process is not in the group")
    if found.size() <= 1:
        raise ValueError(f"Cannot shrink a process group with size {found.size()}")
    raise TypeError(
        f"shrink_group: backend {found.name()!r} of process group {found.group_name!r} does not "
        f"support shrinking to leave out ranks {ranks_to_exclude}"
    )


class _NonMember:
    def __repr__(self) -> str:
        return "GroupMember.NON_GROUP_MEMBER"


class _Groups:
    """What there is: the world, and all groups by name."""

    def __init__(self) -> None:
        self.default = None
        self.by_name = {}
        self.generation = 0  # of the world
        self.made = 0  # groups, for names

    @property
    def WORLD(self):
        """The group of all processes."""
        return self.default

    @WORLD.setter
    def WORLD(self, group):
        self.default = group

    NON_GROUP_MEMBER = _NonMember()


groups = group = GroupMember = _Groups()


def is_available() -> bool:
    """Can processes train together? They can, but in a browser there is one alone."""
    return sys.platform != "emscripten"


def is_initialized() -> bool:
    """Has init_process_group been called?"""
    return groups.default is not None


def default_group() -> Any:
    """The world; ValueError without one."""
    if groups.default is None:
        raise ValueError(_NOT_INITIALIZED)
    return groups.default


def resolve(given: Any) -> Any:
    """The group that an argument means; None in a process that is not in it."""
    if given is None or given is groups:
        return default_group()
    if given is GroupMember.NON_GROUP_MEMBER:
        default_group()
        return None
    if not isinstance(given, ProcessGroup):
        raise TypeError(f"group must be a ProcessGroup, got {given!r}")
    if given._is_destroyed:
        raise ValueError("Invalid process group specified: it was destroyed")
    return given


def init_process_group(
    backend: Any = None,
    init_method: Any = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Make this process and the others one world.

    Args:
        backend: "gloo" or "mpi", both by MPI; also by kind of device, "cpu:gloo,cuda:nccl"; "fake",
            which sends nothing; or what `Backend.register_backend` was called with.
        init_method: where the processes meet: "env://" (the default), "tcp://host:port" or
            "file:///path".
        timeout: a timedelta, for the meeting and for each operation; 30 minutes by default.
        world_size, rank: how many processes there are, and which this is; by default what the
            launcher says (torchrun's environment, mpiexec, SLURM), else a world of this process.
        store: where they meet, instead of init_method.
        group_name: accepted, as in torch, where it is deprecated.
        pg_options: ProcessGroupGloo.Options, of which `_timeout` counts; what a registered backend
            takes.
        device_id: None or a CPU.

    Raises:
        ImportError: there are several processes, and mpi4py is not installed.
        ValueError: there is a world already, or the arguments contradict each other.
        DistStoreError, DistBackendError: others did not come; the message says who.
    """
    from rushlight.distributed import _world
    from rushlight.distributed.rendezvous import rendezvous

    if groups.default is not None:
        raise ValueError("trying to initialize the default process group twice!")
    check_backend(backend)
    create = creator(backend)
    timeout = _time_limit("init_process_group", timeout, pg_options, create) or default_pg_timeout
    if device_id is not None and str(device_id).partition(":")[0] != "cpu":
        if not rushlight.cuda.is_available():
            raise ValueError(f"init_process_group: device_id {device_id}: there are no GPUs")
    if store is not None and init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    place = None
    if store is not None:
        if world_size <= 0 or rank < 0:
            raise AssertionError("world_size must be positive and rank non-negative with a store")
    elif init_method is None or init_method == "env://":
        place = _place(rank, world_size)
        if place is not None:
            rank, world_size = place.rank, place.world_size
    is_native = place is not None and place.launcher in ("Open MPI", "MVAPICH", "mpiexec")
    if world_size == 1 and rank > 0:
        raise ValueError(f"init_process_group: rank {rank} is not in a world of 1")
    if is_native and world_size > 1 and create is None:
        world, rank, world_size = _world.by_launcher(place, timeout)
    else:
        if store is None:
            if world_size == 1 and place is not None and place.launcher == "none":
                store = _only_here()
            else:
                method = init_method or "env://"
                store, rank, world_size = next(
                    rendezvous(method, rank, world_size, timeout=timeout)
                )
        prefixed = PrefixStore(f"default_pg/{groups.generation}", store)
        if world_size == 1 or create is not None:
            world = _world.alone(prefixed)
        else:
            world = _world.by_store(prefixed, rank, world_size, timeout, groups.generation)
    groups.generation += 1
    name = Backend(backend) if backend is not None else Backend(Backend.UNDEFINED)
    if create is None:
        made = ProcessGroup._of(
            world, world.transport, range(world_size), name, timeout, "0", "default_pg"
        )
    else:
        made = _derived(
            create, world, rank, range(world_size), name, timeout, "0", "default_pg", pg_options
        )
    groups.default, groups.by_name = made, {"0": made}
    groups.made = 1


def _derived(create, world, rank, ranks, backend, timeout, name, description, options):
    """A group of a program's own class."""
    ranks = list(ranks)
    store = PrefixStore(f"{backend}/{name}", world.store)
    made = create(store, rank, len(ranks), timeout, name, ranks, options)
    if not isinstance(made, ProcessGroup):
        raise TypeError(
            f"backend {backend!r} makes groups of class {type(made).__name__}, which is not "
            "derived from ProcessGroup"
        )
    made._world, made._ranks, made._backend, made._timeout = world, ranks, backend, timeout
    made._set_group_name(name)
    made._set_group_desc(description or "undefined")
    return made


def _place(rank, world_size):
    """What the launcher says of this process, where the program says nothing."""
    explicit = rank >= 0 or world_size >= 0
    named = _launchers.of_torchrun()
    native = _launchers.of_mpi()
    if native is not None and native.world_size > 1:
        size = world_size if world_size >= 0 else named.world_size if named else native.world_size
        if size == native.world_size and (rank < 0 or "MASTER_ADDR" not in os.environ):
            return native
    if explicit:
        if world_size == 1 and rank <= 0 and "MASTER_ADDR" not in os.environ:
            return _launchers.Place("none", 0, 1, None)
        return None
    if named is not None:
        if named.world_size == 1 and named.rank == 0 and "MASTER_ADDR" not in os.environ:
            return _launchers.Place("none", 0, 1, None)
        return named
    slurm = _launchers.of_slurm()
    if slurm is not None and slurm.world_size > 1:
        if "MASTER_ADDR" not in os.environ:
            address, port = _launchers.slurm_address()
            os.environ["MASTER_ADDR"] = address
            os.environ.setdefault("MASTER_PORT", str(port))
        return slurm
    if "WORLD_SIZE" in os.environ or "RANK" in os.environ:
        return None  # half of it: the rendezvous says which half is missing
    return _launchers.Place("none", 0, 1, None)


def _only_here():
    from rushlight.distributed._stores import HashStore

    return HashStore()


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """End a group; without one, or with the world, end all."""
    if groups.default is None:
        if group is None:
            raise AssertionError(f"Process group cannot be None: {_NOT_INITIALIZED}")
        raise ValueError("Invalid process group specified")
    default = default_group()
    if group is GroupMember.NON_GROUP_MEMBER:
        return
    for ended in list(groups.by_name.values()) if group in (None, default) else [group]:
        ended._is_destroyed = True
        if ended._gpus is not None:
            ended._gpus.close()
    if group is None or group is default:
        default._world.leave("it has called destroy_process_group")
        groups.default, groups.by_name = None, {}
    elif groups.by_name.pop(group._name, None) is None:
        raise ValueError("Invalid process group specified")


def new_group(
    ranks: Any = None,
    timeout: timedelta | None = None,
    backend: Any = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: Any = None,
    device_id: Any = None,
) -> Any:
    """A group of some of the ranks. All ranks of the world make the call, those not in it too.

    Args:
        ranks: the members' ranks in the world; all by default.
        timeout: for its operations; that of the world by default.
        backend: its name; that of the world by default.
        pg_options: ProcessGroupGloo.Options, of which `_timeout` counts; what a registered backend
            takes.
        device_id: None.
        use_local_synchronization: the members alone make the call.
        group_desc: what it is for.

    Returns:
        The group, or GroupMember.NON_GROUP_MEMBER in a process that is not in it; None there where
        the members alone make the call.
    """
    default = default_group()
    if device_id is not None:
        raise NotImplementedError("new_group: device_id is not supported")
    if backend is not None:
        check_backend(backend)
    create = creator(default._backend if backend is None else backend)
    timeout = _time_limit("new_group", timeout, pg_options, create)
    size = default.size()
    ranks = list(range(size)) if ranks is None else sorted(ranks)
    if len(set(ranks)) != len(ranks):
        raise RuntimeError(f"new_group: a rank is there twice in {ranks}")
    if len(ranks) > size:
        raise ValueError(
            "the new group's world size should be less or equal to the world size set by "
            f"init_process_group: {len(ranks)} of {size}"
        )
    for rank in ranks:
        if not 0 <= rank < size:
            raise ValueError(f"new_group: ranks {ranks} are not in a world of {size}")
    if use_local_synchronization:
        if default.rank() not in ranks:
            return None
        name = "local/" + "-".join(map(str, ranks))
        count = sum(made.startswith(name) for made in groups.by_name)
        name += f"/{count}"
    else:
        name = str(groups.made)
        groups.made += 1
        if not default._is_derived:
            _meet(default, f"new_group({ranks})")
    parts = {} if use_local_synchronization else _split_gpus(default, [ranks])
    if default.rank() not in ranks:
        return GroupMember.NON_GROUP_MEMBER
    if create is None:
        made = _part(default, ranks, backend, timeout, name, group_desc)
    else:
        made = _derived(
            create, default._world, ranks.index(default.rank()), ranks,
            default._backend if backend is None else Backend(backend), timeout or default._timeout,
            name, group_desc, pg_options,
        )  # fmt: skip
    if parts:
        made.carrier_of_gpus().communicators.update(parts)
    groups.by_name[name] = made
    return made


def _meet(parent, text):
    """Wait for all members, and see that they say the same."""
    call = Call(text)
    parent.run(lambda work: agree(parent, call, work), call, [], False)


def _split_gpus(parent, parts):
    """NCCL's communicators of this process's part, divided from those of the group where it has
    any: that is quicker than to make new ones. All members call it.
    """
    if parent._gpus is None:
        return {}
    color = next((i for i, part in enumerate(parts) if parent.rank() in part), -1)
    key = parts[color].index(parent.rank()) if color >= 0 else 0
    return parent._gpus.split(color, key)


def _part(parent, ranks, backend, timeout, name, description):
    """The group of some members of `parent`, given by their ranks in it."""
    world = parent._world
    if len(ranks) == 1:
        transport = Alone()
    else:
        with world.engine.exclusively(), world.engine.member.library_call(f"new_group({ranks})"):
            transport = parent._transport.part(ranks, sum(map(ord, name)))
    return ProcessGroup._of(
        world,
        transport,
        [parent._ranks[rank] for rank in ranks],
        backend or parent._backend,
        timeout or parent._timeout,
        name,
        description,
    )


def split_group(
    parent_pg: Any = None,
    split_ranks: Any = None,
    timeout: timedelta | None = None,
    pg_options: Any = None,
    group_desc: Any = None,
) -> Any:
    """Divide a group: each member gets the part that it is in, or None.

    Args:
        parent_pg: the group; the world by default.
        split_ranks: a list of ranks in the parent for each part; no rank is in two.
        timeout: for operations of the parts.
        pg_options: None.
        group_desc: what the parts are for.
    """
    parent = resolve(parent_pg)
    if parent is None:
        raise ValueError("split_group: this process is not in the parent group")
    if not split_ranks:
        raise ValueError("split_ranks cannot be None or empty")
    if pg_options is not None:
        raise NotImplementedError("split_group: pg_options is not supported")
    flat = [rank for part in split_ranks for rank in part]
    if len(set(flat)) != len(flat):
        raise ValueError("the split group cannot have duplicate ranks")
    if any(not 0 <= rank < parent.size() for rank in flat):
        raise ValueError(f"split_group: ranks {split_ranks} are not in a group of {parent.size()}")
    parts = [sorted(part) for part in split_ranks]
    _meet(parent, f"split_group({parts})")
    mine = next((part for part in parts if parent.rank() in part), None)
    name = f"{parent._name}:split:{groups.made}"
    groups.made += 1
    split = _split_gpus(parent, parts)
    if mine is None:
        return None
    made = _part(parent, mine, None, timeout, name, group_desc)
    if split:
        made.carrier_of_gpus().communicators.update(split)
    groups.by_name[name] = made
    return made


def group_of_ranks(ranks: list[Any]) -> ProcessGroup:
    """The group of these ranks, or of that of several lists which has this process; its members
    make it where there is none yet.
    """
    world = default_group()
    if ranks and isinstance(ranks[0], (list, tuple)):
        ranks = next((list(part) for part in ranks if world.rank() in part), [])
    if world.rank() not in ranks:
        raise ValueError(f"rank {world.rank()} is not in {ranks}")
    if ranks != sorted(ranks):
        raise ValueError(f"ranks must be in ascending order, got {ranks}")
    for found in groups.by_name.values():
        if found._ranks == ranks:
            return found
    return new_group(ranks, use_local_synchronization=True)


def new_subgroups(
    group_size: Any = None,
    group: ProcessGroup | None = None,
    timeout: timedelta | None = None,
    backend: Any = None,
    pg_options: Any = None,
    group_desc: Any = None,
) -> Any:
    """Divide the world into groups of `group_size` neighbours: this process's, and all of them."""
    size = default_group().size()
    if group is not None and group is not groups.default:
        raise NotImplementedError("new_subgroups: the group must be the world")
    group_size = size if group_size is None else group_size
    if not 0 < group_size <= size or size % group_size:
        raise ValueError(
            f"The world size ({size}) must be divisible by the group size ({group_size})"
        )
    lists = [list(range(start, start + group_size)) for start in range(0, size, group_size)]
    return new_subgroups_by_enumeration(lists, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Any,
    timeout: timedelta | None = None,
    backend: Any = None,
    pg_options: Any = None,
    group_desc: Any = None,
) -> Any:
    """A group for each list of ranks: this process's, and all of them."""
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    made, mine, seen = [], None, {}
    for ranks in ranks_per_subgroup_list:
        for rank in ranks:
            if rank in seen:
                raise ValueError(
                    f"Rank {rank} has appeared in both subgroup {seen[rank]} and {ranks}"
                )
            seen[rank] = ranks
    for ranks in ranks_per_subgroup_list:
        part = new_group(ranks, timeout, backend, pg_options, group_desc=group_desc)
        made.append(part)
        if get_rank() in ranks:
            mine = part
    return mine, made


def get_rank(group: ProcessGroup | None = None) -> Any:
    """The number of this process in the group; -1 if it is not in it."""
    found = resolve(group)
    return -1 if found is None else found.rank()


def get_world_size(group: ProcessGroup | None = None) -> Any:
    """How many members the group has; -1 if this process is not in it."""
    found = resolve(group)
    return -1 if found is None else found.size()


def get_backend(group: ProcessGroup | None = None) -> Any:
    """What carries the messages, as the program has called it."""
    found = resolve(group)
    if found is None:
        raise ValueError("Invalid process group specified")
    return found._backend


def get_backend_config(group: ProcessGroup | None = None) -> str:
    """Which backend serves which kind of device."""
    return repr(BackendConfig(get_backend(group)))


def get_process_group_ranks(group: ProcessGroup | None) -> Any:
    """The members' ranks in the world."""
    return list(resolve(group)._ranks)


def get_global_rank(group: ProcessGroup | None, group_rank: Any) -> Any:
    """The rank in the world of a member of a group."""
    ranks = resolve(group)._ranks
    if not 0 <= group_rank < len(ranks):
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return ranks[group_rank]


def get_group_rank(group: ProcessGroup | None, global_rank: Any) -> Any:
    """The rank in a group of one of the world."""
    ranks = resolve(group)._ranks
    if global_rank not in ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return ranks.index(global_rank)


def get_node_local_rank(fallback_rank: Any = None) -> int:
    """The number of this process on its machine, which the launcher says in LOCAL_RANK."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow "
        "`get_node_local_rank` to work in non-distributed environments"
    )


def get_pg_count() -> int:
    """How many groups there are."""
    return len(groups.by_name)
