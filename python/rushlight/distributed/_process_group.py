"""A group of processes, and which of its operations are performed how."""

from __future__ import annotations

import contextlib
import datetime
import sys
import threading

import rushlight
from rushlight import _ignored
from rushlight.distributed._backends import Backend, BackendConfig, BackendType
from rushlight.distributed._engine import Queue, Work
from rushlight.distributed._member import call_site
from rushlight.distributed._stores import PrefixStore
from rushlight.distributed._transport import Apart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import timedelta
    from typing import Any, NoReturn

    from typing_extensions import Self

    from rushlight import Tensor

default_pg_timeout: datetime.timedelta = datetime.timedelta(minutes=30)


class _Beginning(threading.local):
    """How this thread begins operations."""

    with_host_tensors = False  # of the CPU, in groups of backend "nccl"
    profiled_as: str | None = None
    timeout: timedelta | None = None  # instead of the group's


observers: list[Any] = []  # called with each operation that begins
_beginning = _Beginning()


@contextlib.contextmanager
def _begun_with(what: str, value: Any) -> Iterator[None]:
    before = getattr(_beginning, what)
    setattr(_beginning, what, value)
    try:
        yield
    finally:
        setattr(_beginning, what, before)


def host_tensors() -> contextlib.AbstractContextManager[None]:
    """Let the library itself exchange tensors of the CPU in groups of backend "nccl"."""
    return _begun_with("with_host_tensors", True)


def carries_host_tensors() -> bool:
    """Is this inside of host_tensors()?"""
    return _beginning.with_host_tensors


def record_comm(name: str) -> contextlib.AbstractContextManager[None]:
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
    return _begun_with("profiled_as", name)


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
        limit = timeout or _beginning.timeout or self._timeout
        work = Work(self._queue, None, call.text(), site, outputs, limit)
        work._steps = steps(work)
        on_gpu = next((t for t in outputs if isinstance(t, rushlight.Tensor) and t.is_cuda), None)
        if on_gpu is not None:
            self._place(work, on_gpu.device, steps, "message" if is_message else async_op)
        if _beginning.profiled_as is not None:
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

        with record_function(_beginning.profiled_as):
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
        from rushlight.distributed._group import groups, split_group

        if group_name is not None and group_name in groups.by_name:
            raise ValueError(f"ProcessGroup.split_group: there is a group {group_name} already")
        made = split_group(self, [list(ranks)], timeout, None, group_desc)
        if made is not None and group_name is not None:
            groups.by_name[group_name] = groups.by_name.pop(made._name)
            made._set_group_name(group_name)
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
        limit = getattr(opts, "timeout", None)
        if limit is not None and limit <= datetime.timedelta():
            limit = None
        with _begun_with("timeout", limit):
            work = getattr(_collectives, name)(*args, group=self, async_op=True, **kwargs)
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
    def options(self) -> Any:
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


def _duration(given):
    """A timedelta, or the seconds of one."""
    is_one = isinstance(given, datetime.timedelta)
    return given if is_one else datetime.timedelta(seconds=given)


class _GlooDevice:
    """A network by which a group of backend "gloo" was to reach others."""

    def __init__(self, hostname: str, interface: str) -> None:
        self.hostname = hostname
        self.interface = interface


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
        self.group_name: str = ""
        self.global_ranks_in_group: list[int] = []

    def __setattr__(self, name: str, value: Any) -> None:
        if name.strip("_") in ("devices", "threads"):
            _ignored.warn_once(
                f"ProcessGroupGloo.Options: {name} has no effect: MPI serves the backend 'gloo' "
                "and chooses the network"
            )
        super().__setattr__(name, _duration(value) if name == "_timeout" else value)


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

        limit = _duration(getattr(timeout, "_timeout", timeout))
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
