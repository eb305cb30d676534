"""A tensor that lies in parts in several processes."""

from __future__ import annotations

import copy
import inspect

import rushlight
from rushlight import Tensor
from rushlight._ignored import warn_program
from rushlight.distributed import _collectives as collectives, _objects as objects
from rushlight.distributed.device_mesh import DeviceMesh, _stack
from rushlight.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from rushlight.distributed.tensor._redistribute import (
    Redistribute,
    UsedInParts,
    local_of,
    of_gradient,
)
from rushlight.distributed.tensor.placement_types import Placement, Replicate
from rushlight.overrides import DisableTorchFunctionSubclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from rushlight.nn.modules.module import Module


class DTensor(Tensor):
    """A tensor that lies in parts in several processes. As a tensor of this process it has its
    part; `shape` is that of the whole.

    Made by `distribute_tensor` or `DTensor.from_local`. Operations compute with the parts where
    that gives the parts of the result, send what is missing where it does not, and compute with the
    whole in each process where neither is known. What gives or changes memory rather than elements
    (`numpy`, `resize_`, `as_strided`, `out=`) raises NotImplementedError by name: take `to_local()`
    or `full_tensor()`.
    """

    @staticmethod
    def _make(local, mesh, placements, shape):
        with DisableTorchFunctionSubclass():
            made = local.as_subclass(DTensor)
        made._mesh, made._placements = mesh, tuple(placements)
        made._shape = rushlight.Size(shape)
        return made

    def _like_this(self, local):
        """A DTensor of other parts that lies as this one does."""
        return DTensor._make(local, self._mesh, self._placements, self._shape)

    @property
    def device_mesh(self) -> Any:
        """The processes."""
        return self._mesh

    @property
    def placements(self) -> Any:
        """How it lies along each dim of the mesh."""
        return self._placements

    @property
    def _local_tensor(self):
        """This process's part, without history."""
        with DisableTorchFunctionSubclass():
            return self.as_subclass(Tensor).detach()

    @property
    def _spec(self):
        """How it lies, as one object."""
        meta = TensorMeta(self._shape, self.stride(), self.dtype)
        return DTensorSpec(self._mesh, self._placements, meta)

    @property
    def shape(self) -> Any:
        """The sizes of the whole."""
        return self._shape

    def size(self, dim: int | None = None) -> Any:
        """The sizes of the whole, or one of them."""
        return self._shape if dim is None else self._shape[dim]

    def numel(self) -> Any:
        """How many elements the whole has."""
        return self._shape.numel()

    nelement = numel

    def stride(self, dim: int | None = None) -> Any:
        """The strides that the whole would have, its dims in the order of the part's."""
        with DisableTorchFunctionSubclass():
            steps = Tensor.stride(self)
        strides, step = [0] * len(steps), 1
        # In the order of the part's, as wide as the whole.
        for i in sorted(range(len(steps)), key=lambda i: (steps[i], -i)):
            strides[i] = step
            step *= max(1, self._shape[i])
        return tuple(strides) if dim is None else strides[dim]

    def __len__(self) -> int:
        if not self._shape:
            raise TypeError("len() of a 0-d tensor")
        return self._shape[0]

    @property
    def grad(self) -> Tensor | None:
        """The gradient: it lies as the tensor does, or is whole if that is Partial."""
        with DisableTorchFunctionSubclass():
            found = Tensor.grad.__get__(self)
        if found is None or isinstance(found, DTensor):
            return found
        return DTensor._make(found, self._mesh, of_gradient(self._placements), self._shape)

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        with DisableTorchFunctionSubclass():
            if isinstance(value, DTensor):
                value = value.as_subclass(Tensor)
            Tensor.grad.__set__(self, value)

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    def register_hook(self, hook: Callable[[DTensor], Tensor | None]) -> Any:
        """Call a function with the gradient when it is computed.

        Args:
            hook: gets the gradient, which lies as this tensor does; what it returns takes its
                place, and may lie otherwise.
        """
        mesh, shape, placements = self._mesh, self._shape, of_gradient(self._placements)

        def of_part(grad):
            result = hook(DTensor._make(grad, mesh, placements, shape))
            if isinstance(result, DTensor):
                result = result.redistribute(placements=placements).to_local()
            return result

        with DisableTorchFunctionSubclass():
            return Tensor.register_hook(self, of_part)

    @staticmethod
    def from_local(
        local_tensor: Any,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        run_check: bool = False,
        shape: Any = None,
        stride: Any = None,
    ) -> Any:
        """A DTensor of the parts that the processes have.

        Args:
            local_tensor: this process's part.
            device_mesh: the processes.
            placements: how the parts lie; Replicate() by default.
            run_check: let replicated parts become those of the first process, once all parts are
                seen to have one dtype, and one shape and strides unless those are given.
            shape: of the whole; by default all parts are as large as this one.
            stride: of the whole, its dims in the order of the part's.

        Raises:
            RuntimeError: one of `shape` and `stride` is given without the other.
            ValueError: `run_check` finds parts that do not fit.
        """
        mesh = _mesh_or_current(device_mesh)
        placements = _normal(placements, mesh, local_tensor.dim())
        if (stride is None) is not (shape is None):
            raise RuntimeError("from_local: pass both shape and stride, or neither")
        is_given = shape is not None
        if not is_given:
            shape = list(local_tensor.shape)
            for i, placement in enumerate(placements):
                if placement._divides():
                    shape[placement.dim] *= mesh.size(i)
        if mesh.get_coordinate() is None:
            local_tensor = _nothing(local_tensor)
        elif run_check:
            _check_parts(local_tensor, mesh, shape_counts=not is_given)
            for i, placement in enumerate(placements):
                if placement.is_replicate():
                    with rushlight.no_grad():
                        collectives.broadcast(local_tensor, group=mesh.get_group(i), group_src=0)
        made = DTensor._make(local_tensor.view_as(local_tensor), mesh, placements, shape)
        if stride is not None and tuple(stride) != made.stride() and made.numel() > 1:
            raise NotImplementedError(
                f"from_local: stride {tuple(stride)}: the whole has the part's order, "
                f"{made.stride()}"
            )
        return made

    def to_local(self, *, grad_placements: Any = None) -> Any:
        """This process's part, with a gradient.

        Args:
            grad_placements: how the gradient lies; as the tensor by default. For a replicated
                tensor that each process uses in part, [Partial()].
        """
        with DisableTorchFunctionSubclass():
            local = self.as_subclass(Tensor)
            local = local.view_as(local)
        for i, placement in enumerate(grad_placements or ()):
            if placement.is_partial() and self._placements[i].is_replicate():
                local = UsedInParts.apply(local, self._mesh.get_group(i))
            elif placement != self._placements[i]:
                raise NotImplementedError(f"to_local: grad_placements {grad_placements}")
        return local

    def redistribute(
        self,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        async_op: bool = False,
        forward_dtype: Any = None,
        backward_dtype: Any = None,
    ) -> Any:  # fmt: skip
        """The same tensor, lying otherwise.

        Args:
            device_mesh: the mesh that it lies on.
            placements: how it is to lie.
            async_op: accepted; it is there when the call returns.
            forward_dtype, backward_dtype: None.
        """
        if device_mesh is not None and device_mesh != self._mesh:
            raise NotImplementedError("redistribute: from one mesh to another")
        if forward_dtype is not None or backward_dtype is not None or async_op not in (0, 1):
            raise NotImplementedError("redistribute: forward_dtype and backward_dtype")
        target = _normal(placements, self._mesh, len(self._shape))
        if target == self._placements:
            return self
        local = Redistribute.apply(
            self.to_local(), self._shape, self._mesh, self._placements, target
        )
        return DTensor._make(local, self._mesh, target, self._shape)

    def full_tensor(self, *, grad_placements: Any = None) -> Any:
        """The whole, as a plain tensor in each process."""
        whole = self.redistribute(placements=[Replicate()] * self._mesh.ndim)
        return whole.to_local(grad_placements=grad_placements)

    def __repr__(self) -> str:
        with DisableTorchFunctionSubclass():
            local = repr(self.as_subclass(Tensor))
        where = f"device_mesh={self._mesh}, placements={self._placements}"
        return f"DTensor(local_tensor={local}, {where})"

    def __format__(self, spec: str) -> str:
        return format(self.full_tensor(), spec) if not self._shape else repr(self)

    def __deepcopy__(self, memo: Any) -> Any:
        if id(self) not in memo:
            with rushlight.no_grad():
                local = self.to_local().detach().clone()
            made = DTensor._make(local, self._mesh, self._placements, self._shape)
            made.requires_grad_(self.requires_grad)
            if getattr(self, "_is_param", False):
                made._is_param = True
            memo[id(self)] = made
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return _of_part, (self._local_tensor, vars(self), self.requires_grad)

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        from rushlight.distributed.tensor import _operations

        return _operations.run(func, args, kwargs or {})


