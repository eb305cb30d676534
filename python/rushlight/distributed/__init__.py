"""Training in several processes, for a world of one: this process alone.

A program that is ready for many processes runs in one: collective operations have one member. More
than one process is refused, clearly, where the group is made.
"""

import datetime
import importlib
import os
from enum import Enum

import rushlight

_NOT_INITIALIZED = (
    "Default process group has not been initialized: call init_process_group first"
)
default_pg_timeout = datetime.timedelta(minutes=30)


class ReduceOp(Enum):
    """How the tensors of the members become one."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7


reduce_op = ReduceOp


class Backend(str):
    """The name of what carries the messages."""

    GLOO, NCCL, MPI, UCC, UNDEFINED = "gloo", "nccl", "mpi", "ucc", "undefined"


class ProcessGroup:
    """The members of collective operations: one process."""

    def __init__(self, backend="gloo"):
        self._backend = backend

    def rank(self):
        """The number of this process."""
        return 0

    def size(self):
        """How many members there are."""
        return 1

    def name(self):
        """What carries the messages."""
        return self._backend


class _GroupNames:
    @property
    def WORLD(self):
        return _world

    NON_GROUP_MEMBER = object()


group = GroupMember = _GroupNames()
_world = None


class Work:
    """What `async_op=True` returns; the operation has ended already."""

    def __init__(self, result=()):
        self._result = list(result)

    def wait(self, timeout=None):
        """Wait for the end."""
        return True

    def is_completed(self):
        """Has the operation ended?"""
        return True

    def is_success(self):
        """Has it ended well?"""
        return True

    def result(self):
        """The tensors it wrote."""
        return self._result

    def get_future(self):
        """A future of the result."""
        future = rushlight.futures.Future()
        future.set_result(self._result)
        return future


def is_available():
    """Can processes train together? Not yet; a world of one can be made all the same."""
    return False


def is_initialized():
    """Has init_process_group been called?"""
    return _world is not None


def is_nccl_available():
    """Is NCCL there?"""
    return False


def is_mpi_available():
    """Is MPI there?"""
    return False


def is_gloo_available():
    """Is Gloo there? A world of one needs none."""
    return False


def is_torchelastic_launched():
    """Did torchrun start this process?"""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def init_process_group(
    backend=None,
    init_method=None,
    timeout=None,
    world_size=-1,
    rank=-1,
    store=None,
    group_name="",
    pg_options=None,
    device_id=None,
):
    """Make the world, of this process alone.

    Args:
        backend: accepted; there are no messages to carry.
        world_size, rank: by default those in the environment (WORLD_SIZE, RANK), or 1 and 0.

    Raises:
        NotImplementedError: the world has more than one process.
    """
    global _world
    if _world is not None:
        raise ValueError("trying to initialize the default process group twice!")
    if backend == Backend.NCCL:
        raise RuntimeError(
            "init_process_group: NCCL needs GPUs, and there are none; use backend 'gloo'"
        )
    world_size = int(os.environ.get("WORLD_SIZE", 1)) if world_size < 0 else world_size
    rank = int(os.environ.get("RANK", 0)) if rank < 0 else rank
    if world_size != 1:
        raise NotImplementedError(
            "init_process_group: rushlight trains in one process so far, "
            f"and this is one of {world_size}"
        )
    if rank != 0:
        raise ValueError(f"init_process_group: rank {rank} is not in a world of 1")
    _world = ProcessGroup(backend or Backend.GLOO)


def destroy_process_group(group=None):
    """End the world."""
    global _world
    _check(group)
    _world = None


def _check(group=None):
    if _world is None:
        raise ValueError(_NOT_INITIALIZED)
    return _world if group is None else group


def new_group(ranks=None, timeout=None, backend=None, pg_options=None, **options):
    """A group of some of the members: of the one, or of none."""
    _check()
    if ranks is None or list(ranks) == [0]:
        return ProcessGroup(backend or _world.name())
    if list(ranks):
        raise ValueError(f"new_group: ranks {list(ranks)} are not in a world of 1")
    return GroupMember.NON_GROUP_MEMBER


def get_rank(group=None):
    """The number of this process: 0."""
    _check(group)
    return 0


def get_world_size(group=None):
    """How many members there are: 1."""
    _check(group)
    return 1


def get_backend(group=None):
    """What carries the messages, as init_process_group was told."""
    return _check(group).name()


def get_process_group_ranks(group):
    """The numbers of the members."""
    _check(group)
    return [0]


def get_global_rank(group, group_rank):
    """The number in the world of a member of a group."""
    return group_rank


def barrier(group=None, async_op=False, device_ids=None):
    """Wait for the other members: there are none."""
    return _done(group, async_op)


def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
    """Wait for the other members: there are none."""
    _check(group)


def _done(group, async_op, *written):
    _check(group)
    return Work(written) if async_op else None


def _check_member(rank, what):
    if rank not in (None, 0):
        raise ValueError(f"{what}: rank {rank} is not in a world of 1")


def all_reduce(tensor, op=ReduceOp.SUM, group=None, async_op=False):
    """Reduce the members' tensors into each of them: the one stays as it is."""
    return _done(group, async_op, tensor)


