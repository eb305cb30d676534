"""Process groups: the world, its parts, and who is in them."""

from __future__ import annotations

import datetime
import os
import sys
from typing import NewType

import rushlight
from rushlight.distributed import _launchers
from rushlight.distributed._agreement import Call, agree
from rushlight.distributed._backends import Backend, BackendConfig, check_backend, creator
from rushlight.distributed._process_group import ProcessGroup, ProcessGroupGloo, default_pg_timeout
from rushlight.distributed._stores import PrefixStore
from rushlight.distributed._transport import Alone

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Any, NoReturn

_NOT_INITIALIZED = (
    "Default process group has not been initialized, please make sure to call init_process_group."
)
GroupName = NewType("GroupName", str)


def _time_limit(name, timeout, options, create):
    """The time-out of a group, which options of gloo may have, or None; what else they say raises.

    Args:
        name: of the function, for messages.
        timeout: what it was given.
        options: its pg_options, which a program's own backend understands.
        create: what makes groups of that backend, or None.
    """
    if options is not None and create is None:
        if not isinstance(options, ProcessGroupGloo.Options):
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
        self.default: ProcessGroup | None = None
        self.by_name: dict[str, ProcessGroup] = {}
        self.generation: int = 0  # of the world
        self.made: int = 0  # groups, for names

    @property
    def WORLD(self) -> ProcessGroup | None:
        """The group of all processes."""
        return self.default

    @WORLD.setter
    def WORLD(self, group: ProcessGroup | None) -> None:
        self.default = group

    NON_GROUP_MEMBER: Any = _NonMember()


groups = _Groups()
group: _Groups = groups
GroupMember: _Groups = groups


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
    chosen = default._backend if backend is None else Backend(backend)
    create = creator(chosen)
    timeout = _time_limit("new_group", timeout, pg_options, create)
    size = default.size()
    ranks = list(range(size)) if ranks is None else sorted(ranks)
    if len(set(ranks)) != len(ranks):
        raise ValueError(f"new_group: a rank is there twice in {ranks}")
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
            create, default._world, ranks.index(default.rank()), ranks, chosen,
            timeout or default._timeout, name, group_desc, pg_options,
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


def _resolve_own(group):
    """The group that an argument means, of which this process must be a member."""
    found = resolve(group)
    if found is None:
        raise ValueError("Invalid process group specified: this process is not in it")
    return found


def get_backend(group: ProcessGroup | None = None) -> Any:
    """What carries the messages, as the program has called it."""
    return _resolve_own(group)._backend


def get_backend_config(group: ProcessGroup | None = None) -> str:
    """Which backend serves which kind of device."""
    return repr(BackendConfig(get_backend(group)))


def get_process_group_ranks(group: ProcessGroup | None) -> Any:
    """The members' ranks in the world."""
    return list(_resolve_own(group)._ranks)


def get_global_rank(group: ProcessGroup | None, group_rank: Any) -> Any:
    """The rank in the world of a member of a group."""
    ranks = _resolve_own(group)._ranks
    if not 0 <= group_rank < len(ranks):
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return ranks[group_rank]


def get_group_rank(group: ProcessGroup | None, global_rank: Any) -> Any:
    """The rank in a group of one of the world."""
    ranks = _resolve_own(group)._ranks
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
