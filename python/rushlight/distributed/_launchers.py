"""Who started this process, and what its environment says of its rank."""

from __future__ import annotations

import collections
import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

Place = collections.namedtuple("Place", ["launcher", "rank", "world_size", "local_rank"])
Place.__doc__ = """What a launcher says: its name, and rank, world size and local rank."""

# Name of the launcher -> where it puts rank, world size and local rank.
_MPI = {
    "Open MPI": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    "MVAPICH": ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK"),
    "mpiexec": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
}
_SLURM = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")
_TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK")


def _place(launcher, names):
    rank, size, local = (os.environ.get(name) for name in names)
    if rank is None or size is None:
        return None
    return Place(launcher, int(rank), int(size), None if local is None else int(local))


def of_torchrun() -> Any:
    """What RANK and WORLD_SIZE say, or None."""
    return _place("torchrun", _TORCHRUN)


def of_mpi() -> Any:
    """What an MPI launcher says that has started this process itself, or None."""
    for launcher, names in _MPI.items():
        if launcher == "mpiexec" and not ("PMI_FD" in os.environ or "PMI_PORT" in os.environ):
            continue
        found = _place(launcher, names)
        if found is not None:
            return found
    return None


def of_slurm() -> Any:
    """What SLURM says of a task of a job step, or None."""
    if "SLURM_STEP_ID" not in os.environ and "SLURM_JOB_ID" not in os.environ:
        return None
    return _place("SLURM", _SLURM)


def first_host(nodes: Any) -> str:
    """The first of a list of nodes as SLURM writes it: `gpu[03-05,9],login1` gives `gpu03`."""
    match = re.match(r"([^,\[]+)(?:\[([^\],-]+)[^\]]*\]([^,]*))?", nodes)
    if match is None:
        raise ValueError(f"SLURM: cannot read the list of nodes {nodes!r}")
    return "".join(part or "" for part in match.groups())


def slurm_address() -> Any:
    """Where the ranks of a SLURM job meet: the first node, and a port made of the job's number."""
    nodes = os.environ.get("SLURM_STEP_NODELIST") or os.environ.get("SLURM_JOB_NODELIST")
    if nodes is None:
        raise ValueError("SLURM: neither SLURM_STEP_NODELIST nor SLURM_JOB_NODELIST is set")
    job = int(os.environ.get("SLURM_JOB_ID", "0"))
    step = int(os.environ.get("SLURM_STEP_ID", "0"))
    return first_host(nodes), 15000 + (job * 7 + step) % 45000