def reduce(tensor, dst=None, op=ReduceOp.SUM, group=None, async_op=False, group_dst=None):
    """Reduce the members' tensors into that of `dst`: the one stays as it is."""
    _check_member(dst, "reduce")
    return _done(group, async_op, tensor)


def broadcast(tensor, src=None, group=None, async_op=False, group_src=None):
    """Copy the tensor of `src` to all members."""
    _check_member(src, "broadcast")
    return _done(group, async_op, tensor)


def _copy_only(targets, source, what):
    if len(targets) != 1:
        raise ValueError(
            f"{what}: expected a list of 1 tensor, one for each member, got {len(targets)}"
        )
    with rushlight.no_grad():
        targets[0].copy_(source)


def all_gather(tensor_list, tensor, group=None, async_op=False):
    """Copy the tensors of all members into the list."""
    _check(group)
    _copy_only(tensor_list, tensor, "all_gather")
    return _done(group, async_op, *tensor_list)


def all_gather_into_tensor(output_tensor, input_tensor, group=None, async_op=False):
    """Copy the tensors of all members into one."""
    _check(group)
    with rushlight.no_grad():
        output_tensor.copy_(input_tensor.reshape(output_tensor.shape))
    return _done(group, async_op, output_tensor)


def gather(tensor, gather_list=None, dst=None, group=None, async_op=False, group_dst=None):
    """Copy the tensors of all members into the list of `dst`."""
    _check(group)
    _check_member(dst, "gather")
    _copy_only(gather_list or [], tensor, "gather")
    return _done(group, async_op, *gather_list)


def scatter(tensor, scatter_list=None, src=None, group=None, async_op=False, group_src=None):
    """Give each member a tensor of the list of `src`."""
    _check(group)
    _check_member(src, "scatter")
    if len(scatter_list or []) != 1:
        raise ValueError("scatter: expected a list of 1 tensor, one for each member")
    _copy_only([tensor], scatter_list[0], "scatter")
    return _done(group, async_op, tensor)


def reduce_scatter(output, input_list, op=ReduceOp.SUM, group=None, async_op=False):
    """Reduce the lists of all members, and give each member a tensor of the result."""
    return scatter(output, input_list, 0, group, async_op)


def reduce_scatter_tensor(output, input, op=ReduceOp.SUM, group=None, async_op=False):
    """Reduce the tensors of all members, and give each member a part of the result."""
    return all_gather_into_tensor(output, input, group, async_op)


def all_to_all(output_tensor_list, input_tensor_list, group=None, async_op=False):
    """Give each member a tensor of each list."""
    return scatter(output_tensor_list[0], input_tensor_list, 0, group, async_op)


def all_to_all_single(
    output, input, output_split_sizes=None, input_split_sizes=None, group=None, async_op=False
):
    """Give each member a part of each tensor."""
    return all_gather_into_tensor(output, input, group, async_op)


def all_gather_object(object_list, obj, group=None):
    """Gather an object of each member."""
    _check(group)
    object_list[0] = obj


def gather_object(obj, object_gather_list=None, dst=None, group=None, group_dst=None):
    """Gather an object of each member at `dst`."""
    _check_member(dst, "gather_object")
    all_gather_object(object_gather_list, obj, group)


def broadcast_object_list(object_list, src=None, group=None, device=None, group_src=None):
    """Copy objects from `src` to all members."""
    _check(group)
    _check_member(src, "broadcast_object_list")


def scatter_object_list(
    scatter_object_output_list, scatter_object_input_list=None, src=None, group=None, group_src=None
):
    """Give each member an object of the list of `src`."""
    _check(group)
    scatter_object_output_list[0] = scatter_object_input_list[0]


def send(tensor, dst=None, group=None, tag=0, group_dst=None):
    """Send a tensor to another member: there is none."""
    _check(group)
    raise ValueError(f"send: there is no other process than this one to be rank {dst}")


def recv(tensor, src=None, group=None, tag=0, group_src=None):
    """Receive a tensor from another member: there is none."""
    _check(group)
    raise ValueError(f"recv: there is no other process than this one to be rank {src}")


isend, irecv = send, recv


def __getattr__(name):
    if name in ("DeviceMesh", "init_device_mesh"):
        return getattr(importlib.import_module(f"{__name__}.device_mesh"), name)
    if name in ("algorithms", "device_mesh", "optim", "rpc", "tensor"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
