"""DTensors that are made in parts: no process needs the whole."""

from __future__ import annotations

import contextlib

import rushlight
from rushlight.distributed import _collectives as collectives
from rushlight.distributed._process_group import host_tensors
from rushlight.distributed.tensor._dtensor import DTensor, _mesh_or_current, _normal
from rushlight.distributed.tensor._redistribute import local_of
from rushlight.distributed.tensor.placement_types import Replicate, part_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rushlight import Tensor
    from rushlight.distributed.device_mesh import DeviceMesh
    from rushlight.distributed.tensor.placement_types import Placement
    from rushlight.types import Number, _dtype, _layout


def _sizes(name, size):
    if len(size) == 1 and isinstance(size[0], (list, tuple)):
        size = size[0]
    if not all(isinstance(length, int) and length >= 0 for length in size):
        raise TypeError(f"distributed.tensor.{name}: expected sizes as integers, got {size}")
    return rushlight.Size(size)


def _place(name, shape, device_mesh, placements, layout):
    """The mesh and the placements that arguments mean."""
    if layout is not rushlight.strided:
        raise ValueError(f"distributed.tensor.{name}: layout must be strided, got {layout}")
    mesh = _mesh_or_current(device_mesh)
    placements = _normal(placements or None, mesh, len(shape))
    if any(placement.is_partial() for placement in placements):
        raise ValueError(
            f"distributed.tensor.{name}: placements must be Shard or Replicate, got {placements}"
        )
    return mesh, placements


def _made(name, make: Callable[..., Tensor], size, dtype, layout, requires_grad, mesh, placements):
    shape = _sizes(name, size)
    mesh, placements = _place(name, shape, mesh, placements, layout)
    place = mesh.get_coordinate()
    lengths = [0] if place is None else part_at(shape, mesh.mesh.shape, place, placements)[0]
    local = make(lengths, dtype=dtype).to(mesh.device_type)
    return DTensor._make(local, mesh, placements, shape).requires_grad_(requires_grad)


def agreed_generator(mesh: DeviceMesh) -> rushlight.Generator:
    """A generator with the same seed in all processes of a mesh, drawn by the first."""
    seed = rushlight.randint(0, 2**62, ())
    with host_tensors():
        for i in range(mesh.ndim if mesh.get_coordinate() is not None else 0):
            if mesh.size(i) > 1:
                collectives.broadcast(seed, group=mesh.get_group(i), group_src=0)
    return rushlight.Generator().manual_seed(int(seed))


@contextlib.contextmanager
def agreed_draws(mesh: DeviceMesh, placements: Sequence[Placement] = ()) -> Iterator[None]:
    """A context in which the default generator draws the same numbers in all processes, but other
    ones where `placements` divide the tensor.
    """
    seed = agreed_generator(mesh).initial_seed()
    for i, placement in enumerate(placements):
        if placement._divides():
            seed = (seed * 1_000_003 + mesh.get_local_rank(i) + 1) % 2**62
    state = rushlight.get_rng_state()
    rushlight.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        rushlight.set_rng_state(state)


def _random(name, size, dtype, layout, requires_grad, mesh, placements):
    """Numbers that do not depend on how the tensor lies: the whole is drawn by one seed."""
    shape = _sizes(name, size)
    mesh, placements = _place(name, shape, mesh, placements, layout)
    whole = getattr(rushlight, name)(shape, dtype=dtype, generator=agreed_generator(mesh))
    whole = whole.to(mesh.device_type)
    if mesh.get_coordinate() is None:
        whole = whole.new_empty(0)
    local = local_of(whole, shape, mesh, (Replicate(),) * mesh.ndim, placements)
    return DTensor._make(local, mesh, placements, shape).requires_grad_(requires_grad)


