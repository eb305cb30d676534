"""Training in several processes, on one machine or on many.

    import rushlight.distributed as dist

    dist.init_process_group("gloo")    # meets the others as the launcher has arranged
    dist.all_reduce(tensor)

MPI carries the tensors (`pip install "rushlight[mpi]"`), whatever has started the processes:
`python -m rushlight.distributed.run`, `multiprocessing.spawn`, mpiexec, SLURM or Ray. A process
alone needs no MPI. docs/distributed.md has the launchers and what happens when a rank fails.
"""

from __future__ import annotations

import importlib
import importlib.util
import os

from rushlight import _absent
from rushlight._enums import NumberedEnum as _NumberedEnum
from rushlight._set_module import set_module
from rushlight.distributed._backends import Backend as Backend, BackendConfig as BackendConfig
from rushlight.distributed._group import (
    GroupMember as GroupMember,
    GroupName as GroupName,
    destroy_process_group as destroy_process_group,
    get_backend as get_backend,
    get_backend_config as get_backend_config,
    get_global_rank as get_global_rank,
    get_group_rank as get_group_rank,
    get_node_local_rank as get_node_local_rank,
    get_pg_count as get_pg_count,
    get_process_group_ranks as get_process_group_ranks,
    get_rank as get_rank,
    get_world_size as get_world_size,
    group as group,
    init_process_group as init_process_group,
    is_available as is_available,
    is_initialized as is_initialized,
    new_group as new_group,
    new_subgroups as new_subgroups,
    new_subgroups_by_enumeration as new_subgroups_by_enumeration,
    shrink_group as shrink_group,
    split_group as split_group,
)
from rushlight.distributed._process_group import (
    ProcessGroup as ProcessGroup,
    ProcessGroupGloo as ProcessGroupGloo,
    default_pg_timeout as default_pg_timeout,
    record_comm as record_comm,
)
from rushlight.distributed._reduction import ReduceOp as ReduceOp
from rushlight.distributed.rendezvous import (
    register_rendezvous_handler as register_rendezvous_handler,
    rendezvous as rendezvous,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.types import Device

reduce_op = ReduceOp


def is_nccl_available() -> bool:
    """Is NCCL there, and a GPU?"""
    from rushlight.distributed import _nccl

    return _nccl.is_available()


def is_mpi_available() -> bool:
    """Is MPI there, by mpi4py?"""
    return importlib.util.find_spec("mpi4py") is not None


def is_gloo_available() -> bool:
    """Can a program ask for "gloo"? It can: MPI serves it, and a process alone needs nothing."""
    return True


def is_ucc_available() -> bool:
    """Is UCC there? No."""
    return False


def is_xccl_available() -> bool:
    """Is XCCL there? No."""
    return False


def is_backend_available(backend: Any) -> Any:
    """Can a program ask for this backend?"""
    name = backend.lower()
    known = globals().get(f"is_{name}_available")
    return name in Backend.backend_list if known is None else known()


def is_torchelastic_launched() -> bool:
    """Did torchrun, or `rushlight.distributed.run`, start this process?"""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


class DebugLevel(_NumberedEnum):
    """How much is checked: what TORCH_DISTRIBUTED_DEBUG says."""

    OFF, INFO, DETAIL = range(3)


def get_debug_level() -> DebugLevel:
    """What TORCH_DISTRIBUTED_DEBUG says."""
    level = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF")
    if level.upper() not in DebugLevel.__members__:
        raise ValueError(
            f"The value of TORCH_DISTRIBUTED_DEBUG must be OFF, INFO, or DETAIL, but got {level!r}"
        )
    return DebugLevel[level.upper()]


def set_debug_level(level: DebugLevel) -> None:
    """Set what TORCH_DISTRIBUTED_DEBUG says."""
    if not isinstance(level, DebugLevel):
        raise TypeError(f"set_debug_level: expected a DebugLevel, got {level!r}")
    os.environ["TORCH_DISTRIBUTED_DEBUG"] = level.name


def supports_complex(reduceOp: Any) -> bool:
    """Can complex tensors be reduced so?"""
    return reduceOp in (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PRODUCT)


def get_default_backend_for_device(device: Device) -> Any:
    """What a program asks for, for tensors of a device."""
    kind = str(device).partition(":")[0]
    backend = {"cpu": "gloo", "cuda": "nccl"}.get(kind)
    if backend is None:
        raise ValueError(f"Default backend not registered for device : {device}")
    return backend


def set_debug_level_from_env() -> None:
    """Check what TORCH_DISTRIBUTED_DEBUG says, which is read whenever it matters."""
    get_debug_level()


# Module -> the names in it that are this package's.
_ELSEWHERE = {
    "_collectives": (
        "_coalescing_manager", "all_gather", "all_gather_coalesced", "all_gather_into_tensor",
        "all_reduce", "all_reduce_coalesced", "all_to_all", "all_to_all_single", "barrier",
        "broadcast", "gather", "monitored_barrier", "reduce", "reduce_scatter",
        "reduce_scatter_tensor", "scatter",
    ),
    "_messages": ("P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send"),
    "_objects": (
        "all_gather_object", "broadcast_object_list", "gather_object", "recv_object_list",
        "scatter_object_list", "send_object_list",
    ),
    "_debugging": ("breakpoint",),
    "_options": (
        "AllToAllOptions", "AllreduceCoalescedOptions", "AllreduceOptions", "BarrierOptions",
        "BroadcastOptions", "BuiltinCommHookType", "GatherOptions", "ReduceOptions",
        "ReduceScatterOptions", "ScatterOptions",
    ),
    "_reducer": ("GradBucket",),
    "_errors": (
        "DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "QueueEmptyError",
    ),
    "_stores": ("FileStore", "HashStore", "PrefixStore", "Store"),
    "_tcp_store": ("TCPStore",),
    "_engine": ("Work",),
    "device_mesh": ("DeviceMesh", "init_device_mesh"),
}  # fmt: skip
_HOME = {name: module for module, names in _ELSEWHERE.items() for name in names}
# What torch has in distributed_c10d.
_OF_C10D = frozenset(("_collectives", "_engine", "_messages", "_objects", "_options"))
_SUBPACKAGES = (
    "algorithms", "argparse_util", "autograd", "checkpoint", "collective_utils", "config", "debug",
    "device_mesh", "distributed_c10d", "elastic", "flight_recorder", "fsdp", "launch", "launcher",
    "nn", "optim", "pipelining", "ray", "rpc", "run", "tensor",
)  # fmt: skip
# Other names of the same.
_ALIASES = {
    "_Work": "Work",
    "_all_gather_base": "all_gather_into_tensor",
    "_reduce_scatter_base": "reduce_scatter_tensor",
    "all_gather_single": "all_gather_into_tensor",
    "reduce_scatter_single": "reduce_scatter_tensor",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
        if (_HOME[name] in _OF_C10D or name in ("PrefixStore", "Store")) and (
            name != "BuiltinCommHookType"
        ):
            set_module("rushlight.distributed.distributed_c10d", value)
        globals()[name] = value
        return value
    if name in _ALIASES:
        return __getattr__(_ALIASES[name])
    if name in _SUBPACKAGES and importlib.util.find_spec(f"{__name__}.{name}") is not None:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _make_nccl_premul_sum(factor):
    """A ReduceOp: the sum of tensors that are multiplied by a factor first."""
    from rushlight.distributed._reduction import PremultipliedSum

    return PremultipliedSum(factor)


globals().update(
    _absent.refused(
        {
            "Logger": "DistributedDataParallel keeps no log; _get_ddp_logging_data() says how it "
            "is set up",
            "Reducer": "DistributedDataParallel reduces gradients",
        }
    )
)


def __dir__() -> list[str]:
    shown = {alias for alias in _ALIASES if not alias.startswith("_")}
    return sorted({*globals(), *_HOME, *_SUBPACKAGES, *shown})


set_module(
    "rushlight.distributed.distributed_c10d", Backend, BackendConfig, DebugLevel, GroupName,
    ProcessGroup, ProcessGroupGloo, ReduceOp, destroy_process_group, get_backend,
    get_backend_config, get_debug_level,
    get_default_backend_for_device, get_global_rank, get_group_rank, get_node_local_rank,
    get_pg_count, get_process_group_ranks, get_rank, get_world_size, init_process_group,
    is_backend_available, is_gloo_available, is_initialized, is_mpi_available, is_nccl_available,
    is_torchelastic_launched, is_ucc_available, is_xccl_available, new_group, new_subgroups,
    new_subgroups_by_enumeration, record_comm, shrink_group, split_group, supports_complex,
)  # fmt: skip
set_module("rushlight.distributed", is_available)
