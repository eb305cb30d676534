"""Tensors spread over several processes, which do not exist here: names for programs that ask."""


class DTensor:
    """A tensor spread over processes: no object is one."""


class Placement:
    """How a tensor is spread: no object is one."""


class Shard(Placement):
    """Along a dim."""


class Replicate(Placement):
    """Whole in each process."""


class Partial(Placement):
    """To be summed up."""


class DeviceMesh:
    """Processes in rows and columns; raises NotImplementedError."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError("DeviceMesh: rushlight trains in one process so far")


def distribute_tensor(tensor, device_mesh=None, placements=None, **options):
    """Raises NotImplementedError."""
    raise NotImplementedError("distribute_tensor: rushlight trains in one process so far")


def distribute_module(module, device_mesh=None, *args, **options):
    """Raises NotImplementedError."""
    raise NotImplementedError("distribute_module: rushlight trains in one process so far")


__all__ = [
    "DTensor",
    "DeviceMesh",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "distribute_module",
    "distribute_tensor",
]