def _of_part(local, state, requires_grad):
    """A DTensor of this process's part, as pickle has it."""
    made = DTensor._make(local, state["_mesh"], state["_placements"], state["_shape"])
    vars(made).update(state)
    return made.requires_grad_(requires_grad)


def _nothing(tensor):
    """What a process outside of the mesh has of a tensor."""
    return tensor.new_empty(0 if tensor.dim() else (), requires_grad=tensor.requires_grad)


def _check_parts(local, mesh, shape_counts):
    """Raise unless the parts of all processes have one dtype, and one shape where that counts."""
    about = [str(local.dtype), local.requires_grad]
    if shape_counts:
        about += [tuple(local.shape), local.stride()]
    for i in range(mesh.ndim):
        group = mesh.get_group(i)
        of_all = [None] * group.size()
        objects.all_gather_object(of_all, about, group)
        if any(one != about for one in of_all):
            raise ValueError(
                "from_local: the parts differ in dtype, requires_grad, shape or strides along dim "
                f"{i} of the mesh: {of_all}"
            )


def _mesh_or_current(mesh):
    if mesh is not None:
        if not isinstance(mesh, DeviceMesh):
            raise TypeError(f"expected a DeviceMesh, got {type(mesh).__name__}")
        return mesh
    if not _stack:
        raise RuntimeError("No device mesh is currently active! Give device_mesh")
    return _stack[-1]


