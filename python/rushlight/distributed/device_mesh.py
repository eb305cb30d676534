"""Processes as a mesh: rows and columns, each of which is a group."""

from __future__ import annotations

import math

import rushlight
from rushlight.distributed import _group

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from typing_extensions import Self

    from rushlight.distributed import ProcessGroup


class DeviceMesh:
    """Processes in an array of any number of dims. Along each dim those that differ in that
    coordinate alone form a group.

    Args:
        device_type: "cpu", or "cuda" where there are GPUs.
        mesh: the ranks, as a tensor or as nested lists.
        mesh_dim_names: a name for each dim.

    Example:
        >>> rushlight.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> names = ("data", "model")
        >>> mesh = rushlight.distributed.init_device_mesh("cpu", (1, 1), mesh_dim_names=names)
        >>> mesh["model"].size()
        1
        >>> rushlight.distributed.destroy_process_group()
    """

    def __init__(
        self,
        device_type: Any,
        mesh: Any,
        *,
        mesh_dim_names: Any = None,
        _groups: Any = None,
        _root: Any = None,
        _parts: Any = None,
        _init_backend: bool = True,
    ) -> None:
        there_are = ("cpu", "cuda") if rushlight.cuda.is_available() else ("cpu",)
        if ":" in device_type:
            raise RuntimeError(
                f"DeviceMesh: Device type with index is not supported: got {device_type!r}, give "
                "`device.type`"
            )
        if device_type not in there_are:
            raise RuntimeError(
                f"DeviceMesh: no devices of type {device_type!r}, there is {', '.join(there_are)}"
            )
        self.device_type = device_type
        self.mesh: Any = rushlight.as_tensor(mesh, dtype=rushlight.int32).detach().contiguous()
        self.mesh_dim_names: Any = None if mesh_dim_names is None else tuple(mesh_dim_names)
        if self.mesh_dim_names is not None:
            if len(self.mesh_dim_names) != self.mesh.dim():
                raise RuntimeError(
                    f"mesh_dim_names must have {self.mesh.dim()} names, one for each dim, got "
                    f"{self.mesh_dim_names}"
                )
            if len(set(self.mesh_dim_names)) != len(self.mesh_dim_names):
                raise RuntimeError(f"Each mesh_dim_name must be unique, got {self.mesh_dim_names}")
        self._root = _root
        # For each dim, those of the root mesh that it consists of.
        self._parts = _parts or [(i,) for i in range(self.mesh.dim())]
        self._flattened = {}
        self._groups: list[Any] = _groups or []
        self._coordinate = None
        if not _init_backend and not _group.is_initialized():
            return
        if not _group.is_initialized():
            _group.init_process_group("gloo" if device_type == "cpu" else None)
        rank, size = _group.get_rank(), _group.get_world_size()
        if device_type == "cuda" and not rushlight.cuda.is_initialized():
            # The program has not chosen one: processes of a machine share its GPUs out.
            rushlight.cuda.set_device(
                _group.get_node_local_rank(rank) % rushlight.cuda.device_count()
            )
        if _root is None and self.mesh.numel() > size:
            raise RuntimeError(
                f"Mesh should not be bigger than default world size {size}, but found "
                f"{self.mesh.numel()} ranks!"
            )
        where = (self.mesh == rank).nonzero().tolist()
        self._coordinate = tuple(where[0]) if where else None
        if _groups is None and _init_backend:
            self._groups = self._make_groups(rank)

    def _make_groups(self, rank):
        if self.mesh.dim() == 1 and self.mesh.tolist() == list(range(_group.get_world_size())):
            return [_group.default_group()]
        groups = []
        for dim in range(self.mesh.dim()):
            lines, mine = self.mesh.movedim(dim, -1).reshape(-1, self.mesh.size(dim)), None
            name = self.mesh_dim_names[dim] if self.mesh_dim_names else str(dim)
            for line in lines.tolist():
                made = _group.new_group(line, group_desc=f"mesh_{name}")
                mine = made if rank in line else mine
            groups.append(mine)
        return groups

    @property
    def ndim(self) -> Any:
        """How many dims the mesh has."""
        return self.mesh.dim()

    @property
    def shape(self) -> Any:
        """How many processes there are along each dim."""
        return tuple(self.mesh.shape)

    def size(self, mesh_dim: Any = None) -> Any:
        """How many processes there are, in all or along a dim."""
        return self.mesh.numel() if mesh_dim is None else self.mesh.size(mesh_dim)

    def _dim(self, mesh_dim):
        if isinstance(mesh_dim, str):
            if self.mesh_dim_names is None or mesh_dim not in self.mesh_dim_names:
                raise KeyError(
                    f"Mesh dimension {mesh_dim!r} does not exist: the mesh has "
                    f"{self.mesh_dim_names}"
                )
            return self.mesh_dim_names.index(mesh_dim)
        return mesh_dim

    def get_group(self, mesh_dim: Any = None) -> Any:
        """The group of this process along a dim, given by its number or name."""
        if mesh_dim is None:
            if self.ndim != 1:
                raise RuntimeError(
                    f"Found the DeviceMesh have {self.ndim} dimensions. Optional kwarg `mesh_dim` "
                    "needs to be specified when device_mesh.ndim > 1."
                )
            mesh_dim = 0
        flattened = self._get_root_mesh()._flattened
        if mesh_dim in flattened:
            return flattened[mesh_dim].get_group()
        dim = self._dim(mesh_dim)
        if not self._groups:
            raise RuntimeError("DeviceMesh process groups not initialized!")
        return self._groups[dim]

    def get_all_groups(self) -> Any:
        """The groups of this process, one for each dim."""
        return list(self._groups)

    def get_rank(self) -> Any:
        """The rank of this process in the world."""
        return _group.get_rank()

    def get_local_rank(self, mesh_dim: Any = None) -> Any:
        """The number of this process along a dim."""
        return _group.get_rank(self.get_group(mesh_dim))

    def get_coordinate(self) -> Any:
        """Where this process is; None if it is not in the mesh."""
        return self._coordinate

    def _get_root_mesh(self):
        """The mesh of which this one is a part, or itself."""
        return self._root or self

    def __getitem__(self, names: str | Sequence[str]) -> Any:
        """The part of the mesh along named dims in which this process is."""
        names = (names,) if isinstance(names, str) else tuple(names)
        if self.mesh_dim_names is None:
            raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        if names == self.mesh_dim_names:
            return self
        root = self._get_root_mesh()
        known = {name: (self, i) for i, name in enumerate(self.mesh_dim_names)}
        known.update((name, (flat, 0)) for name, flat in root._flattened.items())
        for name in names:
            if name not in known:
                raise KeyError(
                    f"Invalid mesh_dim_names {names}: {name!r} does not exist, there are "
                    f"{tuple(known)}"
                )
        if len(names) == 1 and known[names[0]][0] is not self:
            return known[names[0]][0]
        parts = [mesh._parts[i] for mesh, i in map(known.get, names)]
        dims = [dim for part in parts for dim in part]
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"Slicing overlapping dim_names {names} is not allowed.")
        if dims != sorted(dims):
            raise KeyError(f"Invalid mesh_dim_names {names} specified: keep the order of the mesh")
        if root._coordinate is None:
            raise RuntimeError("DeviceMesh: this process is not in the mesh")
        place = tuple(
            slice(None) if dim in dims else root._coordinate[dim] for dim in range(root.ndim)
        )
        sizes = [math.prod(root.mesh.size(dim) for dim in part) for part in parts]
        return DeviceMesh(
            self.device_type,
            root.mesh[place].reshape(sizes),
            mesh_dim_names=names,
            _groups=[mesh.get_group(i) for mesh, i in map(known.get, names)],
            _root=root,
            _parts=parts,
        )

    def _flatten(self, mesh_dim_name=None):
        """A mesh of one dim of all processes in this one."""
        name = mesh_dim_name or "_".join(self.mesh_dim_names or ("flat",))
        if self.mesh_dim_names == (name,):
            return self
        root = self._get_root_mesh()
        dims = tuple(dim for part in self._parts for dim in part)
        if root.mesh_dim_names is not None and name in root.mesh_dim_names:
            raise ValueError(f"{name} already exists as a dim of {root}: give another name")
        if name in root._flattened:
            if root._flattened[name]._parts != [dims]:
                raise ValueError(
                    f"Flatten mesh with mesh_dim_name {name} has been created before, of other "
                    "dims: give another name"
                )
            return root._flattened[name]
        # Every process of the world makes the groups of all parts like this one.
        others = [dim for dim in range(root.ndim) if dim not in dims]
        lines = root.mesh.permute(*others, *dims).reshape(-1, self.mesh.numel()).tolist()
        mine = None
        for line in lines:
            made = _group.new_group(line, group_desc=f"mesh_{name}")
            mine = made if _group.get_rank() in line else mine
        flat = DeviceMesh(
            self.device_type, self.mesh.reshape(-1), mesh_dim_names=(name,), _groups=[mine],
            _root=root, _parts=[dims],
        )  # fmt: skip
        root._flattened[name] = flat
        return flat

    def _get_all_submeshes(self, mesh_dim_name):
        """The meshes along a dim of all processes, of which one has this process."""
        dim = self._dim(mesh_dim_name)
        return [
            DeviceMesh(
                self.device_type, line, mesh_dim_names=(mesh_dim_name,), _init_backend=False,
                _groups=[self._groups[dim]] if _group.get_rank() in line.tolist() else [],
                _root=self, _parts=[(dim,)],
            )
            for line in self.mesh.movedim(dim, -1).reshape(-1, self.mesh.size(dim))
        ]  # fmt: skip

    @staticmethod
    def from_group(
        group: ProcessGroup | None,
        device_type: Any,
        mesh: Any = None,
        *,
        mesh_dim_names: Any = None,
    ) -> Any:
        """A mesh of one dim for a group, or of several for a list of groups with their mesh."""
        if isinstance(group, (list, tuple)):
            if mesh is None or len(group) != rushlight.as_tensor(mesh).dim():
                raise ValueError("from_group: several groups need a mesh with a dim for each")
            if mesh_dim_names is None and len(group) > 1:
                raise ValueError("from_group: several groups need mesh_dim_names")
            groups = list(group)
        else:
            groups, ranks = [group], _group.get_process_group_ranks(group)
            mesh = ranks if mesh is None else mesh
            if rushlight.as_tensor(mesh).tolist() != ranks:
                raise ValueError(
                    f"from_group: Invalid mesh {mesh} for ProcessGroup with ranks {ranks}"
                )
        return DeviceMesh(
            device_type, mesh, mesh_dim_names=mesh_dim_names, _groups=groups, _root=None
        )

    def __getstate__(self) -> Any:
        """What a file holds: groups by their names, which are there when it is read again."""
        names = [None if group is None else group.group_name for group in self._groups]
        return {**vars(self), "_groups": names}

    def __setstate__(self, state: Any) -> None:
        names = state["_groups"]
        vars(self).update(state, _groups=[_group.groups.by_name.get(name) for name in names])

    def __enter__(self) -> Self:
        _stack.append(self)
        return self

    def __exit__(self, *error: Any) -> None:
        _stack.pop()

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, DeviceMesh)
            and self.device_type == other.device_type
            and self.mesh.tolist() == other.mesh.tolist()
            and self.mesh_dim_names == other.mesh_dim_names
        )

    def __hash__(self) -> int:
        return hash((self.device_type, str(self.mesh.tolist()), self.mesh_dim_names))

    def __repr__(self) -> str:
        names = f", mesh_dim_names={self.mesh_dim_names}" if self.mesh_dim_names else ""
        return f"DeviceMesh('{self.device_type}', {self.mesh.tolist()}{names})"