def ones(
    *size: int | Sequence[int],
    dtype: _dtype | None = None,
    layout: _layout = rushlight.strided,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """A DTensor of ones, of which each process makes its part.

    Args:
        size: the sizes of the whole, as integers or as one list.
        dtype: the default dtype if it is None.
        layout: strided.
        requires_grad: let autograd record what is done with it.
        device_mesh: the processes; by default the mesh that is active.
        placements: Shard or Replicate for each dim of the mesh; Replicate by default.

    Raises:
        ValueError: `placements` do not fit the mesh, or one is Partial.

    Example:
        >>> import rushlight.distributed as dist
        >>> dist.init_process_group("gloo", rank=0, world_size=1)
        >>> mesh = dist.init_device_mesh("cpu", (1,))
        >>> ones(4, 3, device_mesh=mesh, placements=[Shard(0)]).shape
        torch.Size([4, 3])
        >>> dist.destroy_process_group()
    """
    return _made(
        "ones", rushlight.ones, size, dtype, layout, requires_grad, device_mesh, placements
    )


def zeros(
    *size: int | Sequence[int],
    dtype: _dtype | None = None,
    layout: _layout = rushlight.strided,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """A DTensor of zeros, of which each process makes its part.

    Args:
        size: the sizes of the whole, as integers or as one list.
        dtype: the default dtype if it is None.
        layout: strided.
        requires_grad: let autograd record what is done with it.
        device_mesh: the processes; by default the mesh that is active.
        placements: Shard or Replicate for each dim of the mesh; Replicate by default.

    Raises:
        ValueError: `placements` do not fit the mesh, or one is Partial.

    Example:
        >>> import rushlight.distributed as dist
        >>> dist.init_process_group("gloo", rank=0, world_size=1)
        >>> mesh = dist.init_device_mesh("cpu", (1,))
        >>> zeros(4, 3, device_mesh=mesh, placements=[Shard(0)]).shape
        torch.Size([4, 3])
        >>> dist.destroy_process_group()
    """
    return _made(
        "zeros", rushlight.zeros, size, dtype, layout, requires_grad, device_mesh, placements
    )


def empty(
    *size: int | Sequence[int],
    dtype: _dtype | None = None,
    layout: _layout = rushlight.strided,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """A DTensor of elements that nobody has written, of which each process makes its part.

    Args:
        size: the sizes of the whole, as integers or as one list.
        dtype: the default dtype if it is None.
        layout: strided.
        requires_grad: let autograd record what is done with it.
        device_mesh: the processes; by default the mesh that is active.
        placements: Shard or Replicate for each dim of the mesh; Replicate by default.

    Raises:
        ValueError: `placements` do not fit the mesh, or one is Partial.

    Example:
        >>> import rushlight.distributed as dist
        >>> dist.init_process_group("gloo", rank=0, world_size=1)
        >>> mesh = dist.init_device_mesh("cpu", (1,))
        >>> empty(4, 3, device_mesh=mesh, placements=[Shard(0)]).shape
        torch.Size([4, 3])
        >>> dist.destroy_process_group()
    """
    return _made(
        "empty", rushlight.empty, size, dtype, layout, requires_grad, device_mesh, placements
    )


def rand(
    *size: int | Sequence[int],
    dtype: _dtype | None = None,
    layout: _layout = rushlight.strided,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """A DTensor of numbers drawn uniformly from [0, 1), the same ones however it lies.

    Each process draws the whole for a moment, by a seed of the first one.

    Args:
        size: the sizes of the whole, as integers or as one list.
        dtype: the default dtype if it is None.
        layout: strided.
        requires_grad: let autograd record what is done with it.
        device_mesh: the processes; by default the mesh that is active.
        placements: Shard or Replicate for each dim of the mesh; Replicate by default.

    Raises:
        ValueError: `placements` do not fit the mesh, or one is Partial.

    Example:
        >>> import rushlight.distributed as dist
        >>> dist.init_process_group("gloo", rank=0, world_size=1)
        >>> mesh = dist.init_device_mesh("cpu", (1,))
        >>> rand(4, 3, device_mesh=mesh, placements=[Shard(0)]).shape
        torch.Size([4, 3])
        >>> dist.destroy_process_group()
    """
    return _random("rand", size, dtype, layout, requires_grad, device_mesh, placements)


def randn(
    *size: int | Sequence[int],
    dtype: _dtype | None = None,
    layout: _layout = rushlight.strided,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """A DTensor of numbers of the normal distribution, the same ones however it lies.

    Each process draws the whole for a moment, by a seed of the first one.

    Args:
        size: the sizes of the whole, as integers or as one list.
        dtype: the default dtype if it is None.
        layout: strided.
        requires_grad: let autograd record what is done with it.
        device_mesh: the processes; by default the mesh that is active.
        placements: Shard or Replicate for each dim of the mesh; Replicate by default.

    Raises:
        ValueError: `placements` do not fit the mesh, or one is Partial.

    Example:
        >>> import rushlight.distributed as dist
        >>> dist.init_process_group("gloo", rank=0, world_size=1)
        >>> mesh = dist.init_device_mesh("cpu", (1,))
        >>> randn(4, 3, device_mesh=mesh, placements=[Shard(0)]).shape
        torch.Size([4, 3])
        >>> dist.destroy_process_group()
    """
    return _random("randn", size, dtype, layout, requires_grad, device_mesh, placements)


def full(
    size: Sequence[int],
    fill_value: Number,
    *,
    dtype: _dtype | None = None,
    layout: _layout = rushlight.strided,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """A DTensor of one value, of which each process makes its part.

    Args:
        size: the sizes of the whole.
        fill_value: the value.
        others: see ones.

    Example:
        >>> import rushlight.distributed as dist
        >>> dist.init_process_group("gloo", rank=0, world_size=1)
        >>> full((2,), 7, device_mesh=dist.init_device_mesh("cpu", (1,))).full_tensor()
        tensor([7, 7])
        >>> dist.destroy_process_group()
    """

    def make(shape, dtype):
        return rushlight.full(shape, fill_value, dtype=dtype)

    return _made("full", make, (size,), dtype, layout, requires_grad, device_mesh, placements)


__all__ = ["empty", "full", "ones", "rand", "randn", "zeros"]