def _normal(placements, mesh, ndim):
    """A tuple of placements, dims counted from the front."""
    if placements is None:
        return (Replicate(),) * mesh.ndim
    placements = tuple(placements)
    if len(placements) != mesh.ndim:
        raise ValueError(
            f"`placements` must have the same length as `device_mesh.ndim`! Found placements "
            f"length: {len(placements)}, and device_mesh.ndim: {mesh.ndim}."
        )
    normal = []
    for placement in placements:
        if not isinstance(placement, Placement):
            raise TypeError(f"expected a Placement, got {placement!r}")
        if placement._divides():
            if not -ndim <= placement.dim < ndim:
                raise ValueError(f"{placement}: the tensor has {ndim} dims")
            if placement.dim < 0:
                placement = copy.copy(placement)
                placement.dim %= ndim
        normal.append(placement)
    return tuple(normal)


def distribute_tensor(
    tensor: Tensor,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> Any:
    """Divide a tensor among processes.

    Args:
        tensor: the whole, a leaf.
        device_mesh: the processes.
        placements: how it is to lie; Replicate() by default.
        src_data_rank: whose tensor counts; None: all have the same already.

    Returns:
        A DTensor; a Parameter for a Parameter.
    """
    mesh = _mesh_or_current(device_mesh)
    if isinstance(tensor, DTensor):
        if tensor.device_mesh != mesh:
            raise ValueError(
                f"distribute_tensor: a DTensor on {tensor.device_mesh} cannot be distributed to a "
                f"different device mesh, {mesh}"
            )
        if tensor.placements != _normal(placements, mesh, tensor.dim()):
            raise ValueError(
                f"distribute_tensor: a DTensor with {tensor.placements} cannot be distributed to a "
                f"different placements {placements}: redistribute() does that"
            )
        return tensor
    if not tensor.is_leaf:
        raise RuntimeError("`distribute_tensor` should be used to distribute leaf tensors!")
    placements = _normal(placements, mesh, tensor.dim())
    with rushlight.no_grad():
        whole = tensor.detach().clone()
        if not whole.is_meta:
            whole = whole.to(mesh.device_type)
        if mesh.get_coordinate() is None:
            whole = _nothing(whole)
        elif src_data_rank is not None and not whole.is_meta:
            for i in range(mesh.ndim):
                if mesh.size(i) > 1:
                    collectives.broadcast(whole, group=mesh.get_group(i), group_src=src_data_rank)
        start = (Replicate(),) * mesh.ndim
        local = local_of(whole, whole.shape, mesh, start, placements)
    made = DTensor._make(local, mesh, placements, tensor.shape)
    if isinstance(tensor, rushlight.nn.Parameter):
        return rushlight.nn.Parameter(made, requires_grad=tensor.requires_grad)
    return made.requires_grad_(tensor.requires_grad)


def distribute_module(
    module: Module,
    device_mesh: DeviceMesh | None = None,
    partition_fn: Any = None,
    input_fn: Any = None,
    output_fn: Any = None,
) -> Any:
    """Divide the parameters of a module among processes.

    Args:
        module: changed in place.
        device_mesh: the processes.
        partition_fn: partition_fn(name, submodule, mesh) replaces parameters by DTensors; what is
            left over is replicated.
        input_fn: input_fn(module, inputs, mesh) gives the inputs of forward.
        output_fn: output_fn(module, outputs, mesh) gives its outputs.
    """
    mesh = _mesh_or_current(device_mesh)
    for name, child in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, child, mesh)
        for key, parameter in list(child._parameters.items()):
            if parameter is not None and not isinstance(parameter, DTensor):
                child.register_parameter(key, distribute_tensor(parameter, mesh))
    if input_fn is not None:
        inputs_of = _with_module(input_fn, "input_fn", "inputs")
        module.register_forward_pre_hook(lambda mod, inputs: inputs_of(mod, inputs, mesh))
    if output_fn is not None:
        outputs_of = _with_module(output_fn, "output_fn", "outputs")
        module.register_forward_hook(lambda mod, inputs, outputs: outputs_of(mod, outputs, mesh))
    return module


def _with_module(function, name, what):
    """A function of module, values and mesh, for one of values and mesh: the older form."""
    if len(inspect.signature(function).parameters) != 2:
        return function
    warn_program(
        f"distribute_module: Deprecating {name}({what}, mesh): take {name}(module, {what}, mesh)",
        FutureWarning,
    )
    return lambda module, values, mesh: function(values, mesh)