_stack = []


class _MeshResources:
    """What libraries ask of meshes by an older path."""

    mesh_stack = _stack

    def get_current_mesh(self):
        """The mesh that is active."""
        if not _stack:
            raise RuntimeError("No device mesh is currently active!")
        return _stack[-1]

    def get_root_mesh(self, device_mesh):
        """The mesh of which this one is a part, or itself."""
        return device_mesh._get_root_mesh()

    def get_root_mesh_dim(self, device_mesh):
        """The dim of the root mesh that a mesh of one dim is; None if it is none."""
        (part, *others) = device_mesh._parts
        is_dim = device_mesh._root is not None and not others and len(part) == 1
        return part[0] if is_dim else None

    def get_mesh_dim_by_name(self, device_mesh, mesh_dim_name):
        """The number of a dim by its name."""
        return device_mesh._dim(mesh_dim_name)


_mesh_resources = _MeshResources()


def init_device_mesh(
    device_type: Any, mesh_shape: Any, *, mesh_dim_names: Any = None, backend_override: Any = None
) -> Any:
    """All processes as a mesh of this shape, in the order of their ranks.

    Args:
        device_type: "cpu", or "cuda" where there are GPUs.
        mesh_shape: how many processes there are along each dim.
        mesh_dim_names: a name for each dim.
        backend_override: None.
    """
    if backend_override is not None:
        raise NotImplementedError("init_device_mesh: backend_override is not supported")
    if mesh_dim_names is not None and len(mesh_dim_names) != len(mesh_shape):
        raise RuntimeError(
            "mesh_shape and mesh_dim_names should have same length! Got "
            f"{tuple(mesh_shape)} and {tuple(mesh_dim_names)}"
        )
    count = math.prod(mesh_shape)
    mesh = rushlight.arange(count).view(*mesh_shape)
    return DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names)


__all__ = ["DeviceMesh", "init_device_mesh"]
