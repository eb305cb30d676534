"""Dividing the layers of a module."""

from __future__ import annotations

import fnmatch

from rushlight._ignored import warn_program as _warn_program
from rushlight.distributed.tensor._dtensor import _mesh_or_current
from rushlight.distributed.tensor.parallel.style import ParallelStyle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.distributed.device_mesh import DeviceMesh
    from rushlight.nn.modules.module import Module


def parallelize_module(
    module: Module,
    device_mesh: DeviceMesh | None = None,
    parallelize_plan: Any = None,
    *,
    src_data_rank: int | None = 0,
) -> Any:
    """Divide the layers of a module among processes.

    Args:
        module: changed in place.
        device_mesh: the processes, a mesh of one dim.
        parallelize_plan: a ParallelStyle for the module, or one for each of its submodules that a
            name means: {"layers.*.first": ColwiseParallel()}.
        src_data_rank: whose parameters count.

    Example:
        >>> rushlight.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> mesh = rushlight.distributed.init_device_mesh("cpu", (1,))
        >>> net = rushlight.nn.Sequential(rushlight.nn.Linear(2, 4), rushlight.nn.Linear(4, 2))
        >>> net = parallelize_module(net, mesh, {"0": ColwiseParallel(), "1": RowwiseParallel()})
        >>> net(rushlight.ones(1, 2)).shape
        torch.Size([1, 2])
        >>> rushlight.distributed.destroy_process_group()
    """
    mesh = _mesh_or_current(device_mesh)
    if mesh.ndim != 1:
        raise ValueError(f"parallelize_module: the mesh must have one dim, got {mesh.ndim}")
    if parallelize_plan is None:
        _warn_program("No parallelize_plan is provided: nothing is divided")
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, dict):
        raise TypeError(
            "Expect Union[ParallelStyle, Dict[str, ParallelStyle]] for parallelize_plan, "
            f"{type(parallelize_plan)} found!"
        )
    for pattern, style in parallelize_plan.items():
        pieces = pattern.split(".") if pattern else []
        found = [module]
        for piece in pieces:
            found = [
                child
                for one in found
                for name, child in one.named_children()
                if fnmatch.fnmatch(name, piece)
            ]
        if not found:
            _warn_program(f"Parallelize plan key {pattern!r} could not be resolved")
        for one in found:
            parallelize_module(one, mesh, style, src_data_rank=src_data_rank)
    return module
